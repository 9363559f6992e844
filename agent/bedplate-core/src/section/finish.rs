//! Merged layer → model: what was not said gets its default, and every value that was said its origin.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Leaf;
use crate::plan::Rationale;
use crate::section::Sources;

/// Where a value of the merged profile was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// The file, as it was named to `load`; `shipped:NAME.toml` for a shipped profile.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
}

/// What a value is there for when the profile gives no reason.
const ASKED: &str = "asked for by the profile";

/// Takes values out of a merged layer and notes where they were said.
pub(crate) struct Finisher<'a> {
    sources: &'a Sources,
    origins: BTreeMap<String, Origin>,
}

impl<'a> Finisher<'a> {
    /// For a layer merged of these texts.
    pub(crate) fn new(sources: &'a Sources) -> Self {
        Finisher { sources, origins: BTreeMap::new() }
    }

    /// Where each value taken so far was said, by dotted key.
    pub(crate) fn into_origins(self) -> BTreeMap<String, Origin> {
        self.origins
    }

    /// A value, or its default.
    pub(crate) fn or<T: Clone>(&mut self, key: &str, leaf: &Option<Leaf<T>>, default: T) -> T {
        self.optional(key, leaf).unwrap_or(default)
    }

    /// A value, if there is one.
    pub(crate) fn optional<T: Clone>(&mut self, key: &str, leaf: &Option<Leaf<T>>) -> Option<T> {
        let leaf = leaf.as_ref()?;
        self.note(key.to_owned(), leaf);
        Some(leaf.value.clone())
    }

    /// Notes where a value was said.
    pub(crate) fn note<T>(&mut self, key: String, leaf: &Leaf<T>) {
        let file = self.sources.file(leaf.place.file);
        let line = file.line_column(leaf.place.start).0;
        self.origins.insert(key, Origin { file: file.path().to_owned(), line });
    }

    /// The reason for a value: the profile's, or that it asks for it, with the line.
    pub(crate) fn reasons_of_leaf<T>(&self, leaf: &Leaf<T>) -> Vec<Rationale> {
        let line = self.sources.file_line(leaf.place);
        let reason = leaf.why.clone().unwrap_or_else(|| ASKED.to_owned());
        vec![match &leaf.source {
            Some(source) => Rationale::new(reason, source.clone()),
            None => Rationale::at(reason, line),
        }]
    }

    /// The same; a default has no reason.
    pub(crate) fn reasons<T>(&self, leaf: &Option<Leaf<T>>) -> Vec<Rationale> {
        leaf.as_ref().map(|leaf| self.reasons_of_leaf(leaf)).unwrap_or_default()
    }
}

/// The dotted key of a list entry, by its name.
pub(crate) fn key_of(list: &str, name: &str) -> String {
    format!("{list}.{}", quoted(name))
}

/// A name as TOML writes it in a dotted key.
pub(crate) fn quoted(name: &str) -> String {
    let bare = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    match !name.is_empty() && name.bytes().all(bare) {
        true => name.to_owned(),
        false => toml::Value::String(name.to_owned()).to_string(),
    }
}
