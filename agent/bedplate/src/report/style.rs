//! Styles of reports, and the only conversion of a report to terminal text.
//!
//! Reports contain text of hosts and profiles, which must not control a terminal. So reports have no escape sequences
//! at all: [`paint`] sets marks, and [`terminal()`] converts them to sequences and escapes control characters.

use anstyle::{AnsiColor, Color};

use bedplate_base::terminal;

/// A display style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    /// Mark before the text in a report: a Unicode noncharacter, which interchanged text does not contain. If text of a
    /// host contains one, it only gets a color.
    mark: char,
    ansi: anstyle::Style,
}

/// Something that will be added or is converged.
pub(crate) const GOOD: Style = color('\u{fdd1}', AnsiColor::Green);
/// Something that will be removed.
pub(crate) const GONE: Style = color('\u{fdd2}', AnsiColor::Red);
/// Something that changes, waits, or is unknown.
pub(crate) const WARN: Style = color('\u{fdd3}', AnsiColor::Yellow);
/// A blocker or failure.
pub(crate) const BAD: Style =
    Style { mark: '\u{fdd4}', ansi: color('\u{fdd4}', AnsiColor::Red).ansi.bold() };
/// A heading.
pub(crate) const HEAD: Style = Style { mark: '\u{fdd5}', ansi: anstyle::Style::new().bold() };
/// Reasons, sources, notes.
pub(crate) const FAINT: Style = Style { mark: '\u{fdd6}', ansi: anstyle::Style::new().dimmed() };

const STYLES: [Style; 6] = [GOOD, GONE, WARN, BAD, HEAD, FAINT];
/// Mark that ends any style.
const END: char = '\u{fdd0}';

const fn color(mark: char, color: AnsiColor) -> Style {
    Style { mark, ansi: anstyle::Style::new().fg_color(Some(Color::Ansi(color))) }
}

/// Returns `text` in `style`.
pub(crate) fn paint(style: Style, text: &str) -> String {
    format!("{}{text}{END}", style.mark)
}

/// Converts a report to text for a terminal. Keeps lines and tabs, converts marks to escape sequences (which the stream
/// removes without color), and escapes every other character that could control a terminal or reorder a line.
pub fn terminal(report: &str) -> String {
    let mut out = String::with_capacity(report.len());
    let mut painted = false;
    for character in report.chars() {
        if character == END {
            out.push_str(&anstyle::Reset.render().to_string());
            painted = false;
        } else if let Some(style) = STYLES.iter().find(|style| style.mark == character) {
            out.push_str(&style.ansi.render().to_string());
            painted = true;
        } else {
            terminal::push(&mut out, character);
        }
    }
    if painted {
        out.push_str(&anstyle::Reset.render().to_string());
    }
    out
}

/// Removes the marks from a report, for output without escape sequences.
pub(crate) fn strip_marks(report: &str) -> String {
    report.chars().filter(|c| *c != END && STYLES.iter().all(|style| style.mark != *c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn marks_become_color_and_plain_text_is_unchanged() {
        assert_eq!(terminal(&paint(GOOD, "+ iommu=pt")), "\x1b[32m+ iommu=pt\x1b[0m");
        assert_eq!(terminal("a → b\n\tc é 日本\n"), "a → b\n\tc é 日本\n");
    }

    #[test]
    fn unclosed_mark_in_text_ends_with_the_report() {
        assert_eq!(terminal("x\u{fdd4}y\n"), "x\x1b[1m\x1b[31my\n\x1b[0m");
    }

    proptest! {
        #[test]
        fn no_sequence_survives(text in "\\PC*|[\\x00-\\xff\u{200e}\u{2066}]*|(\x1b\\[[0-9;]*[a-zA-Z])*") {
            let shown = terminal(&text);
            // Remaining sequences are bedplate's own colors.
            let ours: Vec<String> = STYLES.iter().map(|style| style.ansi.render().to_string()).collect();
            let mut rest = shown.replace("\x1b[0m", "");
            for sequence in ours.iter().rev() {
                rest = rest.replace(sequence.as_str(), "");
            }
            prop_assert!(!rest.chars().any(|c| terminal::is_control(c) && c != '\n' && c != '\t'), "{rest:?}");
            if !text.contains(|c| ('\u{fdd0}'..='\u{fdd6}').contains(&c)) {
                prop_assert!(!shown.contains('\x1b'));
            }
        }
    }
}
