//! `[sysctl]`: kernel parameters.

use std::collections::BTreeMap;

use serde::Serialize;

use super::key::{Key, folded};
use crate::plan::Rationale;
use crate::section::{
    Checker, Entry, Finisher, Leaf, ListEntry, Overlay, Printer, Reason, ScalarEntry, Spanned,
    key_of, quoted, section,
};

section! {
    /// `[sysctl]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    "sysctl" Sysctl, SysctlFragment, SysctlLayer {}
    special keys: Keys = read_keys {
        /// Kernel parameters, `set = { "KEY" = value }`, set now and at every boot. Keys as in sysctl.d: with dots, or with
        /// slashes where a name has dots in it (`net/ipv4/conf/eth0.100/rp_filter`). A later file replaces single keys.
        /// Parameters that name a program (`kernel.core_pattern`, `kernel.modprobe`) are refused.
        #[schemars(
            extend("default" = {}),
            extend("examples" = [{ "kernel.numa_balancing": 0 }]),
            extend("x-source" = "sysctl.d(5); rccl src/init.cc warns when kernel.numa_balancing is on; handbook §14.6")
        )]
        set: BTreeMap<Spanned<String>, ScalarEntry>;
    }
    before {
        /// Sorted by key.
        set: Vec<Setting> = finish_keys;
    }
    show show_keys;
}

/// One kernel parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Which.
    pub key: Key,
    /// Its value, with single blanks.
    pub value: String,
    /// Where and why.
    pub why: Vec<Rationale>,
}

/// Values by key.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Keys(BTreeMap<Key, Leaf<String>>);

impl Overlay for Keys {
    fn overlay(mut self, later: Self) -> Self {
        self.0.extend(later.0);
        self
    }
}

fn read_keys(
    checker: &mut Checker<'_>,
    set: Option<BTreeMap<Spanned<String>, ScalarEntry>>,
) -> Keys {
    let mut keys = Keys::default();
    for (name, entry) in set.into_iter().flatten() {
        let place = checker.place(name.span);
        let key = match Key::new(&name.value) {
            Ok(key) => key,
            Err(error) => {
                let label = format!("expected {}", error.expected);
                let help = "name each key by itself: patterns and `..` are not taken; write slashes where a name has dots \
                            in it, as in `net/ipv4/conf/eth0.100/rp_filter`";
                checker.error(place, "bad-sysctl", error.to_string(), label, Some(help.to_owned()));
                continue;
            }
        };
        if key.names_program() {
            let message = format!("`{key}` names a program that the kernel runs");
            let help = "write it to a file of your own in /etc/sysctl.d: bedplate sets no such parameter, so that nobody who \
                        gets at its records can name a program";
            let label = "expected another parameter".to_owned();
            checker.error(place, "bad-sysctl", message, label, Some(help.to_owned()));
            continue;
        }
        let (value, reason) = match entry.value {
            Entry::Short(value) => (value, Reason::NONE),
            Entry::Long(table) => (table.value, Reason { why: table.why, source: table.source }),
        };
        let text = value.to_string();
        let control = text.chars().any(|c| c.is_control() && c != '\t');
        if control || folded(&text).is_empty() {
            let message = format!("the value of `{key}` is empty or holds a control character");
            let place = checker.place(entry.span);
            checker.error(place, "bad-sysctl", message, "expected one line of text", None);
            continue;
        }
        if let Some(first) = keys.0.get(&key) {
            let message = format!("{key} is set twice in `sysctl.set`");
            checker.clash(
                "duplicate",
                message,
                (place, "again here"),
                (first.place, "first here"),
                None,
            );
            continue;
        }
        keys.0.insert(key, checker.reasoned(folded(&text), place, reason));
    }
    keys
}

fn finish_keys(section: &SysctlLayer, finisher: &mut Finisher<'_>) -> Vec<Setting> {
    let mut out = Vec::new();
    for (key, leaf) in &section.keys.0 {
        finisher.note(key_of("sysctl.set", &key.to_string()), leaf);
        out.push(Setting {
            key: key.clone(),
            value: leaf.value.clone(),
            why: finisher.reasons_of_leaf(leaf),
        });
    }
    out
}

fn show_keys(section: &SysctlLayer, _: &Sysctl, out: &mut Printer<'_>) {
    for (key, leaf) in &section.keys.0 {
        let name = key.to_string();
        let origin = key_of("sysctl.set", &name);
        let entry = ListEntry::new("value", &leaf.value, origin.clone(), leaf);
        out.line(&format!("set.{} = {}", quoted(&name), entry.text()), Some(&origin));
    }
}
