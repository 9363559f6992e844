//! The ledger in a recording, without its history, which no plan needs. Texts are masked unless they are names of kinds, tools or
//! files.

use serde_json::Value;

use super::masker::{Masker, Style};
use crate::kind::is_own_word;
use bedplate_base::value::PciAddress;

/// Tags of a file's state.
const STATES: [&str; 2] = ["absent", "file"];

/// The ledger's text without possible secrets; `None`: it cannot be parsed.
pub(crate) fn redacted(text: &str, words: &mut Masker) -> Option<String> {
    let mut value: Value = serde_json::from_str(text).ok()?;
    if let Some(history) = value.get_mut("history") {
        *history = Value::Array(Vec::new());
    }
    mask(&mut value, "", words);
    serde_json::to_string(&value).ok()
}

/// Words of the purposes that kinds give to their tools, which plans repeat.
const PURPOSE: [&str; 28] = [
    "a",
    "again",
    "arguments",
    "boot",
    "come",
    "deployment",
    "entry",
    "from",
    "initramfs",
    "inside",
    "is",
    "it",
    "its",
    "kernel",
    "made",
    "make",
    "module",
    "of",
    "old",
    "options",
    "rebuild",
    "regenerate",
    "the",
    "these",
    "up",
    "what",
    "with",
    "would",
];

fn purpose(text: &str, words: &mut Masker) -> String {
    let is_known = |word: &str| PURPOSE.contains(&word.trim_end_matches(':')) || is_own_word(word);
    let mut shown = |word: &str| match is_known(word) {
        true => word.to_owned(),
        false => words.text(word, Style::Line),
    };
    text.split(' ').map(&mut shown).collect::<Vec<_>>().join(" ")
}

fn mask(value: &mut Value, key: &str, words: &mut Masker) {
    match value {
        Value::String(text) if is_shown(text) => {}
        Value::String(text) if ["began", "next", "original", "value", "ours"].contains(&key) => {
            *text = words.value("", text, Style::Setting);
        }
        Value::String(text) if key == "purpose" => *text = purpose(text, words),
        Value::String(text) => *text = words.text(text, Style::Line),
        Value::Array(values) => values.iter_mut().for_each(|value| mask(value, key, words)),
        // Names and values are anybody's, and nothing is planned by them.
        Value::Object(object) if ["xattrs", "outputs"].contains(&key) => object.clear(),
        Value::Object(object) => object.iter_mut().for_each(|(key, value)| mask(value, key, words)),
        _ => {}
    }
}

/// Whether a text cannot be a secret: a digest, an address, or a fixed name.
fn is_shown(text: &str) -> bool {
    let is_digest = text.len() == 64 && text.bytes().all(|c| c.is_ascii_hexdigit());
    // `--append-if-missing` of rpm-ostree.
    let is_option = text.strip_prefix("--").is_some_and(|name| {
        !name.is_empty() && name.bytes().all(|c| c.is_ascii_lowercase() || c == b'-')
    });
    is_digest
        || is_option
        || STATES.contains(&text)
        || text.parse::<PciAddress>().is_ok()
        || is_own_word(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;

    const SECRET: &str = "hunter2";

    /// Texts of every key are masked, and the ledger is one afterwards that bedplate takes for its own.
    #[test]
    fn no_text_of_the_ledger_stays() {
        let absent = serde_json::json!({ "state": "absent" });
        let file = serde_json::json!({ "state": "file", "sha256": "0".repeat(64), "meta":
            { "mode": 420, "uid": 0, "gid": 0, "xattrs": { SECRET: SECRET } } });
        let tool = serde_json::json!({ "argv": ["rpm-ostree", "kargs", "--append-if-missing", SECRET], "purpose": SECRET, "limit_s": 9 });
        let text = serde_json::json!({
            "version": 1,
            "owed": [{ "kind": SECRET, "argv": [SECRET], "purpose": SECRET, "outputs": { SECRET: "0".repeat(64) } }],
            "owned": { "cmdline": [SECRET, format!("x={SECRET}")] },
            "undo": [{ "kind": SECRET, "argv": [SECRET], "purpose": SECRET, "limit_s": 9 }],
            "files": { "/etc/default/grub": {
                "kind": SECRET, "original": file, "ours": [null], "generator": tool, "readers": [tool],
                "unfinished": { "change": SECRET, "before": absent, "wrote": [] }
            } },
            "attributes": { "/proc/sys/vm/swappiness": {
                "kind": SECRET, "boot": SECRET, "original": SECRET, "ours": [SECRET], "limit_s": 1
            } },
            "waiting": [{ "kind": SECRET, "boot": SECRET, "module": SECRET, "subject": SECRET, "began": SECRET, "next": SECRET }],
            "history": [],
        })
        .to_string();
        let _: Ledger = serde_json::from_str(&text).unwrap();
        let clean = redacted(&text, &mut Masker::new(false)).unwrap();
        assert!(!clean.contains(SECRET), "{clean}");
        let _: Ledger = serde_json::from_str(&clean).unwrap();
    }

    #[test]
    fn own_words_stay() {
        let text = r#"{"version":1,"owed":[{"kind":"cmdline","argv":["grub2-mkconfig","-o","/boot/grub2/grub.cfg"],"purpose":"x y"}],"owned":{},"directories":["/etc/default/grub.d"]}"#;
        let clean = redacted(text, &mut Masker::new(false)).unwrap();
        let ledger: Ledger = serde_json::from_str(&clean).unwrap();
        assert_eq!(crate::kind::outside_write_scope(&ledger), None, "{clean}");
        assert_eq!(ledger.owed[0].argv[0], "grub2-mkconfig");
    }
}
