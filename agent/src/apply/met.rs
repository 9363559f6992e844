//! Whether everything that a change wants is so already. Reads only. An action that a later one of the same change
//! overrules (VF count to 0, then to 8) does not count.

use super::act::{attribute, register, same_value};
use super::{Answer, Checker, Store, bind};
use crate::ledger::Sha;
use crate::plan::{Action, Change, Check};

/// Whether nothing is left to do of `actions`, the part of `change` that this host takes now.
pub(super) fn all(store: &Store, checker: Checker, change: &Change, actions: &[&Action]) -> bool {
    actions.iter().enumerate().all(|(index, action)| {
        overruled(action, &actions[index + 1..]) || one(store, checker, change, action)
    })
}

fn overruled(action: &Action, later: &[&Action]) -> bool {
    later.iter().any(|other| match (action, other) {
        (Action::ReplaceFile { path: a, .. }, Action::ReplaceFile { path: b, .. })
        | (Action::WriteAttribute { path: a, .. }, Action::WriteAttribute { path: b, .. }) => {
            a == b
        }
        (
            Action::SetConfigBits { address: a, offset: at, mask: bits, .. },
            Action::SetConfigBits { address: b, offset, mask, .. },
        ) => (a, at, bits) == (b, offset, mask),
        _ => false,
    })
}

fn one(store: &Store, checker: Checker, change: &Change, action: &Action) -> bool {
    match action {
        Action::ReplaceFile { path, after, .. } => store
            .see(path)
            .is_ok_and(|seen| seen.bytes.as_ref() == after.as_ref().map(|after| &after.bytes)),
        Action::WriteAttribute { path, after, .. } => {
            attribute(store, path).is_ok_and(|now| same_value(&now, after))
        }
        Action::SetConfigBits { address, offset, mask, value, .. } => {
            register(store, *address, *offset).is_ok_and(|now| now & mask == value & mask)
        }
        Action::RunTool { argv, .. } => has_run(store, change, argv),
        Action::BindVfs { pf, count, driver, .. } => {
            bind::unbound(store, *pf, *count, driver).is_ok_and(|unbound| unbound.is_empty())
        }
        Action::LoadModule { module } => {
            holds(store, checker, &Check::ModuleLive { module: module.clone() })
        }
        Action::UnloadModule { module } => super::act::is_unloaded(store, module) == Ok(true),
        Action::Verify(check) => holds(store, checker, check),
    }
}

fn holds(store: &Store, checker: Checker, check: &Check) -> bool {
    checker(check, store.reader) == Answer::Holds
}

/// A tool has run if it is not owed and the files that it reads are as we left them when it last succeeded.
/// Equal files alone do not tell: somebody else may have written them and not run it. Without files, the change's
/// checks are all there is to go by.
fn has_run(store: &Store, change: &Change, argv: &[String]) -> bool {
    let ledger = &store.ledger;
    if ledger.owes(change.kind, argv) {
        return false;
    }
    let settled = |path: &str, content: Option<Sha>| {
        ledger
            .files
            .get(path)
            .is_some_and(|record| record.unfinished.is_none() && record.ours == [content])
    };
    let mut files = change.actions.iter().filter_map(|action| match action {
        Action::ReplaceFile { path, after, .. } => {
            Some(settled(path, after.as_ref().map(|after| Sha::of(&after.bytes))))
        }
        _ => None,
    });
    match files.next() {
        Some(first) => first && files.all(|settled| settled),
        None => change.actions.iter().any(|action| matches!(action, Action::Verify(_))),
    }
}
