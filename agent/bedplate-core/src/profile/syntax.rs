//! One profile text → one [`ProfileFile`], or everything that is wrong with its form: not TOML, another schema version,
//! unknown keys, wrong types and words. What the values mean is not looked at here.

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use super::root::{ProfileFile, SCHEMA_VERSION};
use super::shipped::shipped;
use super::structure;
use crate::section::{Diagnostic, Place, SourceFile, Sources};

/// More than this many complaints of the TOML parser about one file only repeat each other.
const MOST_SYNTAX_ERRORS: usize = 5;

/// Reads one file and adds it to the sources. What is wrong goes to `out`; then there is no file.
pub(super) fn read(
    sources: &mut Sources,
    file: SourceFile,
    out: &mut Vec<Diagnostic>,
) -> Option<ProfileFile> {
    // With blanks in place of the files before it, each span is a place in the sources.
    let is_shipped = shipped().iter().any(|shipped| shipped.text == file.text());
    let text = file.text().to_owned();
    let start = sources.add(file);
    let text = format!("{:start$}{text}", "");
    let table = table(sources, start, &text, is_shipped).map_err(|found| out.extend(found)).ok()?;
    match ProfileFile::deserialize(Deserializer::from(table)) {
        Ok(file) => Some(file),
        Err(error) => {
            let place = error.span().unwrap_or(start..start).into();
            out.push(Diagnostic::error(sources, place, "invalid-value", error.message()));
            None
        }
    }
}

/// The first line, from 1, with a syntax error; `None`: the text is TOML.
pub(crate) fn not_toml_at(text: &str) -> Option<usize> {
    let (_, errors) = DeTable::parse_recoverable(text);
    let at = errors.first()?.span().map_or(0, |span| span.start).min(text.len());
    Some(text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1)
}

/// The table of a text that starts at `start`, or everything that is wrong with its form.
fn table<'t>(
    sources: &Sources,
    start: usize,
    text: &'t str,
    is_shipped: bool,
) -> Result<Spanned<DeTable<'t>>, Vec<Diagnostic>> {
    unfit_text(sources, start, text).map_or(Ok(()), |problem| Err(vec![problem]))?;
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let diagnostic = |error: &toml::de::Error| {
            let place = error.span().unwrap_or(start..start).into();
            let message = format!("not TOML: {}", error.message());
            Diagnostic::error(sources, place, "not-toml", message)
        };
        return Err(errors.iter().take(MOST_SYNTAX_ERRORS).map(diagnostic).collect());
    }
    wrong_version(sources, start, table.get_ref()).map_or(Ok(()), |problem| Err(vec![problem]))?;
    // Building the schema to check against costs more than all the rest of reading a profile; for the texts inside the
    // program a test has done it.
    if is_shipped {
        return Ok(table);
    }
    let problems = structure::check(sources, &table);
    if problems.is_empty() { Ok(table) } else { Err(problems) }
}

/// What makes a text no text for a TOML parser.
fn unfit_text(sources: &Sources, start: usize, text: &str) -> Option<Diagnostic> {
    if text.trim().is_empty() {
        let start = Place::from(start..start);
        return Some(
            Diagnostic::error(sources, start, "empty-file", "the profile is empty")
                .help("the smallest profile is one line: `schema = 1`"),
        );
    }
    let at = text.find('\0')?;
    Some(
        Diagnostic::error(sources, Place::from(at..at + 1), "nul-byte", "the profile holds a NUL byte")
            .help("a profile is UTF-8 text; a NUL comes from a damaged file or from UTF-16: save it again as UTF-8"),
    )
}

/// Another version's file is not judged by this version's rules.
fn wrong_version(sources: &Sources, start: usize, table: &DeTable<'_>) -> Option<Diagnostic> {
    let Some(value) = table.get("schema") else {
        let start = Place::from(start..start);
        return Some(
            Diagnostic::error(sources, start, "missing-schema", "`schema` is missing").help(
                "write `schema = 1` as the first line: it names the version of the file format",
            ),
        );
    };
    let place = Place::from(value.span());
    let DeValue::Integer(version) = value.get_ref() else {
        return Some(
            Diagnostic::error(sources, place, "wrong-type", "`schema` must be a number")
                .label("expected an integer")
                .help("write `schema = 1`"),
        );
    };
    if i64::from_str_radix(version.as_str(), version.radix()) == Ok(SCHEMA_VERSION) {
        return None;
    }
    Some(
        Diagnostic::error(
            sources,
            place,
            "unsupported-schema",
            format!("schema {version} is not known; this bedplate reads schema {SCHEMA_VERSION}"),
        )
        .label("not known")
        .help("use a bedplate that reads it, or rewrite the profile for schema 1"),
    )
}
