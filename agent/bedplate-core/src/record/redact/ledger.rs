//! Redacts the ledger in a snapshot. Its history is omitted: no plan needs it. Texts are masked unless they are names
//! of resource types, tools, or files.

use serde_json::Value;

use super::masker::{Masker, Style};
use crate::kind::is_own_word;
use bedplate_base::value::PciAddress;

/// bedplate's own words: tags of a file's state, eswitch modes.
const WORDS: [&str; 4] = ["absent", "file", "legacy", "switchdev"];

/// Returns the ledger's text without possible secrets; `None`: it cannot be parsed.
pub(crate) fn redacted(text: &str, words: &mut Masker) -> Option<String> {
    let mut value: Value = serde_json::from_str(text).ok()?;
    if let Some(history) = value.get_mut("history") {
        *history = Value::Array(Vec::new());
    }
    mask(&mut value, "", words);
    serde_json::to_string(&value).ok()
}

/// Words in the purposes of tools, which plans repeat: those of this version and of earlier ones.
const PURPOSE: [&str; 34] = [
    "a",
    "again",
    "arguments",
    "boot",
    "come",
    "deployment",
    "entry",
    "files",
    "from",
    "initramfs",
    "inside",
    "is",
    "it",
    "its",
    "kernel",
    "load",
    "made",
    "make",
    "may",
    "module",
    "of",
    "old",
    "options",
    "rebuild",
    "regenerate",
    "restored",
    "the",
    "their",
    "these",
    "up",
    "what",
    "which",
    "with",
    "would",
];

fn purpose(text: &str, words: &mut Masker) -> String {
    let is_known =
        |word: &str| PURPOSE.contains(&word.trim_end_matches([':', ','])) || is_own_word(word);
    let mut shown = |word: &str| match is_known(word) {
        true => word.to_owned(),
        false => words.text(word, Style::Line),
    };
    text.split(' ').map(&mut shown).collect::<Vec<_>>().join(" ")
}

fn mask(value: &mut Value, key: &str, words: &mut Masker) {
    match value {
        Value::String(text) if is_shown(text) => {}
        Value::String(text) if ["began", "next", "before", "after", "ours"].contains(&key) => {
            *text = words.value("", text, Style::Setting);
        }
        Value::String(text) if key == "purpose" => *text = purpose(text, words),
        Value::String(text) => *text = words.text(text, Style::Line),
        Value::Array(values) => values.iter_mut().for_each(|value| mask(value, key, words)),
        // Names and values are free text, and planning does not use them.
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
        || WORDS.contains(&text)
        || text.parse::<PciAddress>().is_ok()
        || is_own_word(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind_id::KindId;
    use crate::ledger::Ledger;
    use crate::setting::{
        SetConfigBits, SetEswitch, SetVf, SettingChange as _, VfKey, WriteAttribute,
    };
    use bedplate_base::value::RegisterBits;
    use bedplate_base::value::vf::{EswitchMode, Mac, VfAttributes};

    const SECRET: &str = "hunter2";

    /// Texts of every key are masked, and the result parses as a ledger.
    #[test]
    fn every_free_text_is_masked() {
        let absent = serde_json::json!({ "state": "absent" });
        let file = serde_json::json!({ "state": "file", "sha256": "0".repeat(64), "meta":
            { "mode": 420, "uid": 0, "gid": 0, "xattrs": { SECRET: SECRET } } });
        let tool = serde_json::json!({ "argv": ["rpm-ostree", "kargs", "--append-if-missing", SECRET], "purpose": SECRET, "limit_s": 9 });
        let path = "/proc/sys/vm/swappiness";
        let text = serde_json::json!({
            "version": 2,
            "owed": [{ "kind": "modules", "argv": [SECRET], "purpose": SECRET, "outputs": { SECRET: "0".repeat(64) } }],
            "owned": { "cmdline": [SECRET, format!("x={SECRET}")] },
            "undo": [{ "kind": "modules", "argv": [SECRET], "purpose": SECRET, "limit_s": 9 }],
            "files": { "/etc/default/grub": {
                "kind": "modules", "original": file, "ours": [null], "generator": tool, "readers": [tool],
                "unfinished": { "change": SECRET, "before": absent, "wrote": [] }
            } },
            "attributes": { path: { "kind": "modules", "boot": SECRET, "ours": [SECRET], "action":
                { "path": path, "before": SECRET, "after": SECRET, "limit_s": 1 } } },
            "waiting": [{ "kind": "modules", "boot": SECRET, "module": SECRET, "subject": SECRET, "began": SECRET, "next": SECRET }],
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
        let text = r#"{"version":2,"owed":[{"kind":"cmdline","argv":["grub2-mkconfig","-o","/boot/grub2/grub.cfg"],"purpose":"x y"}],"owned":{},"directories":["/etc/default/grub.d"]}"#;
        let clean = redacted(text, &mut Masker::new(false)).unwrap();
        let ledger: Ledger = serde_json::from_str(&clean).unwrap();
        assert_eq!(crate::kind::outside_write_scope(&ledger), None, "{clean}");
        assert_eq!(ledger.owed[0].argv[0], "grub2-mkconfig");
    }

    /// Settings keep their identity, and no address of a card remains.
    #[test]
    fn settings_keep_their_names() {
        let at = |text: &str| text.parse::<PciAddress>().unwrap();
        let mut ledger = Ledger::default();
        let (kind, boot) = (KindId::Sriov, "11111111-2222-4333-8444-555555555555");
        let path = "/sys/bus/pci/devices/0000:18:00.0/sriov_numvfs".to_owned();
        let count = WriteAttribute { path, before: "0".into(), after: "8".into(), limit_s: 60 };
        ledger.begin_setting(&count, kind, boot, &count.before);
        let register = SetConfigBits {
            address: at("0000:15:01.0"),
            offset: 0x14e,
            bits: RegisterBits { mask: 0x1d, value: 0x11 },
            before: 0x1d,
            register: "ACS control".into(),
        };
        ledger.begin_setting(&register, KindId::Acs, boot, &register.before());
        let key = VfKey { pf: at("0000:18:00.0"), interface: "ens1f0".into(), vf: 1 };
        let mac = |last: u8| Some(Mac([2, 0, 0x5e, 0x10, 0, last]));
        let vf = SetVf {
            key,
            before: VfAttributes { mac: mac(1), ..VfAttributes::default() },
            after: VfAttributes { mac: mac(2), ..VfAttributes::default() },
            start: true,
            limit_s: 60,
        };
        ledger.begin_setting(&vf, kind, boot, &vf.before);
        let (before, after) = (EswitchMode::Legacy, EswitchMode::Switchdev);
        let eswitch = SetEswitch { pf: at("0000:18:00.0"), before, after, limit_s: 60 };
        ledger.begin_setting(&eswitch, kind, boot, &before);
        let clean = redacted(&ledger.text().unwrap(), &mut Masker::new(false)).unwrap();
        assert!(!clean.contains("00:5e"), "{clean}");
        let recorded: Ledger =
            serde_json::from_str(&clean).unwrap_or_else(|why| panic!("{why}: {clean}"));
        assert_eq!(crate::kind::outside_write_scope(&recorded), None, "{clean}");
        let pairs = (recorded.attributes.values().next(), recorded.registers.values().next());
        let (attribute, bits) = (pairs.0.unwrap(), pairs.1.unwrap());
        assert_eq!((&attribute.action, &bits.action.bits), (&count, &register.bits));
        assert_eq!(recorded.eswitches.values().next().unwrap().action, eswitch);
    }
}
