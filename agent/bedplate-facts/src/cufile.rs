//! Parser for /etc/cufile.json, the configuration of GPUDirect Storage's library (handbook §6.4): JSON with comments.
//! Reports the line of a mistake. Pure.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use jsonc_parser::ast::{Object, Value as Node};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// Default path; CUFILE_ENV_PATH_JSON overrides it.
pub const PATH: &str = "/etc/cufile.json";

/// Settings that bedplate evaluates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Direct access to NVMe disks through the kernel's own P2PDMA, without nvidia-fs.
    pub p2pdma: bool,
    /// Copying through host memory where there is no direct path.
    pub compat: bool,
}

impl Default for Settings {
    /// Returns the library's defaults.
    fn default() -> Self {
        Settings { p2pdma: false, compat: true }
    }
}

/// A mistake in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mistake {
    /// Line number, from 1.
    pub line: usize,
    /// Kind of mistake.
    pub problem: Problem,
}

/// Kinds of mistakes in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Problem {
    /// Not JSON.
    Syntax,
    /// JSON, but not an object.
    NoObject,
    /// A value of the wrong type.
    Type {
        /// Setting or section; `None`: a file system whose name is unknown.
        key: Option<&'static str>,
        /// Required type.
        expected: Type,
    },
    /// A known setting or section that occurs twice.
    Twice {
        /// As in [`Problem::Type`].
        key: Option<&'static str>,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Syntax => write!(f, "not valid JSON"),
            Problem::NoObject => write!(f, "not a JSON object"),
            Problem::Type { key: Some(key), expected } => {
                write!(f, "`{key}` must be {}", expected.description())
            }
            Problem::Type { key: None, expected } => {
                write!(f, "expected {}", expected.description())
            }
            Problem::Twice { key: Some(key) } => write!(f, "duplicate `{key}`"),
            Problem::Twice { key: None } => write!(f, "duplicate name"),
        }
    }
}

/// Type of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Type {
    /// `true` or `false`.
    Switch,
    /// A whole number ≥ 0.
    Number,
    /// A string.
    Text,
    /// A list of strings.
    Texts,
    /// An object with one key per mount point.
    Table,
    /// An object of settings.
    Section,
}

impl Type {
    /// Whether `value` has this type.
    pub fn fits(self, value: &Value) -> bool {
        match self {
            Type::Switch => value.is_boolean(),
            Type::Number => value.is_u64(),
            Type::Text => value.is_string(),
            Type::Texts => value.as_array().is_some_and(|all| all.iter().all(Value::is_string)),
            Type::Table | Type::Section => value.is_object(),
        }
    }

    /// Returns the human-readable name.
    pub fn description(self) -> &'static str {
        match self {
            Type::Switch => "`true` or `false`",
            Type::Number => "a whole number",
            Type::Text => "a string",
            Type::Texts => "a list of strings",
            Type::Table | Type::Section => "an object",
        }
    }
}

const P2PDMA: &str = "properties.use_pci_p2pdma";
const COMPAT: &str = "properties.allow_compat_mode";

/// Types of settings by path; `*` matches any file system.
const TYPES: &[(&str, Type)] = &[
    ("logging.dir", Type::Text),
    ("logging.level", Type::Text),
    ("properties.max_direct_io_size_kb", Type::Number),
    ("properties.max_device_cache_size_kb", Type::Number),
    ("properties.max_device_pinned_mem_size_kb", Type::Number),
    (COMPAT, Type::Switch),
    ("properties.use_poll_mode", Type::Switch),
    (P2PDMA, Type::Switch),
    ("properties.rdma_dev_addr_list", Type::Texts),
    ("properties.rdma_load_balancing_policy", Type::Text),
    ("properties.rdma_dynamic_routing", Type::Switch),
    ("fs.*.posix_unaligned_writes", Type::Switch),
    ("fs.*.posix_gds_min_kb", Type::Number),
    ("fs.*.mount_table", Type::Table),
    ("fs.*.rdma_dev_addr_list", Type::Texts),
];

/// Known file system names.
const FILE_SYSTEMS: [&str; 2] = ["generic", "lustre"];

/// Returns `name` if it is a known setting, section or file system. Known names reveal nothing about a machine.
pub fn known_name(name: &str) -> Option<&'static str> {
    let parts = TYPES.iter().flat_map(|(path, _)| path.split('.'));
    parts.filter(|part| *part != "*").chain(FILE_SYSTEMS).find(|known| *known == name)
}

/// Returns the type of the setting at a path; `None` if unknown.
pub fn expected_type(path: &str) -> Option<Type> {
    let names: Vec<&str> = path.split('.').collect();
    type_at(&names).filter(|found| *found != Type::Section)
}

