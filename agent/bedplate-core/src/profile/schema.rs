//! The JSON Schema of profile files (draft 2020-12), and lookup by dotted key.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::Value;

/// JSON Schema of one profile file, as text.
pub const SCHEMA: &str = include_str!("../../schemas/profile.json");

/// Parsed once, for the checks of all profiles.
static TREE: LazyLock<Value> = LazyLock::new(|| {
    // A constant; a test compares it with the schema generated from the types.
    #[expect(clippy::expect_used)]
    serde_json::from_str(SCHEMA).expect("the schema is JSON")
});

/// Returns the schema as JSON.
pub fn schema() -> &'static Value {
    &TREE
}

/// Every key name and every word in the schema.
static WORDS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let mut words = BTreeSet::from(["agent", "match"].map(str::to_owned));
    gather(&TREE, &mut words);
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

/// Whether a quotation in a message consists of schema words only, so that nothing in it comes from a profile.
pub fn is_schema_word(text: &str) -> bool {
    let mut parts = text
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
        .filter(|part| !part.is_empty())
        .peekable();
    parts.peek().is_some() && parts.all(|part| WORDS.contains(part) || part == "1")
}

/// Returns the alternatives of a schema: itself, or the entries of its `anyOf`, recursively.
pub(super) fn alternatives(schema: &Value) -> Vec<&Value> {
    match schema.get("anyOf") {
        Some(Value::Array(choices)) => choices.iter().flat_map(alternatives).collect(),
        _ => vec![schema],
    }
}

/// Whether a schema accepts a JSON type (`integer`, `number`, …).
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

/// Returns the values that a schema lists one by one, with their descriptions.
pub(super) fn listed(schema: &Value) -> Vec<(&Value, &str)> {
    if let Some(Value::Array(choices)) = schema.get("oneOf") {
        return choices.iter().filter_map(described).collect();
    }
    match schema.get("enum") {
        Some(Value::Array(values)) => values.iter().map(|value| (value, "")).collect(),
        _ => Vec::new(),
    }
}

/// Returns the listed values that are strings.
pub(super) fn string_choices(schema: &Value) -> Vec<&str> {
    listed(schema).into_iter().filter_map(|(value, _)| value.as_str()).collect()
}

fn described(choice: &Value) -> Option<(&Value, &str)> {
    let text = choice.get("description").and_then(Value::as_str).unwrap_or_default();
    Some((choice.get("const")?, text))
}

/// Returns a listed value's type as named in JSON Schema.
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

/// Returns the schema of a dotted key (`acs.policy`, `sriov.devices.vfs`). Arrays are transparent, and any name matches
/// the module in `modules.options.MODULE.PARAMETER`.
pub(super) fn find(key: &str) -> Option<&'static Value> {
    let mut at = schema();
    for part in key.split('.') {
        at = children(at).into_iter().find_map(|schema| property(schema, part))?;
    }
    Some(at)
}

/// Returns the property of this name, or the schema for any name.
pub(super) fn property<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    let named = schema.get("properties").and_then(|properties| properties.get(name));
    named.or_else(|| schema.get("additionalProperties").filter(|any| any.is_object()))
}

/// Returns the names of a table's keys, sorted.
pub(super) fn keys(schema: &Value) -> Vec<&str> {
    match schema.get("properties") {
        Some(Value::Object(properties)) => properties.keys().map(String::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns the table schemas that a schema is, or has within its arrays.
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

/// Returns the numbers that a schema accepts: `1 to 9`, `1 or more`; `None`: any.
pub(super) fn range(schema: &Value) -> Option<String> {
    let number = |name: &str| schema.get(name).and_then(Value::as_i64);
    match (number("minimum"), number("maximum")) {
        (Some(low), Some(high)) => Some(format!("{low} to {high}")),
        (Some(low), None) => Some(format!("{low} or more")),
        (None, Some(high)) => Some(format!("{high} or less")),
        (None, None) => None,
    }
}
