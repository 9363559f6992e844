//! Insertion and removal of a property in a JSON object with comments: a removal undoes an insertion to the byte. Pure.

use std::ops::Range;

use jsonc_parser::ast::{Object, ObjectProp};
use serde_json::Value;

use bedplate_facts::cufile::{comments, without_comments};

/// Range of the text, and its replacement.
#[derive(Debug)]
pub(crate) struct Edit {
    at: Range<usize>,
    text: String,
}

impl Edit {
    /// Creates a replacement.
    pub(super) fn new(at: Range<usize>, text: impl Into<String>) -> Self {
        Edit { at, text: text.into() }
    }
}

/// Applies all edits; no two may touch the same bytes.
pub(super) fn apply(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| (edit.at.start, edit.at.end));
    let mut out = text.to_owned();
    for edit in edits.into_iter().rev() {
        out.replace_range(edit.at, &edit.text);
    }
    out
}

/// Formats a value for the file: lists have a blank after each comma.
pub(crate) fn source(value: &Value) -> String {
    match value {
        Value::Array(all) => format!("[{}]", all.iter().map(source).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];

/// Inserts a value after the last one of an object, on its own line if that one has its own. If there are several names,
/// all but the last name new objects around the value.
pub(crate) fn insertion(
    text: &str,
    root: &Object,
    object: &Object,
    names: &[String],
    value: &str,
) -> Vec<Edit> {
    let last = object.properties.last().map(|property| property.range);
    let from = last.map_or(object.range.start + 1, |last| last.end);
    let inner = &text[from..object.range.end - 1];
    let at = from + inner.trim_end_matches(BLANKS).len();
    let unit = root.properties.first().and_then(|first| own_line(text, first.range.start));
    let unit = unit.filter(|unit| !unit.is_empty()).unwrap_or("  ");
    let indent = match last {
        Some(last) => own_line(text, last.start).map(str::to_owned),
        None => inner.contains('\n').then(|| {
            let closing = text[..object.range.end - 1].rsplit('\n').next().unwrap_or_default();
            let blank = closing.len() - closing.trim_start_matches(BLANKS).len();
            format!("{}{unit}", &closing[..blank])
        }),
    };
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let layout = indent.map(|indent| Layout { newline, indent, unit });
    let property = nested(names, value, layout.as_ref());
    let comma = last.map(|last| Edit::new(last.end..last.end, ","));
    let (at, before) = match &layout {
        Some(Layout { newline, indent, .. }) => (at, format!("{newline}{indent}")),
        None if last.is_some() => (from, " ".to_owned()),
        None if inner.is_empty() => (at, String::new()),
        None => (at, " ".to_owned()),
    };
    comma.into_iter().chain([Edit::new(at..at, before + &property)]).collect()
}

/// Line layout of a file.
struct Layout<'t> {
    newline: &'t str,
    /// Indentation of the property.
    indent: String,
    /// Indentation of one level.
    unit: &'t str,
}

fn nested(names: &[String], value: &str, layout: Option<&Layout>) -> String {
    let (name, rest) = match names {
        [] => return value.to_owned(),
        [name, rest @ ..] => (Value::from(name.as_str()), rest),
    };
    match layout {
        _ if rest.is_empty() => format!("{name}: {value}"),
        None => format!("{name}: {{{}}}", nested(rest, value, None)),
        Some(Layout { newline, indent, unit }) => {
            let deeper = Layout { newline, indent: format!("{indent}{unit}"), unit };
            let inner = nested(rest, value, Some(&deeper));
            format!("{name}: {{{newline}{}{inner}{newline}{indent}}}", deeper.indent)
        }
    }
}

/// Returns the indentation of the line if `at` is its first non-blank position.
fn own_line(text: &str, at: usize) -> Option<&str> {
    let start = text[..at].rfind('\n')? + 1;
    let before = &text[start..at];
    before.trim_start_matches(BLANKS).is_empty().then_some(before)
}

/// Removes a property, with its comma and the blanks before it. Comments inside and after it stay.
pub(crate) fn removal(text: &str, object: &Object, property: &ObjectProp) -> Vec<Edit> {
    let plain = without_comments(text);
    let (start, end) = (property.range.start, property.range.end);
    let is_last = object.properties.last().is_some_and(|last| last.range == property.range);
    // Both commas exist: between two properties there is one, with only blanks and comments around it.
    let comma = match is_last {
        true => Some(plain[..start].trim_end_matches(BLANKS))
            .filter(|before| before.ends_with(','))
            .map(|before| before.len() - 1),
        false => plain[end..].find(',').map(|length| end + length),
    };
    let behind = comma.filter(|_| !is_last).map_or(end, |comma| comma + 1);
    let all = comments(text);
    let (mut kept, mut open) = (String::new(), false);
    for comment in all.iter().filter(|comment| (start..end).contains(&comment.start)) {
        kept.push_str(match kept.is_empty() {
            true => "",
            false if open => "\n",
            false => " ",
        });
        kept.push_str(&text[comment.clone()]);
        open = text[comment.clone()].starts_with("//");
    }
    let rest = text[behind..].trim_start_matches([' ', '\t']);
    let next = behind + (text[behind..].len() - rest.len());
    let ends_line = rest.starts_with(['\n', '\r']);
    if open && !ends_line {
        kept.push('\n');
    }
    let lead = text[..start].trim_end_matches(BLANKS).len();
    let in_comment = all.iter().any(|one| one.end == lead && text[one.clone()].starts_with("//"));
    // A comment stays on its line, and text after a line comment must not become part of it.
    let needs_line = rest.starts_with('/') || !kept.is_empty() || in_comment && !ends_line;
    let stays = needs_line && text[lead..start].contains('\n');
    let blanks = if stays && kept.is_empty() { behind..next } else { behind..behind };
    let mut edits = vec![Edit::new(start..end, kept), Edit::new(blanks, "")];
    edits.extend(comma.map(|comma| Edit::new(comma..comma + 1, "")));
    edits.extend((!stays).then(|| Edit::new(lead..start, "")));
    edits
}
