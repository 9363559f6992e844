use proptest::prelude::*;
use serde_json::json;

use super::*;

fn key(text: &str) -> Key {
    text.parse().unwrap()
}

const THEIRS: &str = "{\n    // of the vendor\n    \"logging\": {\n        \"level\": \"ERROR\" // quiet\n    },\n    \
                      \"properties\": {\n        /* in KB */\n        \"max_direct_io_size_kb\": 16384,\n        \
                      \"allow_compat_mode\": true\n    }\n}\n";

fn document(text: &str) -> Document {
    Document::parse(text).unwrap()
}

/// Returns a file with a key set.
fn with(text: &str, name: &str, value: &str) -> String {
    let mut edited = document(text);
    edited.set(&key(name), value).unwrap();
    edited.text().to_owned()
}

/// Returns a file without a key, where bedplate created `made` of the objects above it.
fn without(text: &str, name: &str, made: usize) -> String {
    let mut edited = document(text);
    edited.remove(&key(name), made).unwrap();
    edited.text().to_owned()
}

fn value(text: &str, name: &str) -> Option<Value> {
    document(text).get(&key(name)).unwrap().map(|found| found.value)
}

#[test]
fn edit_preserves_every_other_byte() {
    let switch = "properties.allow_compat_mode";
    assert_eq!(value(THEIRS, switch), Some(json!(true)));
    let off = with(THEIRS, switch, "false");
    assert_eq!(off, THEIRS.replace("\"allow_compat_mode\": true", "\"allow_compat_mode\": false"));
    assert_eq!(with(&off, switch, "true"), THEIRS);
}

#[test]
fn new_key_follows_layout_of_its_neighbours() {
    for (text, name, after) in [
        ("{}", "a.b", "{\"a\": {\"b\": 1}}"),
        ("{ }", "a.b", "{ \"a\": {\"b\": 1} }"),
        ("{\n}", "a.b", "{\n  \"a\": {\n    \"b\": 1\n  }\n}"),
        ("{\"a\":{\"x\":[1]}}", "a.b", "{\"a\":{\"x\":[1], \"b\": 1}}"),
        (
            "{ \"a\": { \"x\": 2 } /* of a */ }",
            "a.b",
            "{ \"a\": { \"x\": 2, \"b\": 1 } /* of a */ }",
        ),
        (
            "{\n  \"a\": {\n    \"x\": 2 // two\n    // the end\n  }\n}\n",
            "a.b",
            "{\n  \"a\": {\n    \"x\": 2, // two\n    // the end\n    \"b\": 1\n  }\n}\n",
        ),
        (
            "{\r\n\t\"x\": 2\r\n}\r\n",
            "a.b",
            "{\r\n\t\"x\": 2,\r\n\t\"a\": {\r\n\t\t\"b\": 1\r\n\t}\r\n}\r\n",
        ),
        ("{\n  \"a\": { // why\n  }\n}", "a.b", "{\n  \"a\": { // why\n    \"b\": 1\n  }\n}"),
        ("{ \"x\": 2 // two\n}", "a.b", "{ \"x\": 2, \"a\": {\"b\": 1} // two\n}"),
    ] {
        assert_eq!(with(text, name, "1"), after);
        let made = usize::from(!text.contains("\"a\""));
        assert_eq!(without(after, name, made), text);
    }
}

#[test]
fn comments_stay_when_a_key_is_removed() {
    for (text, after) in [
        ("{\"a\": {\"x\": 2, \"b\": 1 /* why */}}", "{\"a\": {\"x\": 2 /* why */}}"),
        (
            "{\n  \"a\": {\n    \"x\": 2,\n    \"b\": 1 // slow\n  }\n}",
            "{\n  \"a\": {\n    \"x\": 2\n    // slow\n  }\n}",
        ),
        (
            "{\n  \"a\": {\n    \"b\": 1, // slow\n    \"x\": 2\n  }\n}",
            "{\n  \"a\": {\n    // slow\n    \"x\": 2\n  }\n}",
        ),
        ("{\"a\": {\"b\": /* one */ 1, \"x\": 2}}", "{\"a\": {/* one */ \"x\": 2}}"),
        ("{\"a\": {\"b\": // one\n 1}}", "{\"a\": {// one\n}}"),
        ("{\"a\": { // of a\n \"b\": 1 }}", "{\"a\": { // of a\n }}"),
        ("{\"a\": { // of a\n \"b\": 1, \"x\": 2 }}", "{\"a\": { // of a\n \"x\": 2 }}"),
    ] {
        assert_eq!(without(text, "a.b", 1), after);
        document(after);
    }
}

#[test]
fn only_created_objects_are_removed_with_a_key() {
    let text = "{\"a\": {\"b\": {\"c\": 1}}}";
    for (made, after) in [(0, "{\"a\": {\"b\": {}}}"), (1, "{\"a\": {}}"), (2, "{}"), (9, "{}")] {
        assert_eq!(without(text, "a.b.c", made), after);
    }
    assert_eq!(without("{\"a\": {\"b\": 1, \"x\": 2}}", "a.b", 1), "{\"a\": { \"x\": 2}}");
    assert_eq!(without("{\"a\": {\"x\": 2}}", "a.b", 1), "{\"a\": {\"x\": 2}}");
    assert_eq!(without("{\"a\": {/**/\"b\": 1}}", "a.b", 1), "{\"a\": {/**/}}");
}

