//! `[sysctl]`: kernel parameters.

use std::collections::BTreeMap;

use serde::Serialize;

use super::key::{Key, folded};
use crate::plan::Rationale;
use crate::section::{Checker, Place, Printer, ScalarEntry, Spanned, key_of, quoted, section};

section! {
    /// `[sysctl]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    "sysctl" Sysctl, SysctlFile {}
    special read_keys {
        /// Kernel parameters, `set = { "KEY" = value }`, set now and at every boot. Keys as in sysctl.d: with dots, or with
        /// slashes if a name contains dots (`net/ipv4/conf/eth0.100/rp_filter`). A later file replaces single keys.
        /// Parameters that name a program (`kernel.core_pattern`, `kernel.modprobe`) are rejected.
        #[schemars(
            extend("default" = {}),
            extend("examples" = [{ "kernel.numa_balancing": 0 }]),
            extend("x-source" = "sysctl.d(5); rccl src/init.cc warns when kernel.numa_balancing is on; handbook §14.6")
        )]
        set: BTreeMap<Spanned<String>, ScalarEntry>;
    }
    before {
        /// Sorted by key.
        set: Vec<Setting>;
    }
    show show_keys;
}

/// One kernel parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Name of the parameter.
    pub key: Key,
    /// Value, with single blanks.
    pub value: String,
    /// Location in the profile, and reason.
    pub why: Vec<Rationale>,
}

fn read_keys(section: &mut Sysctl, files: Vec<SysctlFile>, checker: &mut Checker<'_>) {
    let mut set = BTreeMap::new();
    for file in files {
        let mut places: BTreeMap<Key, Place> = BTreeMap::new();
        for (name, entry) in file.set.into_iter().flatten() {
            let Some(key) = read_key(checker, &name) else { continue };
            let value_place = entry.place;
            let (value, reason) = entry.into_parts();
            let text = value.to_string();
            let control = text.chars().any(|c| c.is_control() && c != '\t');
            if control || folded(&text).is_empty() {
                let message =
                    format!("the value of `{key}` is empty or contains a control character");
                let label = "expected one line of text";
                checker.error(value_place, "bad-sysctl", message, label, None);
                continue;
            }
            if let Some(first) = places.get(&key) {
                let message = format!("{key} is set twice in `sysctl.set`");
                let (at, with) = ((name.place, "again here"), (*first, "first here"));
                checker.clash("duplicate", message, at, with, None);
                continue;
            }
            places.insert(key.clone(), name.place);
            let why = checker.note(&key_of("sysctl.set", &key.to_string()), name.place, reason);
            set.insert(key.clone(), Setting { key, value: folded(&text), why });
        }
    }
    section.set = set.into_values().collect();
}

fn read_key(checker: &mut Checker<'_>, name: &Spanned<String>) -> Option<Key> {
    let mut refuse = |message, label, help: &str| {
        checker.error(name.place, "bad-sysctl", message, label, Some(help));
        None
    };
    match Key::new(&name.value) {
        Err(error) => refuse(
            error.to_string(),
            format!("expected {}", error.expected),
            "name each key separately: patterns and `..` are not supported; use slashes if a name contains dots, as in \
             `net/ipv4/conf/eth0.100/rp_filter`",
        ),
        Ok(key) if key.names_program() => refuse(
            format!("`{key}` names a program that the kernel runs"),
            "expected another parameter".to_owned(),
            "set it in your own file in /etc/sysctl.d; bedplate never writes such keys, because write access to its \
             records would then run programs as root",
        ),
        Ok(key) => Some(key),
    }
}

fn show_keys(section: &Sysctl, out: &mut Printer<'_>) {
    for setting in &section.set {
        let name = setting.key.to_string();
        let key = key_of("sysctl.set", &name);
        out.named(&format!("set.{}", quoted(&name)), &setting.value, &key);
    }
}
