//! Keys owned by bedplate according to the ledger: the values it set, and the original ones.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::document::{Document, NotEditable};
use super::section::Key;
use super::splice;

/// A key that bedplate has set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct OwnedKey {
    /// Path of the key.
    pub key: String,
    /// Value that bedplate set.
    pub ours: Value,
    /// Original value, if the key existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// Original value, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Number of objects above the key that bedplate created, counted from the nearest.
    #[serde(default, skip_serializing_if = "is_none_made")]
    pub made: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_none_made(made: &usize) -> bool {
    *made == 0
}

impl OwnedKey {
    /// Parses the ledger's entries; ignores unknown ones.
    pub(super) fn read(entries: &[String]) -> Vec<OwnedKey> {
        entries.iter().filter_map(|entry| serde_json::from_str(entry).ok()).collect()
    }

    /// Returns the entry for the ledger.
    pub(super) fn write(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }

    /// Returns the original value as text to write.
    pub(super) fn source(&self) -> Option<String> {
        self.text.clone().or_else(|| self.before.as_ref().map(splice::source))
    }

    /// Whether bedplate created the object at this path for this key.
    fn is_object_made(&self, path: &[String]) -> bool {
        let names: Vec<&str> = self.key.split('.').collect();
        let above =
            path.len() < names.len() && path.iter().zip(&names).all(|(one, two)| one == two);
        above && path.len() + self.made >= names.len()
    }
}

/// Counts the objects above a key that are bedplate's: to be created for it, or already created for other keys.
pub(crate) fn count_made_objects(
    key: &Key,
    document: &Document,
    known: &[&OwnedKey],
) -> Result<usize, NotEditable> {
    let (names, there) = (key.names(), document.depth(key)? - 1);
    let is_made = |depth: &usize| {
        *depth > there || known.iter().any(|one| one.is_object_made(&names[..*depth]))
    };
    Ok((1..names.len()).rev().take_while(is_made).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_earlier_ledgers_are_read() {
        let entries = [
            r#"{"key":"properties.x","ours":true,"before":[1,"a"]}"#.to_owned(),
            r#"{"key":"properties.y","ours":4}"#.to_owned(),
            "of a later one".to_owned(),
        ];
        let own = OwnedKey::read(&entries);
        assert_eq!(own.iter().filter_map(OwnedKey::write).collect::<Vec<_>>(), entries[..2]);
        assert_eq!(own[0].source().as_deref(), Some("[1, \"a\"]"));
        assert_eq!(own[1].source(), None);
    }

    #[test]
    fn created_objects_are_shared_by_sibling_keys() {
        let path = |text: &str| text.parse::<Key>().unwrap();
        let first =
            OwnedKey { key: "fs.weka.a".into(), ours: 1.into(), before: None, text: None, made: 1 };
        let document = Document::parse(r#"{"fs": {"weka": {"a": 1}, "lustre": {}}}"#).unwrap();
        let made = |key| count_made_objects(&path(key), &document, &[&first]).unwrap();
        assert_eq!((made("fs.weka.b"), made("fs.weka.c.d")), (1, 2));
        assert_eq!((made("fs.lustre.b"), made("fs.x.y"), made("a.b.c")), (0, 1, 2));
    }
}
