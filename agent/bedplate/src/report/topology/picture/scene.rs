//! A drawing: groups of shapes with coordinates and hover text.

use textwrap::core::display_width;

/// Width of a character in pixels: the maximum of the requested monospace fonts at this size.
pub(in crate::report) const CHAR: i32 = 7;

/// A drawing.
#[derive(Debug, Default)]
pub(in crate::report) struct Scene {
    /// Width in pixels.
    pub width: i32,
    /// Height in pixels.
    pub height: i32,
    /// Title.
    pub title: String,
    /// Groups in drawing order.
    pub groups: Vec<Group>,
}

/// Shapes that belong together.
#[derive(Debug, Default)]
pub(in crate::report) struct Group {
    /// Id of a box, for the list of details on a page.
    pub id: Option<String>,
    /// Lines shown on hover.
    pub hover: Vec<String>,
    /// Shapes of the group.
    pub parts: Vec<Part>,
}

/// A shape.
#[derive(Debug)]
pub(in crate::report) enum Part {
    /// A box.
    Rect {
        /// Left, top, width, height.
        at: (i32, i32, i32, i32),
        /// CSS class.
        class: String,
    },
    /// A line with corners.
    Line {
        /// Corners.
        points: Vec<(i32, i32)>,
        /// CSS class.
        class: String,
    },
    /// One line of text.
    Text {
        /// Anchor position: start, end or middle of the text, and its baseline.
        at: (i32, i32),
        /// Part of the text at the position.
        anchor: Anchor,
        /// CSS class.
        class: String,
        /// Text.
        text: String,
    },
}

/// Part of a text that is at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::report) enum Anchor {
    /// Start of the text.
    Start,
    /// Middle of the text.
    Middle,
    /// End of the text.
    End,
}

impl Group {
    /// Creates a group with hover text.
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

/// Truncates the text to at most `columns` columns.
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

/// Returns the width of a text in pixels.
pub(in crate::report) fn width(text: &str) -> i32 {
    i32::try_from(display_width(text)).unwrap_or(i32::MAX / CHAR).saturating_mul(CHAR)
}
