//! Checks a TOML tree against the JSON Schema: unknown keys, wrong types, unknown words, numbers out of range, missing
//! keys. Reports all faults, each with its place. Supports only the parts of JSON Schema that [`mod@super::schema`]
//! uses.

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::schema;
use super::suggest::{alternatives, nearest};
use crate::section::Checker;

/// Reports every deviation of a file from the schema.
pub(super) fn check(checker: &mut Checker<'_>, file: &Spanned<DeTable<'_>>) {
    check_table(checker, file.get_ref(), file.span(), schema::schema(), "");
}

fn check_value(checker: &mut Checker<'_>, value: &Spanned<DeValue<'_>>, schema: &Value, key: &str) {
    let own_type = json_type(value.get_ref());
    let choices = schema::alternatives(schema);
    let Some(choice) = choices.iter().find(|choice| schema::takes(choice, own_type)) else {
        let expected: Vec<&str> = choices.iter().flat_map(|choice| type_words(choice)).collect();
        let expected = expected.join(" or ");
        let message = format!("`{key}` must be {expected}, not {}", toml_words(value.get_ref()));
        let help = quote_help(value.get_ref(), &choices);
        let label = format!("expected {expected}");
        return checker.error(value.span(), "wrong-type", message, label, help.as_deref());
    };
    match value.get_ref() {
        DeValue::Table(table) => check_table(checker, table, value.span(), choice, key),
        DeValue::Array(items) => {
            if let Some(each) = choice.get("items") {
                items.iter().for_each(|item| check_value(checker, item, each, key));
            }
            if items.is_empty() && choice.get("minItems").is_some() {
                let message = format!("`{key}` is an empty list");
                checker.error(value.span(), "empty-list", message, "expected an entry", None);
            }
        }
        DeValue::String(text) => {
            check_word(checker, text, value.span(), choice, &choices, key);
        }
        DeValue::Integer(_) => check_number(checker, value, choice, key),
        DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {}
    }
}

fn check_table(
    checker: &mut Checker<'_>,
    table: &DeTable<'_>,
    span: std::ops::Range<usize>,
    schema: &Value,
    key: &str,
) {
    for (name, value) in table.iter() {
        let path = join(key, name.get_ref());
        match schema::property(schema, name.get_ref()) {
            Some(property) => check_value(checker, value, property, &path),
            None => unknown_key(checker, name, schema, key),
        }
    }
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required.filter_map(Value::as_str).filter(|name| !table.contains_key(*name)) {
        let message = format!("`{}` is missing", join(key, name));
        checker.error(span.clone(), "missing-key", message, format!("no `{name}` here"), None);
    }
}

fn unknown_key(
    checker: &mut Checker<'_>,
    name: &Spanned<std::borrow::Cow<'_, str>>,
    schema: &Value,
    key: &str,
) {
    let known = schema::keys(schema);
    let word = name.get_ref();
    let place = if key.is_empty() { "a profile".to_owned() } else { format!("`{key}`") };
    let help = match (nearest(word, known.iter().copied()), sections_with(word)) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, sections) if !sections.is_empty() => {
            let tables: Vec<String> =
                sections.iter().map(|section| format!("[{section}]")).collect();
            format!("`{word}` is a key of {}", alternatives(tables.iter().map(String::as_str)))
        }
        (None, _) => format!("valid keys: {}", known.join(", ")),
    };
    let message = format!("unknown key `{word}` in {place}");
    checker.error(name.span(), "unknown-key", message, "unknown", Some(&help));
}

/// Checks a word; `choices` are all alternatives for this value, including `schema`.
fn check_word(
    checker: &mut Checker<'_>,
    text: &str,
    span: std::ops::Range<usize>,
    schema: &Value,
    choices: &[&Value],
    key: &str,
) {
    let known: Vec<&str> = schema::string_choices(schema);
    if known.is_empty() || known.contains(&text) {
        return;
    }
    let words = alternatives(known.iter().copied());
    let others = choices.iter().flat_map(|other| type_words(other));
    let others: Vec<&str> = others.filter(|other| *other != STRING).collect();
    let all = [&[words.as_str()], &others[..]].concat().join(", or ");
    // `"false"` where `false` is intended.
    let listed = schema::listed(schema);
    let bare = serde_json::from_str::<Value>(text)
        .is_ok_and(|bare| listed.iter().any(|(value, _)| **value == bare));
    let near = if bare {
        Some(format!("write it without quotes: {text}"))
    } else {
        nearest(text, known.iter().copied()).map(|near| format!("did you mean `{near}`?"))
    };
    let message = format!("invalid value `{text}` for `{key}`");
    checker.error(span, "unknown-value", message, format!("expected {all}"), near.as_deref());
}

fn check_number(
    checker: &mut Checker<'_>,
    value: &Spanned<DeValue<'_>>,
    schema: &Value,
    key: &str,
) {
    let DeValue::Integer(number) = value.get_ref() else { return };
    let limit = |name: &str| schema.get(name).and_then(Value::as_i64);
    let low = limit("minimum").unwrap_or(i64::MIN);
    let high = limit("maximum").unwrap_or(i64::MAX);
    // A number beyond 64 bits is out of every range.
    let known = i64::from_str_radix(number.as_str(), number.radix()).ok();
    if known.is_some_and(|number| (low..=high).contains(&number)) {
        return;
    }
    let expected = schema::range(schema).unwrap_or_else(|| "a 64-bit integer".to_owned());
    let label = format!("expected {expected}");
    checker.error(value.span(), "out-of-range", format!("`{key}` is out of range"), label, None);
}

fn join(key: &str, name: &str) -> String {
    if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") }
}

/// Returns the sections with a key of this name, for keys written outside their section.
fn sections_with(word: &str) -> Vec<&'static str> {
    let has = |section: &&str| {
        let inside = schema::schema().get("properties").and_then(|all| all.get(*section));
        inside.is_some_and(|inside| schema::keys(inside).contains(&word))
    };
    schema::keys(schema::schema()).into_iter().filter(has).collect()
}

/// Returns the JSON type that a TOML value would have. Dates have no equivalent.
fn json_type(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "string",
        DeValue::Integer(_) => "integer",
        DeValue::Float(_) => "number",
        DeValue::Boolean(_) => "boolean",
        DeValue::Datetime(_) => "datetime",
        DeValue::Array(_) => "array",
        DeValue::Table(_) => "object",
    }
}

fn toml_words(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::Float(_) => "a decimal number",
        DeValue::Datetime(_) => "a date",
        other => type_name(json_type(other)),
    }
}

fn type_words(schema: &Value) -> Vec<&'static str> {
    let types = ["string", "integer", "boolean", "array", "object"];
    types.into_iter().filter(|name| schema::takes(schema, name)).map(type_name).collect()
}

const STRING: &str = "a string";

fn type_name(json: &str) -> &'static str {
    match json {
        "string" => STRING,
        "integer" => "an integer",
        "boolean" => "true or false",
        "array" => "an array",
        _ => "a table",
    }
}

/// Returns how to write a value where a string is required: hexadecimal ids look like numbers.
fn quote_help(value: &DeValue<'_>, choices: &[&Value]) -> Option<String> {
    let text = match value {
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::String(_) if choices.iter().any(|choice| schema::takes(choice, "array")) => {
            return Some("put it in brackets: a list may have one entry".to_owned());
        }
        _ => return None,
    };
    let wants_text = choices.iter().any(|choice| schema::takes(choice, "string"));
    wants_text.then(|| format!("put it in quotes: \"{text}\""))
}