/// Returns a known setting below the path of a section: `fs.lustre.posix_gds_min_kb` for `fs.lustre`.
pub fn setting_below(path: &str) -> Option<String> {
    let names: Vec<&str> = path.split('.').collect();
    let (row, _) = row_at(&names).filter(|(_, found)| *found == Type::Section)?;
    let rest: Vec<&str> = row.split('.').skip(names.len()).collect();
    Some(format!("{path}.{}", rest.join(".")))
}

/// Returns the known single value above a path: `logging.level` for `logging.level.console`.
pub fn single_above(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('.').collect();
    let single = |above: &String| expected_type(above).is_some_and(|wanted| wanted != Type::Table);
    (1..parts.len()).map(|depth| parts[..depth].join(".")).find(single)
}

/// Strict JSON plus comments; the library rejects anything else.
const STRICT: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
};

/// Parses the top-level object, with any settings.
pub fn root(text: &str) -> Result<Object<'_>, Mistake> {
    // serde_json is the stricter parser: it rejects numbers like `01`.
    let form = serde_json::from_str::<IgnoredAny>(&without_comments(text));
    form.map_err(|error| Mistake { line: error.line(), problem: Problem::Syntax })?;
    let parsed = parse_to_ast(text, &CollectOptions::default(), &STRICT)
        .map_err(|error| Mistake { line: error.line_display(), problem: Problem::Syntax })?;
    match parsed.value {
        Some(Node::Object(object)) => Ok(object),
        other => Err(Mistake {
            line: other.map_or(1, |value| line(text, value.start())),
            problem: Problem::NoObject,
        }),
    }
}

/// Returns the line number of a byte offset, from 1.
pub fn line(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Parses the settings in `text`.
///
/// # Errors
/// The first [`Mistake`] in the text.
pub fn parse(text: &str) -> Result<Settings, Mistake> {
    let mut settings = Settings::default();
    settings.read(text, &root(text)?, &[])?;
    Ok(settings)
}

impl Settings {
    /// Reads an object of the file and checks known settings against their types. `null` counts as unset.
    fn read(&mut self, text: &str, object: &Object<'_>, above: &[&str]) -> Result<(), Mistake> {
        let mut met = BTreeSet::new();
        for property in &object.properties {
            let name = property.name.as_str();
            let path = [above, &[name]].concat();
            let Some(expected) = type_at(&path) else { continue };
            let wrong = |at, problem| Err(Mistake { line: line(text, at), problem });
            if !met.insert(name) {
                return wrong(property.start(), Problem::Twice { key: known_name(name) });
            }
            let value = Value::from(property.value.clone());
            match &property.value {
                Node::Object(inner) if expected == Type::Section => {
                    self.read(text, inner, &path)?
                }
                Node::NullKeyword(_) if expected != Type::Section => {}
                _ if expected.fits(&value) => {}
                other => {
                    let key = known_name(name);
                    return wrong(other.start(), Problem::Type { key, expected });
                }
            }
            let is = |row: &str| row.split('.').eq(path.iter().copied());
            match value.as_bool() {
                Some(on) if is(P2PDMA) => self.p2pdma = on,
                Some(on) if is(COMPAT) => self.compat = on,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns the type of the setting or section at a path. Takes separate names because a name may contain a dot.
fn type_at(path: &[&str]) -> Option<Type> {
    Some(row_at(path)?.1)
}

/// Returns the first entry at or below a path, and the type at the path.
fn row_at(path: &[&str]) -> Option<(&'static str, Type)> {
    let of_row = |&(row, of_setting): &(&'static str, Type)| {
        let agrees = row.split('.').zip(path).all(|(name, part)| name == "*" || name == *part);
        match row.split('.').count().checked_sub(path.len()) {
            Some(0) if agrees => Some((row, of_setting)),
            Some(_) if agrees => Some((row, Type::Section)),
            _ => None,
        }
    };
    TYPES.iter().find_map(of_row)
}

/// Replaces comments with blanks; lines and byte offsets stay the same.
pub fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut end = 0;
    for comment in comments(text) {
        plain.push_str(&text[end..comment.start]);
        let blank = |byte: u8| if byte == b'\n' { '\n' } else { ' ' };
        plain.extend(text[comment.clone()].bytes().map(blank));
        end = comment.end;
    }
    plain.push_str(&text[end..]);
    plain
}

/// Returns the byte ranges of comments; a line comment excludes the line end.
pub fn comments(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let (length, is_comment) = match c {
            '"' => (quoted(rest), false),
            _ if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), true),
            _ if rest.starts_with("/*") => {
                (rest[2..].find("*/").map_or(rest.len(), |end| end + 4), true)
            }
            c => (c.len_utf8(), false),
        };
        if is_comment {
            found.push(at..at + length);
        }
        at += length;
    }
    found
}

/// Returns the length of the quoted string at the start of `text`, with its quotes; the whole text if it is unterminated.
pub fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests;
