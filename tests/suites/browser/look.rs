//! Measurements of a page in Chromium, and the flaws found in them.

use std::path::Path;

use serde::Deserialize;

use super::chromium::Browser;

/// Script evaluated by the developer tools.
const MEASURE: &str = include_str!("measure.js");
/// Least contrast between a text and its background (WCAG 2.1, 1.4.3).
const CONTRAST: f64 = 4.5;
/// Pixels that boxes may share: table cells share borders, and positions are rounded.
const SHARED: f64 = 1.0;

/// Measurements of a page, in CSS pixels.
#[derive(Debug, Deserialize)]
pub struct Measured {
    pub texts: Vec<Text>,
    frame: Option<[f64; 4]>,
    wide: f64,
    window: f64,
    pub tall: f64,
    scripts: usize,
    /// Colour of the picture's background.
    pub paper: Option<String>,
}

/// A text and its position: left, top, right, bottom.
#[derive(Debug, Deserialize)]
pub struct Text {
    pub text: String,
    drawn: bool,
    place: [f64; 4],
    /// Box that contains the text.
    #[serde(rename = "box")]
    around: Option<[f64; 4]>,
    /// Whether it is a part of a line.
    inline: bool,
    /// Indices of the texts that contain it.
    within: Vec<usize>,
    /// `None`: scrolled out of the window.
    contrast: Option<f64>,
}

/// Measures the open page.
pub fn measure(browser: &mut Browser) -> Measured {
    serde_json::from_value(browser.evaluate(MEASURE)).expect("what the script says")
}

/// Returns the layout flaws of a page: overflow, scripts, low contrast, overlapping texts.
pub fn flaws(measured: &Measured) -> Vec<String> {
    let mut flaws = Vec::new();
    if measured.wide > measured.window {
        flaws.push(format!("{} pixels wide in a window of {}", measured.wide, measured.window));
    }
    if measured.scripts > 0 {
        flaws.push(format!("{} scripts", measured.scripts));
    }
    for (nth, one) in measured.texts.iter().enumerate() {
        let frame = measured.frame.filter(|_| one.drawn);
        for (outer, what) in [(one.around, "its box"), (frame, "the picture")] {
            if outer.is_some_and(|outer| !within(one.place, outer)) {
                flaws.push(format!("{:?} at {:?} leaves {what} {outer:?}", one.text, one.place));
            }
        }
        if let Some(contrast) = one.contrast.filter(|contrast| *contrast < CONTRAST) {
            flaws.push(format!("{:?} has a contrast of {contrast:.2}", one.text));
        }
        for (at, other) in measured.texts.iter().enumerate().skip(nth + 1) {
            let is_nested = other.within.contains(&nth) || one.within.contains(&at);
            let is_inline = one.inline || other.inline;
            if !is_nested && !is_inline && overlap(one.place, other.place) {
                flaws.push(format!(
                    "{:?} at {:?} and {:?} at {:?} overlap",
                    one.text, one.place, other.text, other.place
                ));
            }
        }
    }
    flaws
}

fn within(inner: [f64; 4], outer: [f64; 4]) -> bool {
    inner[0] >= outer[0] - SHARED
        && inner[1] >= outer[1] - SHARED
        && inner[2] <= outer[2] + SHARED
        && inner[3] <= outer[3] + SHARED
}

fn overlap([a, b, c, d]: [f64; 4], [e, f, g, h]: [f64; 4]) -> bool {
    a < g - SHARED && e < c - SHARED && b < h - SHARED && f < d - SHARED
}

/// Returns requests for anything but the page itself, and violations of its policy.
pub fn strays(browser: &mut Browser, file: &Path) -> Vec<String> {
    let own = format!("file://{}", file.display());
    let (requests, complaints) = browser.requests_and_complaints();
    assert!(requests.contains(&own), "requests are not seen: {requests:?}");
    let others = requests.into_iter().filter(|url| url.split('#').next() != Some(&own));
    others.chain(complaints).collect()
}

/// Returns the parts of a page's text that could load or link to something outside it.
pub fn ways_out(text: &str) -> Vec<String> {
    // The SVG namespace is an address that is never requested.
    let text = text.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    let mut found = Vec::new();
    for (what, allowed) in [
        ("://", None),
        ("url(", None),
        ("@import", None),
        ("<script", None),
        (" src", None),
        (" srcset", None),
        ("http-equiv=\"refresh", None),
        ("href=\"", Some('#')),
    ] {
        let places = text.match_indices(what).map(|(at, _)| &text[at + what.len()..]);
        let wrong = places.filter(|rest| allowed.is_none() || rest.chars().next() != allowed);
        found.extend(
            wrong.map(|rest| format!("{what}{}", rest.chars().take(40).collect::<String>())),
        );
    }
    found
}

/// Returns the number of pages of a PDF, and their sizes in points.
pub fn pages(pdf: &[u8]) -> (usize, Vec<(u32, u32)>) {
    let text = String::from_utf8_lossy(pdf);
    let count = text.matches("/Type /Page\n").count();
    let sizes = text.split("/MediaBox [").skip(1).filter_map(|rest| {
        let numbers = rest.split(']').next()?.split_whitespace();
        let numbers: Vec<f64> = numbers.filter_map(|number| number.parse().ok()).collect();
        let [0.0, 0.0, width, height] = numbers[..] else { return None };
        Some((width.round() as u32, height.round() as u32))
    });
    (count, sizes.collect())
}
