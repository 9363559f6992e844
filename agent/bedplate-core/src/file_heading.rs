//! The heading of every file that bedplate writes, and reasons as comments. Pure.

use std::fmt::Write as _;

use crate::plan::Rationale;

/// Start of the heading, after the comment mark.
pub(crate) const HEADING: &str = "written by bedplate";
const WRITTEN: &str = "written by bedplate from profile ";

/// What stands at the top of every text file that bedplate writes, without a comment mark.
///
/// There is no date in it: the same profile gives the same bytes.
pub fn heading(profile: &str) -> String {
    format!("{WRITTEN}{}; changes made here are overwritten\n", one_line(profile))
}

/// Whether a line is [`heading`] as a comment, of whichever profile.
pub fn is_heading(line: &str) -> bool {
    let text = line.strip_prefix('#').or_else(|| line.strip_prefix("//"));
    text.is_some_and(|text| text.trim_start().starts_with(WRITTEN))
}

/// The lines of a file which its heading is in.
pub fn head(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take(3)
}

/// [`heading`] as a comment; `mark` opens one in that file's language.
pub(crate) fn header(mark: &str, profile: &str) -> String {
    format!("{mark} {}", heading(profile))
}

/// One comment line for each reason, with its source in brackets, but not where the profile says so.
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

/// A text as one line that cannot run into the next: control characters become spaces, and a backslash at the end
/// (libkmod and shells join lines there) gets a full stop.
fn one_line(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = line.trim();
    if line.ends_with('\\') { format!("{line}.") } else { line.to_owned() }
}
