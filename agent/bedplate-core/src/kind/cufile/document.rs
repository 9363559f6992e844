//! The text of cufile.json: its values by path, and edits that leave every other byte as it is. Pure.

use std::ops::Range;

use jsonc_parser::ast::{Object, ObjectProp, Value as Node};
use jsonc_parser::common::Ranged;
use serde_json::Value;

use super::section::Key;
use super::splice::{self, Edit};
use crate::file_heading::{heading, is_heading};
use bedplate_facts::cufile::{Mistake, PATH, Problem, line, root};

/// A file that can be edited.
#[derive(Debug)]
pub(crate) struct Document {
    text: String,
}

/// A value of the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct JsonValue {
    /// To compare: long numbers are rounded, and of two equal names the last counts.
    pub value: Value,
    /// Word for word, with its comments.
    pub source: String,
}

/// Why a file cannot be edited.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotEditable {
    /// A value has the wrong type, or it is no JSON object: the library does not read it either.
    #[error("{PATH}:{}: {}", .0.line, .0.problem)]
    Wrong(Mistake),
    /// A key is to go into something that has no keys.
    #[error("{PATH}:{line}: `{above}` is {what}, and `{key}` needs it to be an object")]
    NotAnObject {
        /// From 1 on.
        line: usize,
        /// The path of what stands there.
        above: String,
        /// What it is.
        what: &'static str,
        /// The key that was to be set.
        key: String,
    },
    /// Which of them counts is for the library to say.
    #[error("{PATH}:{line}: `{name}` is there twice")]
    Twice {
        /// Of the second, from 1 on.
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
    /// Remedy.
    pub(super) fn remedy(&self) -> String {
        match self {
            NotEditable::Wrong(_) => {
                "correct the file: GPUDirect Storage does not read it either".to_owned()
            }
            NotEditable::NotAnObject { above, key, .. } => {
                format!("make `{above}` an object in {PATH}, or take `{key}` out of the profile")
            }
            NotEditable::Twice { .. } => {
                "remove one of the two from the file: most JSON readers take the last".to_owned()
            }
        }
    }
}

/// How far a path goes in a file.
struct Walk<'t, 'o> {
    /// The objects on it, the whole file first.
    chain: Vec<&'o Object<'t>>,
    /// The value, where all of those above it are there.
    end: Option<&'o ObjectProp<'t>>,
}

impl Document {
    /// An empty one, with bedplate's heading.
    pub(super) fn new(profile: &str) -> Self {
        Document { text: format!("// {}{{\n}}\n", heading(profile)) }
    }

    /// A file's text, of which only the form is checked.
    ///
    /// # Errors
    /// [`NotEditable::Wrong`].
    pub(super) fn parse(text: &str) -> Result<Self, NotEditable> {
        root(text)?;
        Ok(Document { text: text.to_owned() })
    }

    /// The text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// A value.
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

    /// How many of the objects above a key are there; the file itself is one.
    ///
    /// # Errors
    /// As [`Document::get`].
    pub(super) fn depth(&self, key: &Key) -> Result<usize, NotEditable> {
        let root = root(&self.text)?;
        Ok(self.walk(&root, key.names())?.chain.len())
    }

    /// Sets a value as it is to be written, making the objects above it.
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

    /// Removes a value, and of the objects above it, the nearest first, those that are then empty: `made` of them at most.
    /// Comments stay.
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

    /// Whether bedplate made it, and nothing is left in it but its heading.
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

    /// The property of this name, the last of the path, where there is no more than one.
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

/// An object without properties and comments.
fn is_bare(value: &Node, text: &str) -> bool {
    let inner: Range<usize> = value.start() + 1..value.end() - 1;
    matches!(value, Node::Object(_)) && text[inner].trim().is_empty()
}

fn kind(value: &Node) -> &'static str {
    match value {
        Node::Object(_) => "an object",
        Node::Array(_) => "a list",
        Node::StringLit(_) => "a text",
        Node::NumberLit(_) => "a number",
        Node::BooleanLit(_) => "a switch",
        Node::NullKeyword(_) => "null",
    }
}

#[cfg(test)]
mod tests;
