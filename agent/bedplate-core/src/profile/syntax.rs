//! One profile text → one [`Fragment`], or everything that is wrong with its form: not TOML, another schema version,
//! unknown keys, wrong types and words. What the values mean is not looked at here.

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use super::root::{Fragment, SCHEMA_VERSION};
use super::shipped::shipped;
use super::structure;
use crate::section::{Diagnostic, Place, Sources};

/// More than this many complaints of the TOML parser about one file only repeat each other.
const MOST_SYNTAX_ERRORS: usize = 5;

/// Reads one file. What is wrong goes to `out`; then there is no fragment.
pub(super) fn read(sources: &Sources, index: usize, out: &mut Vec<Diagnostic>) -> Option<Fragment> {
    let file = sources.file(index);
    let found = problems(sources, index, file.text());
    match found {
        Ok(table) => match Fragment::deserialize(Deserializer::from(table)) {
            Ok(fragment) => Some(fragment),
            Err(error) => {
                let place = Place::new(index, error.span().unwrap_or(0..0));
                out.push(Diagnostic::error(sources, place, "invalid-value", error.message()));
                None
            }
        },
        Err(problems) => {
            out.extend(problems);
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

fn problems<'t>(
    sources: &Sources,
    index: usize,
    text: &'t str,
) -> Result<Spanned<DeTable<'t>>, Vec<Diagnostic>> {
    unfit_text(sources, index, text).map_or(Ok(()), |problem| Err(vec![problem]))?;
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Err(errors
            .iter()
            .take(MOST_SYNTAX_ERRORS)
            .map(|error| {
                let place = Place::new(index, error.span().unwrap_or(0..0));
                Diagnostic::error(
                    sources,
                    place,
                    "not-toml",
                    format!("not TOML: {}", error.message()),
                )
            })
            .collect());
    }
    wrong_version(sources, index, table.get_ref()).map_or(Ok(()), |problem| Err(vec![problem]))?;
    // Building the schema to check against costs more than all the rest of reading a profile; for the texts inside the
    // program a test has done it.
    if shipped().iter().any(|shipped| shipped.text == text) {
        return Ok(table);
    }
    let problems = structure::check(sources, index, &table);
    if problems.is_empty() { Ok(table) } else { Err(problems) }
}

/// What makes a text no text for a TOML parser.
fn unfit_text(sources: &Sources, index: usize, text: &str) -> Option<Diagnostic> {
    if text.trim().is_empty() {
        let start = Place::new(index, 0..0);
        return Some(
            Diagnostic::error(sources, start, "empty-file", "the profile is empty")
                .help("the smallest profile is one line: `schema = 1`"),
        );
    }
    let at = text.find('\0')?;
    Some(
        Diagnostic::error(sources, Place::new(index, at..at + 1), "nul-byte", "the profile holds a NUL byte")
            .help("a profile is UTF-8 text; a NUL comes from a damaged file or from UTF-16: save it again as UTF-8"),
    )
}

/// Another version's file is not judged by this version's rules.
fn wrong_version(sources: &Sources, index: usize, table: &DeTable<'_>) -> Option<Diagnostic> {
    let Some(value) = table.get("schema") else {
        let start = Place::new(index, 0..0);
        return Some(
            Diagnostic::error(sources, start, "missing-schema", "`schema` is missing").help(
                "write `schema = 1` as the first line: it names the version of the file format",
            ),
        );
    };
    let place = Place::new(index, value.span());
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
