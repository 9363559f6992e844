//! `[cufile]`: keys of cufile.json.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plan::Rationale;
use crate::section::{Checker, Printer, Reason, Spanned, key_of, quoted, section};
use bedplate_base::value::NotAValue;
use bedplate_facts::cufile::{Type, expected_type, setting_below, single_above};

section! {
    /// `[cufile]`.
    #[derive(Debug, Clone, PartialEq, Serialize)]
    "cufile" Cufile, CufileFile {}
    special read_keys {
        /// Keys of /etc/cufile.json, by their path: `set = { "properties.use_pci_p2pdma" = true }`. Everything else in the
        /// file stays unchanged, including comments. A later file replaces single keys.
        #[schemars(
            extend("default" = {}),
            extend("examples" = [{ "properties.use_pci_p2pdma": true }]),
            extend("x-source" = "NVIDIA GPUDirect Storage configuration guide; handbook §6.4")
        )]
        set: BTreeMap<Spanned<String>, Spanned<SettingEntry>>;
    }
    before {
        /// Sorted by key.
        set: Vec<Setting>;
    }
    show show_keys;
}

/// Path of a value: names of the objects above it, then its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(Vec<String>);

impl Key {
    /// Returns the names of the objects above, then its own; at least two.
    pub fn names(&self) -> &[String] {
        &self.0
    }
}

impl FromStr for Key {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        let name = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        };
        let parts: Vec<String> = text.split('.').map(str::to_owned).collect();
        match (2..=8).contains(&parts.len()) && parts.iter().all(|part| name(part)) {
            true => Ok(Key(parts)),
            false => Err(NotAValue {
                text: text.to_owned(),
                expected: "the path of a key, like `properties.use_pci_p2pdma`",
            }),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

impl Serialize for Key {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Value of a key.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum SettingValue {
    /// On or off.
    Switch(bool),
    /// A whole number.
    Number(i64),
    /// Text.
    Text(String),
    /// A list of texts.
    Texts(Vec<String>),
}

impl From<SettingValue> for Value {
    fn from(value: SettingValue) -> Value {
        match value {
            SettingValue::Switch(truth) => truth.into(),
            SettingValue::Number(number) => number.into(),
            SettingValue::Text(text) => text.into(),
            SettingValue::Texts(texts) => texts.into(),
        }
    }
}

/// Value, with or without a reason.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum SettingEntry {
    /// The value alone.
    Short(SettingValue),
    /// The value with its reason.
    Long(SettingTable),
}

/// Value with its reason.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SettingTable {
    /// Value.
    pub value: SettingValue,
    /// Reason, shown in plans.
    pub why: Option<String>,
    /// Source of the fact.
    pub source: Option<String>,
}

/// One key of the file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// Path of the key.
    pub key: Key,
    /// Value to set.
    pub value: Value,
    /// Location in the profile, and reason.
    pub why: Vec<Rationale>,
}

fn read_keys(section: &mut Cufile, files: Vec<CufileFile>, checker: &mut Checker<'_>) {
    let mut set = BTreeMap::new();
    let given = files.into_iter().filter_map(|file| file.set).flatten();
    for (name, Spanned { value: entry, place }) in given {
        let Some(key) = checker.parse::<Key>(&name, "bad-cufile") else { continue };
        if let Some((label, help)) = no_single_value(&name.value) {
            let message = format!("cannot set `{key}`: the library could not read the file");
            checker.error(name.place, "bad-cufile", message, label, Some(&help));
            continue;
        }
        let (value, why, source) = match entry {
            SettingEntry::Short(value) => (value, None, None),
            SettingEntry::Long(table) => (table.value, table.why, table.source),
        };
        let value = Value::from(value);
        if let Some(expected) = expected_type(&name.value).filter(|wanted| !wanted.fits(&value)) {
            let message = format!("`{key}` cannot be {value}");
            let label = format!("expected {}", expected.description());
            let help = (expected == Type::Table)
                .then_some("only single values can be set; edit the file itself");
            checker.error(place, "bad-cufile", message, label, help);
            continue;
        }
        let at = |value| Spanned { value, place };
        let reason = Reason { why: why.map(at), source: source.map(at) };
        let why = checker.note(&key_of("cufile.set", &key.to_string()), place, reason);
        set.insert(key.clone(), Setting { key, value, why });
    }
    section.set = set.into_values().collect();
    report_nested_keys(section, checker);
}

/// Returns the reason why the library does not read a single value at a path, and the alternative.
fn no_single_value(path: &str) -> Option<(String, String)> {
    if let Some(below) = setting_below(path) {
        let help = format!("set a key in it, like `{below}`");
        return Some((format!("`{path}` is an object"), help));
    }
    let above = single_above(path)?;
    Some((format!("`{above}` is a single value"), format!("set `{above}`")))
}

/// Reports a key with a single value at a path where another key needs an object.
fn report_nested_keys(section: &Cufile, checker: &mut Checker<'_>) {
    // Sorted by parts, so a nested key directly follows the key above it.
    let below = |pair: &&[Setting]| pair[1].key.0.starts_with(&pair[0].key.0);
    let Some([upper, lower]) = section.set.windows(2).find(below) else { return };
    let message =
        format!("`{}` is a single value, but `{}` needs an object there", upper.key, lower.key);
    let place = |setting: &Setting| checker.place(&key_of("cufile.set", &setting.key.to_string()));
    if let (Some(upper), Some(lower)) = (place(upper), place(lower)) {
        let (at, with) = ((lower, "remove one of them"), (upper, "single value set here"));
        checker.clash("contradiction", message, at, with, None);
    }
}

fn show_keys(section: &Cufile, out: &mut Printer<'_>) {
    for setting in &section.set {
        let name = setting.key.to_string();
        let key = key_of("cufile.set", &name);
        out.named(&format!("set.{}", quoted(&name)), &setting.value, &key);
    }
}
