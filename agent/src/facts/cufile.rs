//! What /etc/cufile.json, the configuration of GPUDirect Storage's library, says (handbook §6.4). JSON with comments. Of a wrong
//! one the line. Pure.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::error::Category;

/// Where it is, unless CUFILE_ENV_PATH_JSON says otherwise.
pub const PATH: &str = "/etc/cufile.json";

/// What counts of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// NVMe disks by the kernel's own P2PDMA, without nvidia-fs.
    pub p2pdma: bool,
    /// Copying through host memory where there is no direct way.
    pub compat: bool,
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// The line, from 1 on.
    pub line: usize,
    /// The setting, where the line names one of those that are checked.
    pub key: Option<&'static str>,
    /// What it is to be; `None`: this is no JSON.
    pub expected: Option<String>,
}

/// What a name is to be that stands in one object twice.
pub const ONCE: &str = "there only once";

/// Settings whose types are checked, and the sections that they stand in.
pub const KEYS: [&str; 19] = [
    "allow_compat_mode",
    "dir",
    "fs",
    "generic",
    "level",
    "logging",
    "lustre",
    "max_device_cache_size_kb",
    "max_device_pinned_mem_size_kb",
    "max_direct_io_size_kb",
    "mount_table",
    "posix_gds_min_kb",
    "posix_unaligned_writes",
    "properties",
    "rdma_dev_addr_list",
    "rdma_dynamic_routing",
    "rdma_load_balancing_policy",
    "use_pci_p2pdma",
    "use_poll_mode",
];

/// What a setting is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// `true` or `false`.
    Switch,
    /// A whole number from 0 on.
    Number,
    /// A text.
    Text,
    /// A list of texts.
    Texts,
    /// An object with a key for each mount point.
    Table,
}

impl Type {
    /// Whether a value has it.
    pub fn fits(self, value: &serde_json::Value) -> bool {
        match self {
            Type::Switch => value.is_boolean(),
            Type::Number => value.is_u64(),
            Type::Text => value.is_string(),
            Type::Texts => {
                value.as_array().is_some_and(|all| all.iter().all(serde_json::Value::is_string))
            }
            Type::Table => value.is_object(),
        }
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Type::Switch => "`true` or `false`",
            Type::Number => "a whole number",
            Type::Text => "a text",
            Type::Texts => "a list of texts",
            Type::Table => {
                "an object, which is for the file itself: only single values can be set here"
            }
        }
    }
}

/// Settings by their paths; `*` is any file system. A test holds [`parse`] to it.
pub const TYPES: &[(&str, Type)] = &[
    ("logging.dir", Type::Text),
    ("logging.level", Type::Text),
    ("properties.max_direct_io_size_kb", Type::Number),
    ("properties.max_device_cache_size_kb", Type::Number),
    ("properties.max_device_pinned_mem_size_kb", Type::Number),
    ("properties.allow_compat_mode", Type::Switch),
    ("properties.use_poll_mode", Type::Switch),
    ("properties.use_pci_p2pdma", Type::Switch),
    ("properties.rdma_dev_addr_list", Type::Texts),
    ("properties.rdma_load_balancing_policy", Type::Text),
    ("properties.rdma_dynamic_routing", Type::Switch),
    ("fs.*.posix_unaligned_writes", Type::Switch),
    ("fs.*.posix_gds_min_kb", Type::Number),
    ("fs.*.mount_table", Type::Table),
    ("fs.*.rdma_dev_addr_list", Type::Texts),
];

/// The type of a setting by its path, where it is known.
pub fn expected_type(path: &str) -> Option<Type> {
    let depth = path.split('.').count();
    let is = |row: &&(&str, Type)| row.0.split('.').count() == depth && agree(row.0, path);
    TYPES.iter().find(is).map(|row| row.1)
}

/// A known setting below a path, which so is that of an object: `fs.lustre.posix_gds_min_kb` for `fs.lustre`.
pub fn setting_below(path: &str) -> Option<String> {
    let depth = path.split('.').count();
    let is = |row: &&(&str, Type)| row.0.split('.').count() > depth && agree(row.0, path);
    let rest = TYPES.iter().find(is)?.0.split('.').skip(depth).collect::<Vec<_>>();
    Some(format!("{path}.{}", rest.join(".")))
}

/// The known single value that a path goes through: `logging.level` for `logging.level.console`.
pub fn single_above(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('.').collect();
    let single = |above: &String| expected_type(above).is_some_and(|wanted| wanted != Type::Table);
    (1..parts.len()).map(|depth| parts[..depth].join(".")).find(single)
}

/// Whether a row's path and this one are the same as far as both go.
fn agree(row: &str, path: &str) -> bool {
    row.split('.').zip(path.split('.')).all(|(name, part)| name == "*" || name == part)
}

#[derive(Deserialize, Default)]
#[serde(default, expecting = "an object")]
struct File {
    logging: Logging,
    properties: Properties,
    fs: BTreeMap<String, FileSystem>,
}

#[derive(Deserialize, Default)]
#[serde(default, expecting = "an object")]
#[allow(dead_code, reason = "read for its type")]
struct Logging {
    dir: Option<String>,
    level: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default, expecting = "an object")]
#[allow(dead_code, reason = "most are read for their types")]
struct Properties {
    max_direct_io_size_kb: Option<u64>,
    max_device_cache_size_kb: Option<u64>,
    max_device_pinned_mem_size_kb: Option<u64>,
    allow_compat_mode: Option<bool>,
    use_poll_mode: Option<bool>,
    use_pci_p2pdma: Option<bool>,
    rdma_dev_addr_list: Option<Vec<String>>,
    rdma_load_balancing_policy: Option<String>,
    rdma_dynamic_routing: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default, expecting = "an object")]
