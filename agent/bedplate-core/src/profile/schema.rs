//! The JSON Schema of profile files (draft 2020-12), made from the fragment types, and its lookup by dotted key.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::root::Fragment;

/// Made once, for the checks of every profile that is read: descriptions are as in the source.
static STRUCTURE: LazyLock<Value> = LazyLock::new(|| {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<Fragment>().to_value();
    remove_null(&mut schema);
    schema
});

/// The same with one line a paragraph, for `explain` and `schema`.
static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let mut schema = STRUCTURE.clone();
    reflow(&mut schema);
    schema
});

/// The JSON Schema of one profile file. The same for every run and every host.
pub fn schema() -> Value {
    SCHEMA.clone()
}

/// The schema without a copy.
pub(super) fn tree() -> &'static Value {
    &SCHEMA
}

/// The schema without a copy, for those who do not look at descriptions.
pub(super) fn structure() -> &'static Value {
    &STRUCTURE
}

/// Every name of a key and every word that the schema lists.
static WORDS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let mut words = BTreeSet::from(["agent", "match"].map(str::to_owned));
    gather(&STRUCTURE, &mut words);
    words
});

fn gather(value: &Value, into: &mut BTreeSet<String>) {
    if let Value::Object(object) = value {
        if let Some(Value::Object(properties)) = object.get("properties") {
            into.extend(properties.keys().cloned());
        }
        into.extend(string_choices(value).into_iter().map(str::to_owned));
        object.values().for_each(|value| gather(value, into));
    }
    if let Value::Array(values) = value {
        values.iter().for_each(|value| gather(value, into));
    }
}

/// Whether a quotation in a message holds nothing but words of the schema: then nothing in it is a profile's own.
pub fn is_schema_word(text: &str) -> bool {
    let mut parts = text
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
        .filter(|part| !part.is_empty())
        .peekable();
    parts.peek().is_some() && parts.all(|part| WORDS.contains(part) || part == "1")
}

/// TOML has no null, so no schema speaks of it.
fn remove_null(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.values_mut().for_each(remove_null);
            tidy_object(object);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_null),
        _ => {}
    }
}

fn tidy_object(object: &mut Map<String, Value>) {
    let null = Value::from("null");
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| *name != null);
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".into(), only);
        }
    }
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type") != Some(&null));
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            object.remove("anyOf");
            for (key, value) in only {
                object.entry(key).or_insert(value);
            }
        }
    }
}

/// Descriptions lose the line breaks of their source: one line a paragraph.
fn reflow(value: &mut Value) {
    let line = |paragraph: &str| paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    match value {
        Value::Object(object) => {
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = text.split("\n\n").map(line).collect::<Vec<_>>().join("\n\n");
            }
            object.values_mut().for_each(reflow);
        }
        Value::Array(items) => items.iter_mut().for_each(reflow),
        _ => {}
    }
}

/// The alternatives of a schema: itself, or what its `anyOf` lists, however deep.
pub(super) fn alternatives(schema: &Value) -> Vec<&Value> {
    match schema.get("anyOf") {
        Some(Value::Array(choices)) => choices.iter().flat_map(alternatives).collect(),
        _ => vec![schema],
    }
}

/// Whether a schema takes a JSON type; `integer`, `number` and so on.
pub(super) fn takes(schema: &Value, name: &str) -> bool {
    if schema.get("oneOf").is_some() || schema.get("enum").is_some() {
        let listed = listed(schema);
        if !listed.is_empty() {
            return listed.iter().any(|(value, _)| json_type(value) == name);
        }
    }
    match schema.get("type") {
        Some(Value::String(own)) => own == name,
        Some(Value::Array(own)) => own.iter().any(|own| own == name),
        _ => false,
    }
}

/// The values that a schema lists one by one, with their descriptions; empty when it lists none.
pub(super) fn listed(schema: &Value) -> Vec<(&Value, &str)> {
    if let Some(Value::Array(choices)) = schema.get("oneOf") {
        return choices.iter().filter_map(described).collect();
    }
    match schema.get("enum") {
        Some(Value::Array(values)) => values.iter().map(|value| (value, "")).collect(),
        _ => Vec::new(),
    }
}

/// Those of them that are words.
pub(super) fn string_choices(schema: &Value) -> Vec<&str> {
    listed(schema).into_iter().filter_map(|(value, _)| value.as_str()).collect()
}

fn described(choice: &Value) -> Option<(&Value, &str)> {
    let text = choice.get("description").and_then(Value::as_str).unwrap_or_default();
    Some((choice.get("const")?, text))
}

/// A listed value's type, as JSON Schema names it.
fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The schema of a dotted key (`acs.policy`, `sriov.devices.vfs`); arrays are looked through, and any name stands for a
/// module in `modules.options.MODULE.PARAMETER`.
pub(super) fn find(key: &str) -> Option<&'static Value> {
    let mut at = tree();
    for part in key.split('.') {
        at = children(at).into_iter().find_map(|schema| property(schema, part))?;
    }
    Some(at)
}

/// The property of this name, or what stands for any name.
pub(super) fn property<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    let named = schema.get("properties").and_then(|properties| properties.get(name));
    named.or_else(|| schema.get("additionalProperties").filter(|any| any.is_object()))
}

/// The names of a table's keys, sorted.
pub(super) fn keys(schema: &Value) -> Vec<&str> {
    match schema.get("properties") {
        Some(Value::Object(properties)) => properties.keys().map(String::as_str).collect(),
        _ => Vec::new(),
    }
}

/// The table schemas that a schema is, or has within its arrays.
pub(super) fn children(schema: &Value) -> Vec<&Value> {
    let mut found = Vec::new();
    for choice in alternatives(schema) {
        match choice.get("items") {
            Some(items) => found.extend(children(items)),
            None => found.push(choice),
        }
    }
    found
}
