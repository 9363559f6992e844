//! JSON Schema of profile files, generated from the types of the sections: the text of `schemas/profile.json`.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::root::ProfileFile;

/// Returns the schema; each paragraph of its descriptions is one line.
pub(crate) fn generated_schema() -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<ProfileFile>().to_value();
    remove_null(&mut schema);
    reflow(&mut schema);
    schema
}

/// Removes null from the schema: TOML has no null.
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

/// Removes the source's line breaks from descriptions; blank lines stay between paragraphs.
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