#[test]
fn original_value_is_restored_verbatim() {
    for source in [
        "123456789012345678901234567890",
        "1.10e2",
        "[1, // one\n 2]",
        "{\"x\": 1, \"x\": 2}",
        "\"\\u0041\"",
        "null",
    ] {
        let text = format!("{{\"a\": {{\"b\": {source} /* b */}}}}");
        let found = document(&text).get(&key("a.b")).unwrap().unwrap();
        assert_eq!(found.source, source);
        let ours = with(&text, "a.b", "4");
        assert_eq!(value(&ours, "a.b"), Some(json!(4)));
        assert_eq!(with(&ours, "a.b", &found.source), text);
    }
}

/// A parent that is not an object is not replaced, and of two values neither is chosen.
#[test]
fn non_object_parents_and_duplicates_are_rejected() {
    for (text, said) in [
        ("{\n\"a\": [1]}", "/etc/cufile.json:2: `a` is a list, but `a.b.c` needs an object there"),
        (
            "{\"a\": {\"b\":\n1}}",
            "/etc/cufile.json:2: `a.b` is a number, but `a.b.c` needs an object there",
        ),
        ("{\"a\": {},\n\"a\": {}}", "/etc/cufile.json:2: duplicate `a`"),
        (
            "{\"a\": {\"b\": {\"c\": 1,\n\n\"\\u0063\": 2}}}",
            "/etc/cufile.json:3: duplicate `a.b.c`",
        ),
    ] {
        let mut document = document(text);
        assert_eq!(document.get(&key("a.b.c")).unwrap_err().to_string(), said);
        assert_eq!(document.set(&key("a.b.c"), "1").unwrap_err().to_string(), said);
        assert_eq!(document.remove(&key("a.b.c"), 9).unwrap_err().to_string(), said);
        assert_eq!(document.text(), text);
    }
    assert_eq!(value("{\"x\": 1, \"x\": 2, \"a\": {\"b\": 3}}", "a.b"), Some(json!(3)));
}

#[test]
fn empty_own_file_is_recognized() {
    let own = Document::new("hgx");
    assert!(own.is_only_heading());
    let text = with(own.text(), "properties.use_pci_p2pdma", "true");
    assert!(!document(&text).is_only_heading());
    assert!(text.starts_with("// written by bedplate"), "{text}");
    assert_eq!(without(&text, "properties.use_pci_p2pdma", 1), own.text());
    for theirs in ["{}", "{\n}\n", "{ // why\n}", "// why\n{}"] {
        assert!(!document(theirs).is_only_heading(), "{theirs}");
    }
}

#[test]
fn invalid_json_is_rejected() {
    for text in ["", "[]", "{\"a\": 1,}", "{a: 1}", "{'a': 1}", "{\"a\": 0x1}", "{} {}"] {
        assert!(Document::parse(text).is_err(), "{text}");
    }
    let deep = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    assert!(Document::parse(&deep).is_err());
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_rejected(text in "[{}\\[\\]\",:a1/* \n]{0,60}") {
        if let Ok(document) = Document::parse(&text) {
            prop_assert_eq!(document.text(), &text);
            let edited = with(&text, "properties.x", "\"y\"");
            prop_assert_eq!(value(&edited, "properties.x"), Some(json!("y")));
        }
    }

    /// With any blanks and comments in the file, setting and removing keys restores its bytes.
    #[test]
    fn set_and_remove_restore_the_text(
        blanks in prop::collection::vec("( |\n|\t|\r\n|/\\*c\\*/|// c\n){0,3}", 24),
        names in prop::collection::vec("(a|b)\\.(x|y)\\.(p|q)", 1..4),
        empty in any::<bool>(),
    ) {
        let tokens = match empty {
            true => vec!["{", "\"a\"", ":", "{", "}", "}"],
            false => vec![
                "{", "\"a\"", ":", "{", "\"x\"", ":", "{", "\"p\"", ":", "1", ",", "\"r\"", ":", "[2]", "}", "}", ",", "\"c\"",
                ":", "3", "}",
            ],
        };
        let text: String = tokens.iter().zip(&blanks).flat_map(|(token, blank)| [*token, blank.as_str()]).collect();
        let mut edited = document(&text);
        let mut set = Vec::new();
        for name in names.iter().map(|name| key(name)) {
            if edited.get(&name).unwrap().is_none() {
                let made = name.names().len() - edited.depth(&name).unwrap();
                edited.set(&name, "[4]").unwrap();
                prop_assert_eq!(value(edited.text(), &name.to_string()), Some(json!([4])));
                set.push((name, made));
            }
        }
        for (name, made) in set.iter().rev() {
            edited.remove(name, *made).unwrap();
        }
        prop_assert_eq!(edited.text(), text);
    }
}
