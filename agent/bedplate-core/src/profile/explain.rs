//! Descriptions of profile keys as terminal text, from the JSON Schema.

use std::fmt::Write as _;

use serde_json::Value;

use super::schema;
use super::suggest::nearest;

/// Width of the text without indentation.
const WIDTH: usize = 76;

/// Description of a key, for `explain` and the manual page of the format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyDescription {
    /// Dotted key, `acs.policy`.
    pub key: String,
    /// Types: `word`, `string or table`, ….
    pub types: String,
    /// Paragraphs, one per line, separated by empty lines.
    pub description: String,
    /// Allowed words and ranges, each with its meaning.
    pub values: Vec<String>,
    /// Keys of a table, each with the first sentence of its description.
    pub keys: Vec<String>,
    /// Default in TOML.
    pub default: Option<String>,
    /// Examples: `key = value`.
    pub examples: Vec<String>,
    /// Source of the facts.
    pub source: Option<String>,
}

/// Describes a dotted key (`acs.policy`, `sriov.devices.vfs`, `match`). Returns `None` if there is no such key.
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

/// Returns the description as text for a terminal.
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

/// Returns the schema's description of a profile.
pub fn about() -> &'static str {
    description(schema::schema())
}

/// Returns every key that [`explain`] knows, sorted by name.
pub fn explained_keys() -> Vec<String> {
    let mut keys = Vec::new();
    collect_keys(schema::schema(), "", &mut keys);
    keys.sort();
    keys
}

/// Returns the probable intended key for an unknown one: a similar spelling, or a key with that last part.
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

/// Returns the allowed words and ranges, one per line.
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

/// Returns the keys of a table, each with the first sentence of its description.
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

/// Returns `key = value` as written in the key's section.
fn assignment(key: &str, value: &Value) -> String {
    let name = key.rsplit('.').next().unwrap_or(key);
    format!("{name} = {}", toml_text(value))
}

/// Converts a JSON value to TOML. All defaults and examples of the schema are expressible.
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

/// Returns a key as written in a table; a key with a dot must be quoted.
fn toml_key(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match key.chars().all(bare) {
        true => key.to_owned(),
        false => toml::Value::String(key.to_owned()).to_string(),
    }
}

/// Appends a text, wrapped; `first` precedes each paragraph's first line, `further` its other lines.
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
