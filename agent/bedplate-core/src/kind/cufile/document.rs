//! Text of cufile.json: its values by path, and edits that leave every other byte unchanged. Pure.

use std::ops::Range;

use jsonc_parser::ast::{Object, ObjectProp, Value as Node};
use jsonc_parser::common::Ranged;
use serde_json::Value;

use super::section::Key;
use super::splice::{self, Edit};
use crate::file_heading::{heading, is_heading};
use bedplate_facts::cufile::{Mistake, PATH, Problem, line, root};

/// An editable file.
#[derive(Debug)]
pub(crate) struct Document {
    text: String,
}

/// Value in the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct JsonValue {
    /// For comparison: long numbers are rounded, and the last of two equal names wins.
    pub value: Value,
    /// Verbatim, including comments.
    pub source: String,
}

/// Reason why a file cannot be edited.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotEditable {
    /// A value has the wrong type, or the file is not a JSON object: the library rejects it too.
    #[error("{PATH}:{}: {}", .0.line, .0.problem)]
    Wrong(Mistake),
    /// A parent of the key is not an object.
    #[error("{PATH}:{line}: `{above}` is {what}, but `{key}` needs an object there")]
    NotAnObject {
        /// Line number, from 1 on.
        line: usize,
        /// Path of the parent.
        above: String,
        /// Its type.
        what: &'static str,
        /// The key to set.
        key: String,
    },
    /// A duplicate name; which one is valid depends on the library.
    #[error("{PATH}:{line}: duplicate `{name}`")]
    Twice {
        /// Line number of the second, from 1 on.
        line: usize,
        /// Its path.
        name: String,
    },
}

impl From<Mistake> for NotEditable {
    fn from(wrong: Mistake) -> Self {
        match wrong.problem {
            Problem::Twice { key: Some(name) } => {
                NotEditable::Twice { line: wrong.line, name: name.to_owned() }
            }
            _ => NotEditable::Wrong(wrong),
        }
    }
}

impl NotEditable {
    /// Returns the fix.
    pub(super) fn fix(&self) -> String {
        match self {
            NotEditable::Wrong(_) => {
                "correct the file; GPUDirect Storage cannot read it either".to_owned()
            }
            NotEditable::NotAnObject { above, key, .. } => {
                format!("make `{above}` an object in {PATH}, or remove `{key}` from the profile")
            }
            NotEditable::Twice { .. } => {
                "remove one of the two from the file (most JSON readers use the last)".to_owned()
            }
        }
    }
}

/// Walk along a path in a file.
struct Walk<'t, 'o> {
    /// Objects on the path, starting with the whole file.
    chain: Vec<&'o Object<'t>>,
    /// The value, if all objects above it exist.
    end: Option<&'o ObjectProp<'t>>,
}

impl Document {
    /// Creates an empty file with bedplate's heading.
    pub(super) fn new(profile: &str) -> Self {
        Document { text: format!("// {}{{\n}}\n", heading(profile)) }
    }

    /// Parses a file; checks only its syntax.
    ///
    /// # Errors
    /// [`NotEditable::Wrong`] if it is not a JSON object.
    pub(super) fn parse(text: &str) -> Result<Self, NotEditable> {
        root(text)?;
        Ok(Document { text: text.to_owned() })
    }

    /// Returns the text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns a value.
    ///
    /// # Errors
    /// [`NotEditable::NotAnObject`] and [`NotEditable::Twice`].
    pub(super) fn get(&self, key: &Key) -> Result<Option<JsonValue>, NotEditable> {
        let root = root(&self.text)?;
        let end = self.walk(&root, key.names())?.end;
        Ok(end.map(|property| JsonValue {
            value: property.value.clone().into(),
            source: property.value.text(&self.text).to_owned(),
        }))
    }

    /// Counts the existing objects above a key, including the file itself.
    ///
    /// # Errors
    /// As [`Document::get`].
    pub(super) fn depth(&self, key: &Key) -> Result<usize, NotEditable> {
        let root = root(&self.text)?;
        Ok(self.walk(&root, key.names())?.chain.len())
    }

