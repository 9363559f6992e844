//! Writes sections as TOML: the lines that every section's `show` is made of.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::{Leaf, Origin, Rule};

/// A profile being written as TOML.
pub(crate) struct Printer<'a> {
    origins: Option<&'a BTreeMap<String, Origin>>,
    /// Of a section that has no line yet: one without any is not written.
    heading: Option<String>,
    text: String,
}

impl<'a> Printer<'a> {
    /// With `origins`, each line says which file and line it comes from.
    pub(crate) fn new(origins: Option<&'a BTreeMap<String, Origin>>) -> Self {
        Printer { origins, heading: None, text: String::new() }
    }

    /// Written content.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    /// A line; `key` is the dotted key whose origin it shows.
    pub(crate) fn line(&mut self, line: &str, key: Option<&str>) {
        self.text.push_str(&self.heading.take().unwrap_or_default());
        self.text.push_str(line);
        if let (Some(key), Some(origins)) = (key, self.origins) {
            match origins.get(key) {
                Some(origin) => _ = write!(self.text, "  # from {}:{}", origin.file, origin.line),
                None => self.text.push_str("  # default"),
            }
        }
        self.text.push('\n');
    }

    /// What follows is this section's.
    pub(crate) fn section(&mut self, name: &str) {
        self.heading = Some(format!("\n[{name}]\n"));
    }

    /// What follows is an entry of this list of tables.
    pub(crate) fn entry(&mut self, list: &str) {
        self.heading = Some(format!("\n[[{list}]]\n"));
    }

    /// `name = value`, by the last part of the dotted key.
    pub(crate) fn scalar<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) {
        let name = key.rsplit('.').next().unwrap_or(key);
        self.line(&format!("{name} = {}", toml_text(value)), Some(key));
    }

    /// A key as its rule writes it, with its reason; nothing where it has no value.
    pub(crate) fn value<R: Rule>(
        &mut self,
        key: &str,
        value: Option<&R::Value>,
        leaf: &Option<Leaf<R::Value>>,
    ) {
        if let Some(value) = value {
            self.scalar(key, &R::to_toml(value));
            self.reason(leaf);
        }
    }

    /// `why` and `source` of a value, on lines of their own.
    pub(crate) fn reason<T>(&mut self, leaf: &Option<Leaf<T>>) {
        for (name, text) in leaf.iter().flat_map(reason_pairs) {
            self.line(&format!("{name} = {}", toml_text(text)), None);
        }
    }

    /// A list with an entry a line.
    pub(crate) fn list(&mut self, name: &str, entries: &[ListEntry]) {
        if entries.is_empty() {
            return self.line(&format!("{name} = []"), None);
        }
        self.line(&format!("{name} = ["), None);
        for entry in entries {
            self.line(&format!("  {},", entry.text()), Some(&entry.key));
        }
        self.line("]", None);
    }
}

/// An entry of a list that is a word, or a table when there is more to say.
pub(crate) struct ListEntry {
    name: &'static str,
    word: String,
    key: String,
    /// Further keys of the table, with their values in TOML.
    pub more: Vec<(&'static str, String)>,
}

impl ListEntry {
    /// `name` is what the word is called in a table, `key` the dotted key of the entry.
    pub(crate) fn new<T>(
        name: &'static str,
        word: &(impl Serialize + ?Sized),
        key: String,
        leaf: &Leaf<T>,
    ) -> Self {
        let more = reason_pairs(leaf).map(|(name, text)| (name, toml_text(text))).collect();
        ListEntry { name, word: toml_text(word), key, more }
    }

    /// In TOML.
    pub(crate) fn text(&self) -> String {
        if self.more.is_empty() {
            return self.word.clone();
        }
        let more: String =
            self.more.iter().map(|(name, text)| format!(", {name} = {text}")).collect();
        format!("{{ {} = {}{more} }}", self.name, self.word)
    }
}

fn reason_pairs<T>(leaf: &Leaf<T>) -> impl Iterator<Item = (&'static str, &str)> {
    let why = leaf.why.as_deref().map(|why| ("why", why));
    why.into_iter().chain(leaf.source.as_deref().map(|source| ("source", source)))
}

/// A value in TOML. The types here are words, numbers, truth values and lists of them, which TOML can always write.
pub(crate) fn toml_text<T: Serialize + ?Sized>(value: &T) -> String {
    toml::Value::try_from(value)
        .map_or_else(|error| format!("# {error}"), |value| value.to_string())
}
