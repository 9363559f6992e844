//! All that follows from one declaration, by a section that only this test has.

use serde::Deserialize;

use super::*;

section! {
    /// `[lamp]`.
    #[derive(Debug, PartialEq)]
    "lamp" Lamp, LampFragment, LampLayer {
        /// How bright it is.
        #[schemars(range(max = 10))]
        bright: u8 = 3;

        /// After which time it goes out.
        off_s ("off"): u32 as Length<10, DAY> = 2 * 60;

        /// What it is called.
        label: String as Pattern;
    }
    reason of bright {
        /// Why.
        why;
        /// Source.
        source;
    }
}

/// The section's layer in one file, and what is wrong with it.
fn read(sources: &mut Sources, path: &str, text: &str) -> (LampLayer, Vec<&'static str>) {
    let file = sources.add(SourceFile::new(path, text));
    let mut errors = Vec::new();
    let fragment = LampFragment::deserialize(toml::Deserializer::parse(text).unwrap()).unwrap();
    let layer = LampLayer::read(fragment, &mut Checker::new(sources, file, &mut errors));
    (layer, errors.iter().map(|error| error.id).collect())
}

fn good(sources: &mut Sources, path: &str, text: &str) -> LampLayer {
    let (layer, errors) = read(sources, path, text);
    assert_eq!(errors, Vec::<&str>::new());
    layer
}

#[test]
fn what_is_not_said_has_its_default() {
    let sources = Sources::default();
    let mut finisher = Finisher::new(&sources);
    let lamp = LampLayer::default().finish(&mut finisher);
    assert_eq!(lamp, Lamp { bright: 3, off_s: 120, label: None, why: Vec::new() });
    assert!(finisher.into_origins().is_empty());
}

#[test]
fn layers_merge_key_by_key_and_each_line_shows_where_it_comes_from() {
    let mut sources = Sources::default();
    let base = good(&mut sources, "base", "bright = 1\nwhy = \"night\"\noff = \"1h\"\n");
    let later = good(&mut sources, "later", "\nlabel = \"hall*\"\noff = \"30s\"\n");
    let merged = base.overlay(later);
    let mut finisher = Finisher::new(&sources);
    let lamp = merged.finish(&mut finisher);
    assert_eq!((lamp.bright, lamp.off_s, lamp.why[0].reason.as_str()), (1, 30, "night"));
    let origins = finisher.into_origins();
    let mut out = Printer::new(Some(&origins));
    merged.show(&lamp, &mut out);
    assert_eq!(
        out.into_text(),
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
fn rules_judge_each_value_and_a_reason_needs_one() {
    let mut sources = Sources::default();
    let (layer, errors) = read(&mut sources, "x", "off = \"5s\"\nlabel = \"[\"\nwhy = \"no\"\n");
    assert_eq!(errors, ["bad-interval", "bad-pattern", "lonely-reason"]);
    assert_eq!(layer, LampLayer::default());
}

#[test]
#[cfg_attr(not(feature = "schemars"), ignore = "needs --features schemars")]
fn the_schema_has_meaning_bounds_and_default_of_each_key() {
    #[cfg(feature = "schemars")]
    {
        use serde_json::{Value, json};
        let settings =
            schemars::generate::SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
        let schema = settings.into_generator().into_root_schema_for::<LampFragment>().to_value();
        let key = |name: &str, what: &str| schema["properties"][name][what].clone();
        assert_eq!(key("bright", "description"), "How bright it is.");
        assert_eq!((key("bright", "default"), key("bright", "maximum")), (json!(3), json!(10)));
        assert_eq!(key("off", "default"), "2m");
        assert_eq!(key("label", "default"), Value::Null);
        assert_eq!(schema["properties"]["off_s"], Value::Null);
    }
}
