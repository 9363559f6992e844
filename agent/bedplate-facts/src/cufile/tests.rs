use super::*;

#[test]
fn comments_are_blanked_except_in_strings() {
    let text =
        "{ // a \"quote\"\n /* two\n lines */ \"logging\": { \"dir\": \"http://x/*y*/\\\"//\" } }";
    assert_eq!(without_comments(text).lines().count(), 3);
    assert_eq!(without_comments("/*/ x */1"), "        1");
    assert_eq!(without_comments("1 // é\n\"é\"/*é\n*/2"), "1      \n\"é\"    \n  2");
    assert_eq!(parse(text), Ok(Settings { p2pdma: false, compat: true }));
    let on = "{\"properties\": {\"use_pci_p2pdma\": true, \"allow_compat_mode\": false, \"other\": [1]}}";
    assert_eq!(parse(on), Ok(Settings { p2pdma: true, compat: false }));
}

#[test]
fn every_setting_is_checked_against_its_type() {
    use serde_json::json;
    let values = [json!(true), json!(1), json!("x"), json!(["x"]), json!({ "x": 1 }), json!([1])];
    for (path, wanted) in TYPES {
        let path = path.replace('*', "lustre");
        assert_eq!(expected_type(&path), Some(*wanted));
        for value in &values {
            let file = path.rsplit('.').fold(value.clone(), |inner, name| {
                let mut object = serde_json::Map::new();
                object.insert(name.to_owned(), inner);
                Value::Object(object)
            });
            let one = match value {
                Value::Bool(_) => *wanted == Type::Switch,
                Value::Number(_) => *wanted == Type::Number,
                Value::String(_) => *wanted == Type::Text,
                Value::Object(_) => *wanted == Type::Table,
                list => *wanted == Type::Texts && list == &json!(["x"]),
            };
            assert_eq!(parse(&file.to_string()).is_ok(), one, "{file}");
        }
    }
    assert_eq!(expected_type("properties.other"), None);
    assert_eq!(setting_below("fs.weka").as_deref(), Some("fs.weka.posix_unaligned_writes"));
    assert_eq!(setting_below("logging.level"), None);
    assert_eq!(single_above("logging.level.x.y").as_deref(), Some("logging.level"));
    assert_eq!(single_above("fs.lustre.mount_table./mnt"), None);
}

#[test]
fn mistakes_are_reported_with_their_line() {
    let wrong = |text: &str| {
        let Mistake { line, problem } = parse(text).unwrap_err();
        (line, problem)
    };
    let of = |key, expected| Problem::Type { key, expected };
    assert_eq!(
        wrong("{\n // ERROR\n \"logging\": {\n  \"level\": 2\n }\n}"),
        (4, of(Some("level"), Type::Text))
    );
    assert_eq!(
        wrong("{\"fs\": {\"lustre\": {\n\"mount_table\": []}}}"),
        (2, of(Some("mount_table"), Type::Table))
    );
    assert_eq!(wrong("{\"fs\": {\n\"lustre\": 3}}"), (2, of(Some("lustre"), Type::Section)));
    assert_eq!(wrong("{\"fs\": {\n\"ours\": 3}}"), (2, of(None, Type::Section)));
    assert_eq!(wrong("{\"logging\": null}"), (1, of(Some("logging"), Type::Section)));
    assert!(parse("{\"logging\": {\"level\": null}}").is_ok());
    let twice = Problem::Twice { key: Some("logging") };
    assert_eq!(wrong("{\"logging\": {},\n\"logging\": {}}"), (2, twice));
    assert!(parse("{\"other\": 1, \"other\": 2}").is_ok());
    let dotted = "{\"properties.use_pci_p2pdma\": true, \"logging.level\": 3}";
    assert_eq!(parse(dotted), Ok(Settings::default()));
    assert_eq!(wrong("{\n\"a\": }"), (2, Problem::Syntax));
    assert_eq!(wrong("{\n\"a\": 01}"), (2, Problem::Syntax));
    assert_eq!(wrong(""), (1, Problem::Syntax));
    assert_eq!(wrong("\n[]"), (2, Problem::NoObject));
    assert_eq!(
        wrong("{\"properties\": {\"use_poll_mode\": \"secret\"}}"),
        (1, of(Some("use_poll_mode"), Type::Switch))
    );
}
