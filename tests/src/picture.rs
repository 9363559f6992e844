//! Positions of texts in bedplate's SVGs.

/// A text and its box.
#[derive(Debug)]
pub struct Text {
    /// Content.
    pub text: String,
    /// Estimated box (left, top, right, bottom), as wide as in the widest monospace font.
    pub place: [f64; 4],
}

/// Returns all texts.
///
/// # Errors
/// The SVG is not from bedplate, or a text is outside of it.
pub fn texts(svg: &str) -> Result<Vec<Text>, String> {
    let document = roxmltree::Document::parse(svg).map_err(|error| error.to_string())?;
    let root = document.root_element();
    let view = root.attribute("viewBox").unwrap_or_default();
    let view: Vec<f64> = view.split(' ').filter_map(|number| number.parse().ok()).collect();
    let [_, _, width, height] = view[..] else { return Err("no viewBox".into()) };
    let mut texts = Vec::new();
    for node in root.descendants().filter(|node| node.has_tag_name("text")) {
        let number = |name| node.attribute(name).and_then(|text| text.parse::<f64>().ok());
        let (Some(x), Some(y)) = (number("x"), number("y")) else {
            return Err("a text without a place".into());
        };
        let text = node.text().unwrap_or_default().to_owned();
        let classes: Vec<&str> = node.attribute("class").unwrap_or_default().split(' ').collect();
        let size = if classes.contains(&"title") { 14.0 } else { 11.0 };
        let wide = text.chars().count() as f64 * size * 0.62;
        let left = match (classes.contains(&"middle"), classes.contains(&"end")) {
            (true, _) => x - wide / 2.0,
            (_, true) => x - wide,
            _ => x,
        };
        let place = [left, y - size * 0.8, left + wide, y + size * 0.2];
        if left < 0.0 || place[1] < 0.0 || place[2] > width || place[3] > height {
            return Err(format!("`{text}` is outside of the picture: {place:?}"));
        }
        texts.push(Text { text, place });
    }
    Ok(texts)
}

/// Checks that texts do not overlap.
///
/// # Errors
/// Two texts overlap.
pub fn apart(texts: &[Text]) -> Result<(), String> {
    for (nth, one) in texts.iter().enumerate() {
        let over = |other: &&Text| {
            let ([a, b, c, d], [e, f, g, h]) = (one.place, other.place);
            a < g && e < c && b < h && f < d
        };
        if let Some(other) = texts[nth + 1..].iter().find(over) {
            return Err(format!("{one:?} overlaps {other:?}"));
        }
    }
    Ok(())
}
