//! One change: done whole, or taken back whole.

use super::act::{self, Failure, act, attribute, expect, register, same_value};
use super::undo::{self, Undo};
use super::{ChangeReport, Checker, Event, Left, Outcome, Restored, Store, bind, describe, met};
use crate::host::HostKind;
use crate::ledger::{By, Generator, Ledger, OwedTool, RegisterKey, Sha, WaitRecord};
use crate::plan::{Action, Change, Unseen, WayBack};

/// Until when live actions of an image wait.
const FIRST_BOOT: &str = "at the first boot, by bedplate apply on the running machine";

/// A change's actions, by what this host can do with them.
struct Parts<'a> {
    /// To be done now.
    now: Vec<&'a Action>,
    /// Tools that somebody has to run in the image; checks that depend on them wait as well.
    owed: Vec<&'a Action>,
    /// For the running machine only.
    later: Vec<&'a Action>,
}

impl<'a> Parts<'a> {
    fn of(change: &'a Change, live: bool, runs_tools: bool) -> Self {
        let mut parts = Parts { now: Vec::new(), owed: Vec::new(), later: Vec::new() };
        for action in &change.actions {
            match action {
                action if action.is_live() && !live => parts.later.push(action),
                Action::RunTool { .. } if !runs_tools => parts.owed.push(action),
                Action::Verify(_) if !parts.owed.is_empty() => {}
                action => parts.now.push(action),
            }
        }
        parts
    }

    fn tools(&self) -> impl Iterator<Item = (&'a Vec<String>, &'a String)> {
        self.now.iter().chain(&self.owed).filter_map(|action| match action {
            Action::RunTool { argv, purpose, .. } => Some((argv, purpose)),
            _ => None,
        })
    }
}

