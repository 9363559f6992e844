//! Parses one profile text to a [`ProfileFile`], or reports all faults of its form: not TOML, another schema version,
//! unknown keys, wrong types and words. The meaning of values is checked elsewhere.

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer, Error};

use super::root::{ProfileFile, SCHEMA_VERSION};
use super::shipped::shipped;
use super::structure;
use crate::section::{Checker, SourceFile};

/// Limit of TOML syntax errors reported per file: further ones only repeat the cause.
const MOST_SYNTAX_ERRORS: usize = 5;

/// Reads one file. Reports faults of its form to the checker, and then returns `None`.
pub(super) fn read(checker: &mut Checker<'_>, file: SourceFile) -> Option<ProfileFile> {
    // Parsing the schema for the check costs more than the rest of reading a profile. A test checks the embedded texts.
    let is_shipped = shipped().iter().any(|shipped| shipped.text == file.text());
    let (text, start) = checker.add(file);
    let before = checker.errors();
    let table = table(checker, &text, start)?;
    if !is_shipped {
        structure::check(checker, &table);
    }
    if checker.errors() > before {
        return None;
    }
    let file = ProfileFile::deserialize(Deserializer::from(table));
    file.map_err(|error| report(checker, &error, start, "invalid-value", error.message())).ok()
}

/// Returns the first line, from 1, with a syntax error; `None`: the text is TOML.
pub(crate) fn not_toml_at(text: &str) -> Option<usize> {
    let (_, errors) = DeTable::parse_recoverable(text);
    let at = errors.first()?.span().map_or(0, |span| span.start).min(text.len());
    Some(text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1)
}

/// Returns the table of a text that starts at `start`.
fn table<'t>(
    checker: &mut Checker<'_>,
    text: &'t str,
    start: usize,
) -> Option<Spanned<DeTable<'t>>> {
    if text.trim().is_empty() {
        let help = "the smallest profile is one line: `schema = 1`";
        checker.error(start..start, "empty-file", "the profile is empty", "", Some(help));
        return None;
    }
    if let Some(at) = text.find('\0') {
        let message = "the profile contains a NUL byte";
        let help = "save it as UTF-8; a NUL byte comes from a damaged file or from UTF-16";
        checker.error(at..at + 1, "nul-byte", message, "", Some(help));
        return None;
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors.iter().take(MOST_SYNTAX_ERRORS) {
        report(checker, error, start, "not-toml", &format!("not TOML: {}", error.message()));
    }
    (errors.is_empty() && is_known_version(checker, table.get_ref(), start)).then_some(table)
}

/// Reports an error of the TOML parser; without a place of its own, at the start of the file.
fn report(checker: &mut Checker<'_>, error: &Error, start: usize, id: &'static str, message: &str) {
    checker.error(error.span().unwrap_or(start..start), id, message, "", None);
}

/// Files of another version are not checked by this version's rules.
fn is_known_version(checker: &mut Checker<'_>, table: &DeTable<'_>, start: usize) -> bool {
    let (place, id, message, label, help) = match table.get("schema").map(|v| (v, v.get_ref())) {
        None => (
            start..start,
            "missing-schema",
            "`schema` is missing".to_owned(),
            "",
            "write `schema = 1` as the first line: the version of the file format",
        ),
        Some((value, DeValue::Integer(version))) => {
            if i64::from_str_radix(version.as_str(), version.radix()) == Ok(SCHEMA_VERSION) {
                return true;
            }
            let message = format!(
                "unsupported schema {version}; this bedplate reads schema {SCHEMA_VERSION}"
            );
            let help = "use a bedplate that supports it, or rewrite the profile for schema 1";
            (value.span(), "unsupported-schema", message, "unsupported", help)
        }
        Some((value, _)) => {
            let message = "`schema` must be a number".to_owned();
            (value.span(), "wrong-type", message, "expected an integer", "write `schema = 1`")
        }
    };
    checker.error(place, id, message, label, Some(help));
    false
}
