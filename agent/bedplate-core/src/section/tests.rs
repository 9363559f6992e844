//! Results of one declaration, for a section in this test.

use serde::Deserialize;

use super::*;

section! {
    /// `[lamp]`.
    #[derive(Debug, PartialEq)]
    "lamp" Lamp, LampFile {
        /// How bright it is.
        #[schemars(range(max = 10))]
        bright: u8 = 3;

        /// Time until it goes out.
        off_s ("off"): u32 as Length<10, DAY> = 2 * 60;

        /// Name of the lamp.
        label: String as Checked<Pattern>;
    }
    reason of bright {
        /// Why.
        why;
        /// Source.
        source;
    }
}

/// Merges files with these paths and texts. Returns the section, the ids of its errors, and its text.
fn read(files: &[(&str, &str)]) -> (Lamp, Vec<&'static str>, String) {
    let mut checker = Checker::new(&[]);
    let file = |(path, text): &(&str, &str)| {
        let (text, _) = checker.add(SourceFile::new(path, text));
        LampFile::deserialize(toml::Deserializer::parse(&text).unwrap()).unwrap()
    };
    let files = files.iter().map(file).collect();
    let lamp = Lamp::read(files, &mut checker);
    match checker.finish() {
        Ok((_, origins)) => {
            let mut out = Printer::new(&origins, true);
            lamp.show(&mut out);
            (lamp, Vec::new(), out.into_text())
        }
        Err(errors) => (lamp, errors.0.iter().map(|error| error.id).collect(), String::new()),
    }
}

const DEFAULT: Lamp = Lamp { bright: 3, off_s: 120, label: None, why: Vec::new() };

#[test]
fn unset_key_has_its_default() {
    let (lamp, errors, shown) = read(&[]);
    assert_eq!((lamp, errors.len()), (DEFAULT, 0));
    assert_eq!(shown, "\n[lamp]\nbright = 3  # default\noff = \"120s\"  # default\n");
}

#[test]
fn files_merge_by_key_and_lines_show_origin() {
    let base = ("base", "bright = 1\nwhy = \"night\"\noff = \"1h\"\n");
    let later = ("later", "\nlabel = \"hall*\"\noff = \"30s\"\n");
    let (lamp, errors, shown) = read(&[base, later]);
    assert_eq!(errors, Vec::<&str>::new());
    assert_eq!((lamp.bright, lamp.off_s, lamp.why[0].reason.as_str()), (1, 30, "night"));
    assert_eq!(
        shown,
        "
[lamp]
bright = 1  # from base:1
why = \"night\"
off = \"30s\"  # from later:3
label = \"hall*\"  # from later:2
"
    );
}

#[test]
fn rules_check_values_and_reason_needs_a_value() {
    let (lamp, errors, _) = read(&[("x", "off = \"5s\"\nlabel = \"[\"\nwhy = \"no\"\n")]);
    assert_eq!(errors, ["bad-interval", "bad-pattern", "lonely-reason"]);
    assert_eq!(lamp, DEFAULT);
}

#[test]
#[cfg_attr(not(feature = "schemars"), ignore = "needs --features schemars")]
fn schema_has_description_bounds_and_default() {
    #[cfg(feature = "schemars")]
    {
        use serde_json::{Value, json};
        let settings =
            schemars::generate::SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
        let schema = settings.into_generator().into_root_schema_for::<LampFile>().to_value();
        let key = |name: &str, what: &str| schema["properties"][name][what].clone();
        assert_eq!(key("bright", "description"), "How bright it is.");
        assert_eq!((key("bright", "default"), key("bright", "maximum")), (json!(3), json!(10)));
        assert_eq!(key("off", "default"), "2m");
        assert_eq!(key("label", "default"), Value::Null);
        assert_eq!(schema["properties"]["off_s"], Value::Null);
    }
}
