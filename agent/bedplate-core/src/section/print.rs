//! Writes sections as TOML: line types for the `show` functions of sections.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::{Origin, Rule};

/// A profile being written as TOML.
pub(crate) struct Printer<'a> {
    origins: &'a BTreeMap<String, Origin>,
    with_origin: bool,
    /// Heading of a section without lines so far: an empty section is not written.
    heading: Option<String>,
    text: String,
}

impl<'a> Printer<'a> {
    /// Creates a printer; with `with_origin`, each line names its file and line.
    pub(crate) fn new(origins: &'a BTreeMap<String, Origin>, with_origin: bool) -> Self {
        Printer { origins, with_origin, heading: None, text: String::new() }
    }

    /// Returns the written text.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    /// Writes a line; `key` is the dotted key for its origin.
    pub(crate) fn line(&mut self, line: &str, key: Option<&str>) {
        self.text.push_str(&self.heading.take().unwrap_or_default());
        self.text.push_str(line);
        if let Some(key) = key.filter(|_| self.with_origin) {
            match self.origins.get(key) {
                Some(origin) => _ = write!(self.text, "  # from {}:{}", origin.file, origin.line),
                None => self.text.push_str("  # default"),
            }
        }
        self.text.push('\n');
    }

    /// Begins a section.
    pub(crate) fn section(&mut self, name: &str) {
        self.heading = Some(format!("\n[{name}]\n"));
    }

    /// Begins an entry of this list of tables.
    pub(crate) fn entry(&mut self, list: &str) {
        self.heading = Some(format!("\n[[{list}]]\n"));
    }

    /// Writes `name = value`, with the last part of the dotted key.
    pub(crate) fn scalar<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) {
        let name = key.rsplit('.').next().unwrap_or(key);
        self.line(&format!("{name} = {}", toml_text(value)), Some(key));
    }

    /// Writes a key as defined by its rule, with its reason, if it has a value.
    pub(crate) fn value<R: Rule>(&mut self, key: &str, value: Option<&R::Value>) {
        if let Some(value) = value {
            self.scalar(key, &R::to_toml(value));
            self.reason(key);
        }
    }

    /// Whether a file sets this key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.origins.contains_key(key)
    }

    /// Writes `why` and `source` of a key, each on its own line.
    pub(crate) fn reason(&mut self, key: &str) {
        for (name, text) in self.reason_pairs(key) {
            self.line(&format!("{name} = {text}"), None);
        }
    }

    fn reason_pairs(&self, key: &str) -> Vec<(&'static str, String)> {
        let origin = self.origins.get(key);
        let pairs = origin.map(|origin| [("why", &origin.why), ("source", &origin.source)]);
        let given = |(name, text): (_, &Option<String>)| Some((name, toml_text(text.as_ref()?)));
        pairs.into_iter().flatten().filter_map(given).collect()
    }

    /// Returns a value, or a table with the value, its reason, and other keys with their values in TOML. `name` is the
    /// value's key in the table, `key` the dotted key for the origin.
    pub(crate) fn entry_text(
        &self,
        name: &str,
        value: &(impl Serialize + ?Sized),
        key: &str,
        more: Option<(&'static str, String)>,
    ) -> String {
        let value = toml_text(value);
        let more = self.reason_pairs(key).into_iter().chain(more);
        let more: String = more.map(|(name, text)| format!(", {name} = {text}")).collect();
        if more.is_empty() { value } else { format!("{{ {name} = {value}{more} }}") }
    }

    /// Writes an entry of a table with free keys: `table.name = value`, or with a table of the value and its reason.
    pub(crate) fn named(&mut self, table: &str, value: &(impl Serialize + ?Sized), key: &str) {
        let line = format!("{table} = {}", self.entry_text("value", value, key, None));
        self.line(&line, Some(key));
    }

    /// Writes a list with one entry per line: its text, and the dotted key for its origin.
    pub(crate) fn list(&mut self, name: &str, entries: &[(String, String)]) {
        if entries.is_empty() {
            return self.line(&format!("{name} = []"), None);
        }
        self.line(&format!("{name} = ["), None);
        for (text, key) in entries {
            self.line(&format!("  {text},"), Some(key));
        }
        self.line("]", None);
    }
}

/// Returns a value in TOML. The types here are words, numbers, booleans, and lists of them, which TOML can always
/// express.
pub(crate) fn toml_text<T: Serialize + ?Sized>(value: &T) -> String {
    toml::Value::try_from(value)
        .map_or_else(|error| format!("# {error}"), |value| value.to_string())
}

/// Returns the dotted key of a list entry, by its name.
pub(crate) fn key_of(list: &str, name: &str) -> String {
    format!("{list}.{}", quoted(name))
}

/// Returns a name as written in a dotted key of TOML.
pub(crate) fn quoted(name: &str) -> String {
    let bare = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    match !name.is_empty() && name.bytes().all(bare) {
        true => name.to_owned(),
        false => toml::Value::String(name.to_owned()).to_string(),
    }
}
