//! The few styles that reports use, and the one place where a report becomes text for a terminal.
//!
//! Reports hold texts of hosts and profiles, which must not steer a terminal. So a report has no escape sequences of its
//! own either: [`paint`] sets marks; [`terminal()`] turns them into sequences, and shows what steers as its code.

use anstyle::{AnsiColor, Color};

use bedplate_base::terminal;

/// How something is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    /// Stands before the text in a report: a Unicode noncharacter, which no text that is interchanged holds. A host
    /// text that holds one all the same gets a colour, and nothing worse.
    mark: char,
    ansi: anstyle::Style,
}

/// Something that will be added or is right.
pub(crate) const GOOD: Style = color('\u{fdd1}', AnsiColor::Green);
/// Something that will go away.
pub(crate) const GONE: Style = color('\u{fdd2}', AnsiColor::Red);
/// Something that changes, waits, or is not known.
pub(crate) const WARN: Style = color('\u{fdd3}', AnsiColor::Yellow);
/// A blocker or failure.
pub(crate) const BAD: Style =
    Style { mark: '\u{fdd4}', ansi: color('\u{fdd4}', AnsiColor::Red).ansi.bold() };
/// A heading.
pub(crate) const HEAD: Style = Style { mark: '\u{fdd5}', ansi: anstyle::Style::new().bold() };
/// Reasons, sources, marginal remarks.
pub(crate) const FAINT: Style = Style { mark: '\u{fdd6}', ansi: anstyle::Style::new().dimmed() };

const STYLES: [Style; 6] = [GOOD, GONE, WARN, BAD, HEAD, FAINT];
/// Ends any style.
const END: char = '\u{fdd0}';

const fn color(mark: char, color: AnsiColor) -> Style {
    Style { mark, ansi: anstyle::Style::new().fg_color(Some(Color::Ansi(color))) }
}

/// `text` in `style`.
pub(crate) fn paint(style: Style, text: &str) -> String {
    format!("{}{text}{END}", style.mark)
}

/// A report as it may go to a terminal: lines and tabs stay, marks become escape sequences (which the stream drops
/// where nobody sees colour), and whatever else could steer a terminal or reorder a line is shown as its code.
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

/// A report without its marks, for where there are no escape sequences.
pub(crate) fn strip_marks(report: &str) -> String {
    report.chars().filter(|c| *c != END && STYLES.iter().all(|style| style.mark != *c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn marks_become_colour_and_plain_text_stays() {
        assert_eq!(terminal(&paint(GOOD, "+ iommu=pt")), "\x1b[32m+ iommu=pt\x1b[0m");
        assert_eq!(terminal("a → b\n\tc é 日本\n"), "a → b\n\tc é 日本\n");
    }

    #[test]
    fn a_mark_in_a_text_ends_with_the_report() {
        assert_eq!(terminal("x\u{fdd4}y\n"), "x\x1b[1m\x1b[31my\n\x1b[0m");
    }

    proptest! {
        #[test]
        fn no_sequence_survives(text in "\\PC*|[\\x00-\\xff\u{200e}\u{2066}]*|(\x1b\\[[0-9;]*[a-zA-Z])*") {
            let shown = terminal(&text);
            // Whatever sequences are left are colours of ours.
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