#[allow(dead_code, reason = "read for its type")]
struct FileSystem {
    posix_unaligned_writes: Option<bool>,
    posix_gds_min_kb: Option<u64>,
    mount_table: Option<BTreeMap<String, IgnoredAny>>,
    rdma_dev_addr_list: Option<Vec<String>>,
}

/// Text.
///
/// # Errors
/// [`Wrong`]: the first thing that is.
pub fn parse(text: &str) -> Result<Settings, Wrong> {
    let plain = without_comments(text);
    let file: File = serde_json::from_str(&plain).map_err(|error| {
        let line = plain.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
        let named = |key: &&&str| line.contains(&format!("\"{key}\""));
        let words = error.to_string();
        let expected = words.rsplit_once("expected ").map(|(_, rest)| rest);
        let expected = expected.and_then(|rest| rest.split(" at line").next());
        let twice = words.starts_with("duplicate field").then_some(ONCE);
        let expected = expected.map(in_json).or(twice);
        Wrong {
            line: error.line(),
            key: KEYS.iter().find(named).copied(),
            expected: expected.filter(|_| error.classify() == Category::Data).map(str::to_owned),
        }
    })?;
    let Properties { use_pci_p2pdma, allow_compat_mode, .. } = file.properties;
    Ok(Settings {
        p2pdma: use_pci_p2pdma.unwrap_or(false),
        compat: allow_compat_mode.unwrap_or(true),
    })
}

/// A type by the name that JSON has for it.
fn in_json(expected: &str) -> &str {
    match expected {
        "a map" => "an object",
        "a sequence" => "a list",
        other => other,
    }
}

/// The same text with blanks in the place of comments: lines and bytes stay where they are.
pub fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut end = 0;
    for comment in comments(text) {
        plain.push_str(&text[end..comment.start]);
        let blank = |byte: u8| if byte == b'\n' { '\n' } else { ' ' };
        plain.extend(text[comment.clone()].bytes().map(blank));
        end = comment.end;
    }
    plain.push_str(&text[end..]);
    plain
}

/// Where the comments are; one of a line without the line's end.
pub fn comments(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let (length, is_comment) = match c {
            '"' => (quoted(rest), false),
            _ if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), true),
            _ if rest.starts_with("/*") => {
                (rest[2..].find("*/").map_or(rest.len(), |end| end + 4), true)
            }
            c => (c.len_utf8(), false),
        };
        if is_comment {
            found.push(at..at + length);
        }
        at += length;
    }
    found
}

/// Length of the string that `text` begins with, in quotes; all of it where it does not end.
pub fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_no_part_of_it_but_in_strings() {
        let text = "{ // a \"quote\"\n /* two\n lines */ \"logging\": { \"dir\": \"http://x/*y*/\\\"//\" } }";
        assert_eq!(without_comments(text).lines().count(), 3);
        assert_eq!(without_comments("/*/ x */1"), "        1");
        assert_eq!(without_comments("1 // é\n\"é\"/*é\n*/2"), "1      \n\"é\"    \n  2");
        assert_eq!(parse(text), Ok(Settings { p2pdma: false, compat: true }));
        let on = "{\"properties\": {\"use_pci_p2pdma\": true, \"allow_compat_mode\": false, \"other\": [1]}}";
        assert_eq!(parse(on), Ok(Settings { p2pdma: true, compat: false }));
    }

    /// The table and the reader say the same of every setting.
    #[test]
    fn the_table_of_types_is_what_is_read() {
        use serde_json::{Value, json};
        let values =
            [json!(true), json!(1), json!("x"), json!(["x"]), json!({ "x": 1 }), json!([1])];
        for (path, wanted) in TYPES {
            let path = path.replace('*', "lustre");
            assert_eq!(expected_type(&path), Some(*wanted));
            for value in &values {
                let file = path.rsplit('.').fold(value.clone(), |inner, name| {
                    let mut object = serde_json::Map::new();
                    object.insert(name.to_owned(), inner);
                    Value::Object(object)
                });
                assert_eq!(parse(&file.to_string()).is_ok(), wanted.fits(value), "{file}");
            }
        }
        assert_eq!(expected_type("properties.other"), None);
        assert_eq!(setting_below("fs.weka").as_deref(), Some("fs.weka.posix_unaligned_writes"));
        assert_eq!(setting_below("logging.level"), None);
        assert_eq!(single_above("logging.level.x.y").as_deref(), Some("logging.level"));
        assert_eq!(single_above("fs.lustre.mount_table./mnt"), None);
    }

    #[test]
    fn a_wrong_type_is_found_at_its_line() {
        let wrong = |text: &str| parse(text).unwrap_err();
        let level = wrong("{\n // ERROR\n \"logging\": {\n  \"level\": 2\n }\n}");
        assert_eq!((level.line, level.key), (4, Some("level")));
        assert_eq!(level.expected.as_deref(), Some("a string"));
        let table = wrong("{\"fs\": {\"lustre\": {\n\"mount_table\": []}}}");
        assert_eq!((table.line, table.expected.as_deref()), (2, Some("an object")));
        let system = wrong("{\"fs\": {\n\"lustre\": 3}}");
        assert_eq!((system.line, system.expected.as_deref()), (2, Some("an object")));
        let twice = wrong("{\"logging\": {},\n\"logging\": {}}");
        assert_eq!((twice.line, twice.expected.as_deref()), (2, Some("there only once")));
        assert_eq!(wrong("{\n\"a\": }").expected, None);
        assert_eq!(wrong("").line, 1);
        assert_eq!(
            wrong("{\"properties\": {\"use_poll_mode\": \"secret\"}}").expected.as_deref(),
            Some("a boolean")
        );
    }
}
