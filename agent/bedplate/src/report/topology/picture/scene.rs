//! A drawing: shapes with coordinates, in groups of which each says what was read.

use textwrap::core::display_width;

/// Width of a character in pixels: of the monospace fonts that are asked for none has wider ones at this size.
pub(in crate::report) const CHAR: i32 = 7;

/// A drawing.
#[derive(Debug, Default)]
pub(in crate::report) struct Scene {
    /// Pixels.
    pub width: i32,
    /// Pixels.
    pub height: i32,
    /// What it is a picture of.
    pub title: String,
    /// In the order in which they are drawn.
    pub groups: Vec<Group>,
}

/// What belongs together.
#[derive(Debug, Default)]
pub(in crate::report) struct Group {
    /// Of a box: what it is called where a page lists what was read.
    pub id: Option<String>,
    /// What is shown when it is pointed at.
    pub hover: Vec<String>,
    /// Its shapes.
    pub parts: Vec<Part>,
}

/// A shape.
#[derive(Debug)]
pub(in crate::report) enum Part {
    /// A box.
    Rect {
        /// Left, top, width, height.
        at: (i32, i32, i32, i32),
        /// How it looks.
        class: String,
    },
    /// A line with corners.
    Line {
        /// Corners.
        points: Vec<(i32, i32)>,
        /// How it looks.
        class: String,
    },
    /// One line of text.
    Text {
        /// Where it starts, ends or has its middle; the line on which its letters stand.
        at: (i32, i32),
        /// Which of these.
        anchor: Anchor,
        /// How it looks.
        class: String,
        /// Text.
        text: String,
    },
}

/// What of a text is at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::report) enum Anchor {
    /// Its start.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

impl Group {
    /// A group that says something.
    pub(in crate::report) fn new(hover: Vec<String>) -> Self {
        Group { id: None, hover, parts: Vec::new() }
    }

    pub(in crate::report) fn rect(&mut self, at: (i32, i32, i32, i32), class: impl Into<String>) {
        self.parts.push(Part::Rect { at, class: class.into() });
    }

    pub(in crate::report) fn line(&mut self, points: &[(i32, i32)], class: impl Into<String>) {
        self.parts.push(Part::Line { points: points.to_vec(), class: class.into() });
    }

    pub(in crate::report) fn text(
        &mut self,
        at: (i32, i32),
        anchor: Anchor,
        class: impl Into<String>,
        text: impl Into<String>,
    ) {
        self.parts.push(Part::Text { at, anchor, class: class.into(), text: text.into() });
    }
}

/// The text in at most so many columns.
pub(in crate::report) fn cut(text: &str, columns: usize) -> String {
    if display_width(text) <= columns {
        return text.to_owned();
    }
    let mut out = String::new();
    for character in text.chars() {
        out.push(character);
        if display_width(&out) >= columns {
            out.pop();
            break;
        }
    }
    out + "…"
}

/// How wide a text is.
pub(in crate::report) fn width(text: &str) -> i32 {
    i32::try_from(display_width(text)).unwrap_or(i32::MAX / CHAR).saturating_mul(CHAR)
}
