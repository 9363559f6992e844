//! The text of cufile.json: its values by path, and edits that leave every other byte as it is. Pure.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::Value;

use super::section::Key;
use crate::facts::cufile::{self, PATH, Wrong};
use crate::modules_conf::heading;

/// A file that can be edited.
pub struct Document {
    root: CstRootNode,
    object: CstObject,
}

/// Why a file cannot be edited.
#[derive(Debug, thiserror::Error)]
pub enum NotEditable {
    /// A value has the wrong type, or it is no JSON: the library does not read it either.
    #[error("{PATH}:{}: {}", .0.line, wrong(.0))]
    Wrong(Wrong),
    /// JSON, and no object.
    #[error("{PATH} holds no JSON object")]
    NoObject,
}

fn wrong(wrong: &Wrong) -> String {
    match (&wrong.key, &wrong.expected) {
        (Some(key), Some(expected)) => format!("`{key}` is to be {expected}"),
        (None, Some(expected)) => format!("expected {expected}"),
        (_, None) => "this is no JSON".to_owned(),
    }
}

/// JSON with comments, and nothing else that JSON does not have: the library would not read it.
const STRICT: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
};

impl Document {
    /// An empty one, with bedplate's heading.
    ///
    /// # Errors
    /// None in practice: the heading is a comment of one line.
    pub fn new(profile: &str) -> Result<Self, NotEditable> {
        Document::parse(&format!("// {}{{}}\n", heading(profile)))
    }

    /// A file's text.
    ///
    /// # Errors
    /// [`NotEditable`].
    pub fn parse(text: &str) -> Result<Self, NotEditable> {
        // This reader first: it bounds how deep a file may go.
        cufile::parse(text).map_err(NotEditable::Wrong)?;
        let root = CstRootNode::parse(text, &STRICT).map_err(|error| {
            NotEditable::Wrong(Wrong { line: error.line_display(), key: None, expected: None })
        })?;
        let object = root.object_value().ok_or(NotEditable::NoObject)?;
        Ok(Document { root, object })
    }

    /// The text.
    pub fn text(&self) -> String {
        self.root.to_string()
    }

    /// A value.
    pub fn get(&self, key: &Key) -> Option<Value> {
        let (last, above) = key.split();
        let object = above.iter().try_fold(self.object.clone(), |at, name| at.object_value(name));
        object?.get(last)?.value()?.to_serde_value()
    }

    /// Sets a value, making the objects above it.
    pub fn set(&self, key: &Key, value: &Value) {
        let (last, above) = key.split();
        let object =
            above.iter().fold(self.object.clone(), |at, name| at.object_value_or_set(name));
        match object.get(last) {
            Some(property) => property.set_value(input(value)),
            None => _ = object.append(last, input(value)),
        }
    }

    /// Removes a value, and the objects above that hold nothing any more.
    pub fn remove(&self, key: &Key) {
        let (last, above) = key.split();
        let mut chain = vec![self.object.clone()];
        for name in above {
            let Some(next) = chain[chain.len() - 1].object_value(name) else { return };
            chain.push(next);
        }
        let names = above.iter().map(String::as_str).chain([last]).collect::<Vec<_>>();
        for (object, name) in chain.iter().zip(names).rev() {
            if let Some(property) = object.get(name) {
                property.remove();
            }
            if !is_bare(object) {
                break;
            }
        }
    }

    /// Whether nothing is left in it but bedplate's heading.
    pub fn is_empty(&self) -> bool {
        let others =
            |line: &&str| !line.trim().is_empty() && !crate::modules_conf::is_heading(line);
        is_bare(&self.object)
            && self.text().lines().filter(others).map(str::trim).collect::<String>() == "{}"
    }
}

/// An object without properties and comments.
fn is_bare(object: &CstObject) -> bool {
    let text: String = object.to_string().split_whitespace().collect();
    text == "{}"
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(truth) => CstInputValue::Bool(*truth),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(values) => CstInputValue::Array(values.iter().map(input).collect()),
        Value::Object(entries) => CstInputValue::Object(
            entries.iter().map(|(key, value)| (key.clone(), input(value))).collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn key(text: &str) -> Key {
        text.parse().unwrap()
    }

    const THEIRS: &str = "{\n    // of the vendor\n    \"logging\": {\n        \"level\": \"ERROR\" // quiet\n    },\n    \
                          \"properties\": {\n        /* in KB */\n        \"max_direct_io_size_kb\": 16384,\n        \
                          \"allow_compat_mode\": true\n    }\n}\n";

    #[test]
    fn an_edit_leaves_every_other_byte() {
        let document = Document::parse(THEIRS).unwrap();
        let switch = key("properties.allow_compat_mode");
        assert_eq!(document.get(&switch), Some(json!(true)));
        document.set(&switch, &json!(false));
        assert_eq!(
            document.text(),
            THEIRS.replace("\"allow_compat_mode\": true", "\"allow_compat_mode\": false")
        );
        document.set(&switch, &json!(true));
        assert_eq!(document.text(), THEIRS);
    }

    #[test]
    fn what_was_added_goes_again_with_the_objects_above() {
        let document = Document::parse(THEIRS).unwrap();
        let added = key("fs.lustre.posix_gds_min_kb");
        document.set(&added, &json!(4));
        document.set(&key("properties.use_pci_p2pdma"), &json!(true));
        let text = document.text();
        assert!(text.contains("// quiet") && text.contains("/* in KB */"), "{text}");
        let again = Document::parse(&text).unwrap();
        assert_eq!(again.get(&added), Some(json!(4)));
        again.remove(&added);
        again.remove(&key("properties.use_pci_p2pdma"));
        assert_eq!(Document::parse(&again.text()).unwrap().get(&added), None);
        assert!(!again.text().contains("\"fs\""), "{}", again.text());
    }

    #[test]
    fn one_of_its_own_is_recognised_when_it_is_empty() {
        let document = Document::new("hgx").unwrap();
        assert!(document.is_empty());
        document.set(&key("properties.use_pci_p2pdma"), &json!(true));
        assert!(!document.is_empty());
        assert!(document.text().starts_with("// written by bedplate"), "{}", document.text());
        let again = Document::parse(&document.text()).unwrap();
        again.remove(&key("properties.use_pci_p2pdma"));
        assert!(again.is_empty(), "{}", again.text());
        assert!(!Document::parse("{ // why\n}").unwrap().is_empty());
    }

    #[test]
    fn what_the_library_does_not_read_is_not_edited() {
        for text in [
            "",
            "[]",
            "{\"a\": 1,}",
            "{a: 1}",
            "{'a': 1}",
            "{\"logging\": {\"level\": 2}}",
            "{\"a\": 0x1}",
        ] {
            assert!(Document::parse(text).is_err(), "{text}");
        }
        let deep = format!("{}{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
        assert!(Document::parse(&deep).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[{}\\[\\]\",:a1/* \n]{0,60}") {
            if let Ok(document) = Document::parse(&text) {
                prop_assert_eq!(document.text(), text);
                document.set(&key("properties.x"), &json!("y"));
                let again = Document::parse(&document.text());
                prop_assert!(again.is_ok_and(|again| again.get(&key("properties.x")) == Some(json!("y"))));
            }
        }
    }
}
