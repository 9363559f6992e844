//! `menuentry` and `submenu`: lines of the menu.

use std::rc::Rc;

use super::super::grub_script::Command;
use super::super::grub_vars::Value;
use super::{Item, ItemKind, Run};

impl Run<'_> {
    /// Adds an entry or a submenu.
    pub(super) fn menu(
        &mut self,
        submenu: bool,
        arguments: &[Value],
        body: Rc<Vec<Command>>,
        at: usize,
    ) {
        let mut title = None;
        let mut id: Option<Value> = None;
        let restricted = is_restricted(arguments);
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_deref() {
                Some("--id") => id = arguments.next().cloned(),
                Some("--class" | "--users" | "--hotkey" | "--source") => _ = arguments.next(),
                Some(option) if option.starts_with("--id=") => {
                    id = Some(Some(option[5..].to_owned()))
                }
                Some(option) if option.starts_with("--") => {}
                _ if title.is_none() => title = Some(argument.clone()),
                _ => {}
            }
        }
        let title = title.flatten();
        // Without an id, the title is the id (`grub-core/commands/menuentry.c`).
        let id = id.unwrap_or_else(|| title.clone());
        let kind = if submenu { ItemKind::Submenu(body) } else { ItemKind::Entry(body) };
        self.push(kind, title, id, restricted, at);
    }

    /// Adds a line in place of entries that only the machine knows.
    pub(super) fn unknown_entries(&mut self, at: usize) {
        let kind = ItemKind::Entry(Rc::default());
        let unknown = Item { kind, title: None, id: None, restricted: None, certain: false, at };
        self.items.push(unknown);
    }

    /// Adds a line.
    pub(super) fn push(
        &mut self,
        kind: ItemKind,
        title: Value,
        id: Value,
        restricted: Option<bool>,
        at: usize,
    ) {
        self.items.push(Item { kind, title, id, restricted, certain: self.certain, at });
    }
}

/// Whether a command of GRUB 2.14 adds entries that are not followed: for unified kernel images, or as options select
/// (`grub-core/commands/blsuki.c`).
pub(super) fn adds_unknown_entries(command: &str, arguments: &[Value]) -> bool {
    let may_be_option = |word: &Value| word.as_ref().is_none_or(|word| word.starts_with('-'));
    command == "uki" || command == "blscfg" && arguments.iter().any(may_be_option)
}

/// Whether only users with a password may start an entry. With `--unrestricted` all users may, unless `--users` names
/// some (`grub-core/commands/menuentry.c`).
fn is_restricted(arguments: &[Value]) -> Option<bool> {
    let has = |option: &str| {
        arguments.iter().flatten().any(|word| {
            word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        })
    };
    match (has("--users"), has("--unrestricted")) {
        (true, _) => Some(true),
        (false, true) => Some(false),
        (false, false) => arguments.iter().all(Option::is_some).then_some(true),
    }
}
