//! The heading of every file that bedplate writes, and reasons as comments. Pure.

use std::fmt::Write as _;

use crate::plan::Rationale;
use bedplate_base::terminal::is_control;

/// Start of the heading, after the comment mark.
pub(crate) const HEADING: &str = "written by bedplate";
const WRITTEN: &str = "written by bedplate from profile ";

/// Returns the heading of every text file that bedplate writes, without a comment mark.
///
/// It contains no date: the same profile gives the same bytes.
pub fn heading(profile: &str) -> String {
    format!("{WRITTEN}{}; changes made here are overwritten\n", one_line(profile))
}

/// Whether a line is [`heading`] as a comment, for any profile.
pub fn is_heading(line: &str) -> bool {
    let text = line.strip_prefix('#').or_else(|| line.strip_prefix("//"));
    text.is_some_and(|text| text.trim_start().starts_with(WRITTEN))
}

/// Returns the lines of a file that contain its heading.
pub fn head(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take(3)
}

/// Returns [`heading`] as a comment; `mark` begins one in that file's language.
pub(crate) fn header(mark: &str, profile: &str) -> String {
    format!("{mark} {}", heading(profile))
}

/// Returns one comment line per reason, with its source in brackets, unless that is only the profile's line.
pub fn reasons(mark: &str, why: &[Rationale]) -> String {
    let mut text = String::new();
    for Rationale { reason, source, is_place } in why {
        let _ = write!(text, "{mark} {}", one_line(reason));
        match source.as_ref().filter(|_| !is_place) {
            Some(source) => _ = writeln!(text, " [{}]", one_line(source)),
            None => _ = writeln!(text),
        }
    }
    text
}

/// Returns a text as one line that cannot join the next: control characters and line separators (YAML ends comments at
/// U+2028) are replaced by spaces, and a backslash at the end (libkmod and shells join lines there) gets a full stop.
fn one_line(text: &str) -> String {
    let line: String = text.chars().map(|c| if is_control(c) { ' ' } else { c }).collect();
    let line = line.trim();
    if line.ends_with('\\') { format!("{line}.") } else { line.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heading_has_one_line_in_every_format() {
        let name = "a\u{2028}kind: x\u{2029}y\u{85}z\n\u{202e}w";
        let text = heading(name);
        assert_eq!(text.chars().filter(|c| is_control(*c)).count(), 1, "{text:?}");
        let why = vec![Rationale::because("b\u{2028}c")];
        assert_eq!(reasons("#", &why), "# b c\n");
    }
}
