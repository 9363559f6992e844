//! What a key of the profile means, as text for a terminal, from the JSON Schema.

use std::fmt::Write as _;

use serde_json::Value;

use super::schema;
use super::suggest::nearest;

/// Width of the text, indentation not counted.
const WIDTH: usize = 76;

/// What is known of a key: what `explain` prints, and the manual page of the format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyDescription {
    /// Dotted, `acs.policy`.
    pub key: String,
    /// `word`, `string or table`, ….
    pub types: String,
    /// Paragraphs, one a line, an empty line between two.
    pub description: String,
    /// Allowed words and ranges, each with its meaning.
    pub values: Vec<String>,
    /// The keys of a table, each with the first sentence of its meaning.
    pub keys: Vec<String>,
    /// The default, in TOML.
    pub default: Option<String>,
    /// `key = value`.
    pub examples: Vec<String>,
    /// Where the facts come from.
    pub source: Option<String>,
}

/// The meaning of a dotted key (`acs.policy`, `sriov.devices.vfs`, `match`): description, allowed values, default,
/// examples, source. `None` when there is no such key.
pub fn explained(key: &str) -> Option<KeyDescription> {
    let found = schema::find(key)?;
    let examples = found.get("examples").and_then(Value::as_array).into_iter().flatten();
    Some(KeyDescription {
        key: key.to_owned(),
        types: types(found),
        description: description(found).to_owned(),
        values: values(found),
        keys: table_keys(found),
        default: found.get("default").map(toml_text),
        examples: examples.map(|example| assignment(key, example)).collect(),
        source: found.get("x-source").and_then(Value::as_str).map(str::to_owned),
    })
}

/// The same as text for a terminal.
pub fn explain(key: &str) -> Option<String> {
    let found = explained(key)?;
    let mut out = format!("{key} ({})\n", found.types);
    paragraphs(&mut out, &found.description, "    ", "    ");
    section(&mut out, "VALUES", found.values);
    section(&mut out, "KEYS", found.keys);
    section(&mut out, "DEFAULT", found.default.into_iter().collect());
    section(&mut out, "EXAMPLES", found.examples);
    section(&mut out, "SOURCE", found.source.into_iter().collect());
    Some(out)
}

/// What a profile is, as the schema says it.
pub fn about() -> &'static str {
    description(schema::schema())
}

/// Every key that [`explain`] knows, in the order of their names.
pub fn explained_keys() -> Vec<String> {
    let mut keys = Vec::new();
    collect_keys(schema::schema(), "", &mut keys);
    keys.sort();
    keys
}

/// The key that was probably meant by one that does not exist: one spelled much like it, or one that ends in it.
pub fn similar_key(wrong: &str) -> Option<String> {
    let keys = explained_keys();
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let near = nearest(wrong, keys.iter().map(String::as_str)).map(str::to_owned);
    near.or_else(|| {
        let ends: Vec<String> = keys.iter().map(|key| last(key)).collect();
        let end = nearest(&last(wrong), ends.iter().map(String::as_str))?;
        keys.iter().find(|key| last(key) == end).cloned()
    })
}

fn collect_keys(table: &Value, prefix: &str, out: &mut Vec<String>) {
    for child in schema::children(table) {
        for name in schema::keys(child) {
            let key = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
            if out.contains(&key) {
                continue;
            }
            out.push(key.clone());
            if let Some(property) = schema::property(child, name) {
                collect_keys(property, &key, out);
            }
        }
    }
}

fn section(out: &mut String, title: &str, lines: Vec<String>) {
    if lines.is_empty() {
        return;
    }
    let _ = write!(out, "\n{title}\n");
    for line in lines {
        paragraphs(out, &line, "    ", "      ");
    }
}

/// Allowed words and ranges, one a line.
fn values(schema: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for choice in schema::alternatives(schema) {
        for (value, meaning) in schema::listed(choice) {
            let value = value.as_str().map_or_else(|| toml_text(value), str::to_owned);
            lines.push(if meaning.is_empty() { value } else { format!("{value}: {meaning}") });
        }
        lines.extend(schema::range(choice));
    }
    lines
}

/// The keys of a table, each with the first sentence of its meaning.
fn table_keys(schema: &Value) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for child in schema::children(schema) {
        for name in schema::keys(child) {
            let meaning = schema::property(child, name).map(description).unwrap_or_default();
            let sentence = meaning.split_once(". ").map_or(meaning, |(first, _)| first);
            lines.push(format!("{name}: {}", sentence.trim_end_matches('.')));
        }
    }
    lines
}

fn description(schema: &Value) -> &str {
    schema.get("description").and_then(Value::as_str).unwrap_or_default()
}

fn types(schema: &Value) -> String {
    let names: Vec<&str> = schema::alternatives(schema).into_iter().flat_map(type_names).collect();
    let mut unique: Vec<&str> = Vec::new();
    for name in names {
        if !unique.contains(&name) {
            unique.push(name);
        }
    }
    unique.join(" or ")
}

fn type_names(schema: &Value) -> Vec<&'static str> {
    let known =
        [("integer", "integer"), ("boolean", "boolean"), ("array", "list"), ("object", "table")];
    let string = if schema::string_choices(schema).is_empty() { "string" } else { "word" };
    let others = known.into_iter().filter(|(json, _)| schema::takes(schema, json));
    let mut names: Vec<&str> = others.map(|(_, name)| name).collect();
    if names.is_empty() || schema::takes(schema, "string") {
        names.insert(0, string);
    }
    names
}

/// `key = value` as it stands in the key's section.
fn assignment(key: &str, value: &Value) -> String {
    let name = key.rsplit('.').next().unwrap_or(key);
    format!("{name} = {}", toml_text(value))
}

/// A JSON value in TOML. The schema's defaults and examples are all expressible.
fn toml_text(value: &Value) -> String {
    match value {
        Value::Object(entries) => {
            let inside: Vec<String> = entries
                .iter()
                .map(|(key, value)| format!("{} = {}", toml_key(key), toml_text(value)))
                .collect();
            if inside.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", inside.join(", ")) }
        }
        Value::Array(items) => {
            let inside: Vec<String> = items.iter().map(toml_text).collect();
            format!("[{}]", inside.join(", "))
        }
        Value::String(text) => toml::Value::String(text.clone()).to_string(),
        other => other.to_string(),
    }
}

/// A key as it stands in a table; one with a dot in it would be two.
fn toml_key(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match key.chars().all(bare) {
        true => key.to_owned(),
        false => toml::Value::String(key.to_owned()).to_string(),
    }
}

/// Appends a text, wrapped; `first` stands before each paragraph, `further` before its other lines.
fn paragraphs(out: &mut String, text: &str, first: &str, further: &str) {
    for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.is_empty()) {
        let mut column = 0;
        out.push_str(first);
        for word in paragraph.split_whitespace() {
            let length = word.chars().count();
            if column > 0 && column + 1 + length > WIDTH {
                let _ = write!(out, "\n{further}");
                column = 0;
            }
            if column > 0 {
                out.push(' ');
                column += 1;
            }
            out.push_str(word);
            column += length;
        }
        out.push('\n');
    }
}