/// Do one change.
pub(super) fn run(
    store: &mut Store,
    checker: Checker,
    watch: &mut dyn FnMut(Event<'_>),
    change: &Change,
    unseen: &[Unseen],
) -> ChangeReport {
    let live = store.reader.kind() == HostKind::Live;
    let parts = Parts::of(change, live, store.writer.runs_tools());
    let outcome = carry_out(store, checker, watch, change, &parts, unseen);
    let mut report = ChangeReport::new(change, outcome);
    report.deferred = parts.later.iter().map(|action| describe(action)).collect();
    report
}

fn carry_out(
    store: &mut Store,
    checker: Checker,
    watch: &mut dyn FnMut(Event<'_>),
    change: &Change,
    parts: &Parts,
    unseen: &[Unseen],
) -> Outcome {
    let mut wanted = parts.now.clone();
    wanted.extend(&parts.owed);
    if met::all(store, checker, change, &wanted) {
        let outcome = match parts.later.is_empty() {
            true => Outcome::AlreadyDone,
            false => Outcome::Deferred { until: FIRST_BOOT.into() },
        };
        return settled(store, change, parts, unseen, outcome);
    }
    let earlier = store.ledger.clone();
    if let Err((action, why)) = begin(store, change, parts, unseen) {
        return Outcome::Failed { action, why, output: None, restored: Restored::default() };
    }
    let mut undo = Vec::new();
    for action in &parts.now {
        watch(Event::Action(change, action));
        if let Err(failure) = act(store, checker, change, action, &mut undo) {
            let restored = taken_back(store, &earlier, change, parts, undo);
            let Failure { why, output } = failure;
            return Outcome::Failed { action: describe(action), why, output, restored };
        }
    }
    let outcome = match parts.owed.is_empty() {
        true => Outcome::Done,
        false => Outcome::Owed { commands: parts.tools().map(|(argv, _)| argv.clone()).collect() },
    };
    settled(store, change, parts, unseen, outcome)
}

/// Look at everything that the change would change, and write down what is there, durably, before the first write.
/// The error names what was being done.
fn begin(
    store: &mut Store,
    change: &Change,
    parts: &Parts,
    unseen: &[Unseen],
) -> Result<(), (String, String)> {
    let mut ledger = store.ledger.clone();
    let mut looked_at = Vec::new();
    for action in &parts.now {
        let first = !looked_at.contains(&target(action));
        looked_at.push(target(action));
        begin_one(store, &mut ledger, change, action, first)
            .map_err(|why| (describe(action), why))?;
    }
    // A tool that reads what is written here has to run after it, whatever happens in between. Without files to
    // write, the next plan sees by itself what is missing, unless it is not for this run to do.
    let writes = parts.now.iter().any(|action| matches!(action, Action::ReplaceFile { .. }));
    if writes || !parts.owed.is_empty() {
        for (argv, purpose) in parts.tools() {
            ledger.owe(OwedTool {
                kind: change.kind.into(),
                argv: argv.clone(),
                purpose: purpose.clone(),
            });
        }
    }
    if let Some(owns) = &change.owns {
        ledger.begin_owning(change.kind, owns);
    }
    begin_waits(store, &mut ledger, change, unseen)
        .map_err(|why| ("write down that it waits for a boot".to_owned(), why))?;
    store.note(|now| *now = ledger).map_err(|why| ("write down what is there now".to_owned(), why))
}

/// What an action acts on, to tell a second action on the same thing.
fn target(action: &Action) -> Option<String> {
    match action {
        Action::ReplaceFile { path, .. } | Action::WriteAttribute { path, .. } => {
            Some(path.clone())
        }
        Action::SetConfigBits { address, offset, mask, .. } => {
            Some(format!("{address} {offset} {mask}"))
        }
        _ => None,
    }
}

fn begin_one(
    store: &mut Store,
    ledger: &mut Ledger,
    change: &Change,
    action: &Action,
    first: bool,
) -> Result<(), String> {
    match action {
        Action::ReplaceFile { path, before, after } => {
            let seen = store.see(path)?;
            let to = after.as_ref().map(|after| &after.bytes);
            if seen.bytes.as_ref() == to {
                return Ok(());
            }
            if first {
                let planned = before.as_ref().map(|before| &before.bytes);
                expect(seen.bytes.as_ref() == planned, path, "something else")?;
            }
            store.keep(&seen)?;
            let to_be = to.map(|bytes| Sha::of(bytes));
            let by = By { kind: change.kind, change: &change.id };
            ledger.begin_file(path, by, &seen.was, to_be, &generators(change));
            if to.is_some() {
                ledger.directories.extend(store.missing_directories(path)?);
            }
        }
        Action::WriteAttribute { path, before, after, limit_s } => {
            let now = attribute(store, path)?;
            if first && !same_value(&now, after) {
                expect(same_value(&now, before), path, &format!("{now:?}"))?;
            }
            ledger.begin_attribute(path, change.kind, &boot(store)?, (&now, after), *limit_s);
        }
        Action::SetConfigBits { address, offset, mask, value, before, register: name } => {
            let now = register(store, *address, *offset)?;
            if first && now & mask != value & mask {
                let subject = format!("{name} of {address}");
                expect(now & mask == before & mask, &subject, &format!("{now:#06x}"))?;
            }
            let key = RegisterKey { address: *address, offset: *offset, register: name.clone() };
            ledger.begin_register(&key, change.kind, &boot(store)?, now, (*mask, *value));
        }
        // VFs come to be within the change: they are written down when they are bound.
        Action::RunTool { .. }
        | Action::BindVfs { .. }
        | Action::LoadModule { .. }
        | Action::UnloadModule { .. }
        | Action::Verify(_) => {}
    }
    Ok(())
}

/// The tools of a change that make files from others.
fn generators(change: &Change) -> Vec<Generator> {
    let tools = change.actions.iter().filter_map(|action| match action {
        Action::RunTool { argv, purpose, way_back: WayBack::Repeat, limit_s, .. } => {
            Some(Generator { argv: argv.clone(), purpose: purpose.clone(), limit_s: *limit_s })
        }
        _ => None,
    });
    tools.collect()
}

/// Which boot of the kernel this is.
pub(super) fn boot(store: &Store) -> Result<String, String> {
    let id = store.reader.attribute("/proc/sys/kernel/random/boot_id");
    id.map_err(|error| format!("which boot this is cannot be told: {error}"))
}

/// The end of a change that went well: write down what is there now.
fn settled(
    store: &mut Store,
    change: &Change,
    parts: &Parts,
    unseen: &[Unseen],
    outcome: Outcome,
) -> Outcome {
    let mut ledger = store.ledger.clone();
    if let Some(owns) = &change.owns {
        ledger.settle_owning(change.kind, owns);
    }
    let settle = |ledger: &mut Ledger| -> Result<(), String> {
        for action in &parts.now {
            settle_one(store, ledger, action)?;
        }
        // What an earlier run of this change wrote before it was cut short, and is not in this plan any more.
        for path in ledger.unfinished_of(&change.id) {
            ledger.settle_file(&path, &store.see(&path)?.was);
        }
        for (argv, _) in parts.tools() {
            ledger.paid(change.kind, argv);
        }
        Ok(())
    };
    // Until the owed tools have run, the change is not finished: what was there before it is kept.
    let noted = match outcome {
        Outcome::Owed { .. } => Ok(()),
        _ => settle(&mut ledger).and_then(|()| settle_waits(store, &mut ledger, change, unseen)),
    }
    .and_then(|()| store.note(|now| *now = ledger));
    match noted {
        Ok(()) => outcome,
        Err(why) => Outcome::Failed {
            action: "write down what was done (it is done, and stays)".into(),
            why,
            output: None,
            restored: Restored::default(),
        },
    }
}

fn settle_one(store: &Store, ledger: &mut Ledger, action: &Action) -> Result<(), String> {
    match action {
        Action::ReplaceFile { path, .. } => ledger.settle_file(path, &store.see(path)?.was),
        Action::RunTool { touches, .. } => {
            for path in touches {
                ledger.settle_file(path, &store.see(path)?.was);
            }
        }
        Action::WriteAttribute { path, .. } => {
            ledger.settle_attribute(path, &attribute(store, path)?)
        }
        Action::SetConfigBits { address, offset, register: name, .. } => {
            let key = RegisterKey { address: *address, offset: *offset, register: name.clone() };
            ledger.settle_register(&key, act::register(store, *address, *offset)?);
        }
        Action::BindVfs { pf, count, .. } => {
            for vf in bind::vfs(store, *pf, *count)? {
                let path = bind::driver_override(&vf);
                ledger.settle_attribute(&path, &attribute(store, &path)?);
            }
        }
        Action::LoadModule { .. } | Action::UnloadModule { .. } | Action::Verify(_) => {}
    }
    Ok(())
}

/// What waits for a boot and shows nowhere until then is written down before the first write: after a kill right behind
/// the write nothing would differ any more, and nothing would know of the boot that is due.
fn begin_waits(
    store: &Store,
    ledger: &mut Ledger,
    change: &Change,
    unseen: &[Unseen],
) -> Result<(), String> {
    if unseen.is_empty() || store.reader.kind() != HostKind::Live {
        return Ok(());
    }
    let boot = boot(store)?;
    ledger.waiting.retain(|record| record.boot == boot && !is_of(record, change, unseen));
    ledger.waiting.extend(unseen.iter().map(|unseen| WaitRecord {
        kind: change.kind.to_owned(),
        boot: boot.clone(),
        module: unseen.module.clone(),
        subject: unseen.subject.clone(),
        began: unseen.began.clone(),
        next: unseen.next.clone(),
    }));
    Ok(())
}

/// What the change took back in the same boot waits no longer; not before it is done.
fn settle_waits(
    store: &Store,
    ledger: &mut Ledger,
    change: &Change,
    unseen: &[Unseen],
) -> Result<(), String> {
    if store.reader.kind() != HostKind::Live {
        return Ok(());
    }
    let known = |record: &WaitRecord| {
        record.kind == change.kind && change.items.iter().any(|item| item.subject == record.subject)
    };
    ledger.waiting.retain(|record| !known(record));
    begin_waits(store, ledger, change, unseen)
}

fn is_of(record: &WaitRecord, change: &Change, unseen: &[Unseen]) -> bool {
    record.kind == change.kind && unseen.iter().any(|unseen| unseen.subject == record.subject)
}

/// The end of a change that failed.
fn taken_back(
    store: &mut Store,
    earlier: &Ledger,
    change: &Change,
    parts: &Parts,
    undo: Vec<Undo>,
) -> Restored {
    let mut restored = undo::all(store, &change.id, undo);
    let whole = restored.left.is_empty();
    // On disk the ledger promises too much so far, never too little.
    let noted = store.note(|ledger| {
        if !whole {
            return;
        }
        match earlier.owned.get(change.kind) {
            Some(owned) => ledger.owned.insert(change.kind.into(), owned.clone()),
            None => ledger.owned.remove(change.kind),
        };
        ledger.waiting.clone_from(&earlier.waiting);
        for (argv, _) in parts.tools().filter(|(argv, _)| !earlier.owes(change.kind, argv)) {
            ledger.paid(change.kind, argv);
        }
    });
    if let Err(why) = noted {
        restored.left.push(Left { subject: "the ledger".into(), why });
    }
    restored
}