    /// Sets a value to `source`, and creates the objects above it.
    ///
    /// # Errors
    /// As [`Document::get`].
    pub(super) fn set(&mut self, key: &Key, source: &str) -> Result<(), NotEditable> {
        let root = root(&self.text)?;
        let Walk { chain, end } = self.walk(&root, key.names())?;
        let edits = match end {
            Some(ObjectProp { value, .. }) => vec![Edit::new(value.start()..value.end(), source)],
            None => {
                let names = &key.names()[chain.len() - 1..];
                splice::insertion(&self.text, &root, chain[chain.len() - 1], names, source)
            }
        };
        self.text = splice::apply(&self.text, edits);
        Ok(())
    }

    /// Removes a value, then up to `made` of the objects above it, the nearest first, as far as they are empty. Comments
    /// stay.
    ///
    /// # Errors
    /// As [`Document::get`].
    pub(super) fn remove(&mut self, key: &Key, made: usize) -> Result<(), NotEditable> {
        let names = key.names();
        for depth in (1..=names.len()).rev().take(made + 1) {
            let root = root(&self.text)?;
            let Walk { chain, end: Some(property) } = self.walk(&root, &names[..depth])? else {
                return Ok(());
            };
            if depth < names.len() && !is_bare(&property.value, &self.text) {
                return Ok(());
            }
            let edits = splice::removal(&self.text, chain[chain.len() - 1], property);
            self.text = splice::apply(&self.text, edits);
        }
        Ok(())
    }

    /// Whether bedplate created the file and only its heading is left.
    pub(super) fn is_only_heading(&self) -> bool {
        let (headings, rest): (Vec<&str>, Vec<&str>) =
            self.text.lines().partition(|l| is_heading(l));
        !headings.is_empty() && rest.iter().flat_map(|line| line.split_whitespace()).eq(["{", "}"])
    }

    fn walk<'t, 'o>(
        &self,
        root: &'o Object<'t>,
        names: &[String],
    ) -> Result<Walk<'t, 'o>, NotEditable> {
        let mut chain = vec![root];
        for depth in 1..=names.len() {
            let end = self.only(chain[depth - 1], &names[..depth])?;
            let Some(property) = end.filter(|_| depth < names.len()) else {
                return Ok(Walk { chain, end });
            };
            match &property.value {
                Node::Object(object) => chain.push(object),
                other => {
                    return Err(NotEditable::NotAnObject {
                        line: line(&self.text, other.start()),
                        above: names[..depth].join("."),
                        what: kind(other),
                        key: names.join("."),
                    });
                }
            }
        }
        Ok(Walk { chain, end: None })
    }

    /// Returns the property at the end of the path, which must be unique.
    fn only<'t, 'o>(
        &self,
        object: &'o Object<'t>,
        path: &[String],
    ) -> Result<Option<&'o ObjectProp<'t>>, NotEditable> {
        let name = path.last().map(String::as_str).unwrap_or_default();
        let mut all = object.properties.iter().filter(|property| property.name.as_str() == name);
        let first = all.next();
        match all.next() {
            None => Ok(first),
            Some(second) => Err(NotEditable::Twice {
                line: line(&self.text, second.start()),
                name: path.join("."),
            }),
        }
    }
}

/// Whether a value is an object without properties and comments.
fn is_bare(value: &Node, text: &str) -> bool {
    let inner: Range<usize> = value.start() + 1..value.end() - 1;
    matches!(value, Node::Object(_)) && text[inner].trim().is_empty()
}

fn kind(value: &Node) -> &'static str {
    match value {
        Node::Object(_) => "an object",
        Node::Array(_) => "a list",
        Node::StringLit(_) => "a string",
        Node::NumberLit(_) => "a number",
        Node::BooleanLit(_) => "a boolean",
        Node::NullKeyword(_) => "null",
    }
}

#[cfg(test)]
mod tests;
