//! The shipped profiles, and the schema that describes them.

use serde_json::{Value, json};

use super::*;

fn as_json(text: &str) -> Value {
    let value: toml::Value = toml::from_str(text).unwrap();
    serde_json::to_value(value).unwrap()
}

fn validator() -> jsonschema::Validator {
    jsonschema::draft202012::new(schema()).unwrap()
}

#[test]
fn schema_is_valid_json_schema() {
    jsonschema::draft202012::meta::validate(schema()).unwrap();
    assert_eq!(schema()["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema().get("$id"), None);
}

#[test]
fn shipped_profiles_load_cleanly_and_match_the_schema() {
    let validator = validator();
    for Shipped { name, text } in super::super::shipped() {
        let loaded = good(text);
        assert_eq!(loaded.profile.name, *name);
        assert!(!loaded.profile.description.is_empty(), "{name}");
        assert!(loaded.lints.is_empty(), "{name}: {}", render_all(&loaded.lints, false));
        let errors: Vec<String> =
            validator.iter_errors(&as_json(text)).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
        for value in loaded.profile.cmdline.args.iter().map(|arg| &arg.why) {
            assert_ne!(
                value[0].reason, "requested by the profile",
                "{name}: an argument without a reason"
            );
        }
    }
}

#[test]
fn every_shipped_setting_has_a_comment() {
    for Shipped { name, text } in super::super::shipped() {
        for paragraph in text.split("\n\n").filter(|part| part.contains(" = ")) {
            assert!(
                paragraph.contains('#') || paragraph.contains("schema = "),
                "{name}: {paragraph}"
            );
        }
    }
}

#[test]
fn schema_violation_does_not_load() {
    let validator = validator();
    let bad = [
        "schema = 2",
        "schema = \"1\"",
        "schema = 1\npolciy = 1",
        "schema = 1\nname = \"\"",
        "schema = 1\n[acs]\npolicy = \"none\"",
        "schema = 1\n[acs]\nroot_port = \"yes\"",
        "schema = 1\n[iommu]\nmode = \"pt\"",
        "schema = 1\n[cmdline]\nargs = \"quiet\"",
        "schema = 1\n[cmdline]\nargs = [\"a b\"]",
        "schema = 1\n[cmdline]\nargs = [\"\"]",
        "schema = 1\n[cmdline]\nargs = [{ why = \"x\" }]",
        "schema = 1\n[cmdline]\nargs = [{ arg = \"x\", because = \"x\" }]",
        "schema = 1\n[modules]\nload = [\"a/b\"]",
        "schema = 1\n[modules]\nload = [{ name = \"x\", load = \"later\" }]",
        "schema = 1\n[modules]\noptions = { nvidia = { x = [] } }",
        "schema = 1\n[match]\npci = [{ id = \"nvidia\" }]",
        "schema = 1\n[match]\npci = [{ id = [] }]",
        "schema = 1\n[match]\npci = [{ id = \"10de:*\", at_least = 0 }]",
        "schema = 1\n[match]\ncpu_vendor = \"Intel\"",
        "schema = 1\n[[sriov.devices]]\nname = \"x\"",
        "schema = 1\n[[sriov.devices]]\nvfs = 1",
        "schema = 1\n[[sriov.devices]]\nname = \"x\"\nvfs = 70000",
        "schema = 1\n[[sriov.devices]]\nname = \"x\"\nvfs = -1",
        "schema = 1\n[[sriov.devices]]\nname = \"x\"\nvfs = \"all\"",
        "schema = 1\n[[sriov.devices]]\nname = \"x\"\nvfs = 1\nselect = { address = \"17\" }",
        "schema = 1\n[[sriov.devices]]\nname = \"x\"\nvfs = 1\nvf_driver = \"a b\"",
        "schema = 1\n[reboot]\nattempts = 0",
        "schema = 1\n[reboot]\nwindows = \"Sat\"",
        "schema = 1\n[agent]\nmode = 1",
    ];
    for text in bad {
        assert!(!validator.is_valid(&as_json(text)), "the schema takes {text:?}");
        assert!(load_text(text).is_err(), "load takes {text:?}");
    }
}

/// Collects every property of the schema with its dotted key.
fn properties(schema: &Value, prefix: &str, out: &mut Vec<(String, Value)>) {
    if let Some(Value::Object(own)) = schema.get("properties") {
        for (name, property) in own {
            let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            out.push((key.clone(), property.clone()));
            properties(property, &key, out);
        }
    }
    for part in ["anyOf", "items"] {
        match schema.get(part) {
            Some(Value::Array(choices)) => {
                choices.iter().for_each(|choice| properties(choice, prefix, out))
            }
            Some(items) => properties(items, prefix, out),
            None => {}
        }
    }
}

#[test]
fn every_key_is_described_and_explained() {
    let mut all = Vec::new();
    properties(schema(), "", &mut all);
    assert!(all.len() > 50, "{}", all.len());
    for (key, property) in &all {
        assert!(property["description"].as_str().is_some_and(|text| text.len() > 5), "{key}");
        assert!(property.get("type") != Some(&json!("null")), "{key}");
        let text = explain(key).unwrap_or_else(|| panic!("{key} is not explained"));
        assert!(text.starts_with(key.as_str()) && text.ends_with('\n'), "{text}");
    }
    let mut keys: Vec<String> = all.into_iter().map(|(key, _)| key).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys, explained_keys());
}

#[test]
fn examples_and_defaults_are_valid() {
    let mut all = Vec::new();
    properties(schema(), "", &mut all);
    for (key, property) in all {
        let validator = jsonschema::draft202012::new(&property).unwrap();
        let examples = property["examples"].as_array().cloned().unwrap_or_default();
        for value in examples.iter().chain(property.get("default")) {
            assert!(validator.is_valid(value), "{key}: {value}");
        }
    }
}

#[test]
fn schema_defaults_equal_loaded_defaults() {
    let shown = as_json(&show(&good("schema = 1\n"), false));
    let mut all = Vec::new();
    properties(schema(), "", &mut all);
    let mut compared = 0;
    for (key, property) in all {
        let (Some(default), Some((section, name))) = (property.get("default"), key.split_once('.'))
        else {
            continue;
        };
        let Some(actual) = shown.get(section).and_then(|section| section.get(name)) else {
            continue;
        };
        // A length of time is shown in seconds, in any notation of the default.
        let length = |value: &Value| {
            value.as_str().and_then(|text| text.parse::<jiff::SignedDuration>().ok())
        };
        let same =
            actual == default || (length(actual).is_some() && length(actual) == length(default));
        assert!(same, "{key}: {actual} is not {default}");
        compared += 1;
    }
    assert!(compared >= 15, "{compared}");
}
