//! Executes one change completely, or rolls it back completely.

use super::action::file::UndoResult;
use super::action::{self, Task, UndoList};
use super::error::StepError;
use super::image_tool::image_obstacle;
use super::{ChangeReport, Checker, Event, Left, Outcome, Restored, Store, describe};
use crate::kind::modules;
use crate::ledger::{Ledger, PendingTool, WaitRecord};
use crate::plan::{Action, Change, FIRST_BOOT, PendingUntilBoot};
use bedplate_base::chain;
use bedplate_host::HostKind;

/// A change's actions, grouped by what this host can do with them.
struct Parts<'a> {
    /// Actions to execute now.
    now: Vec<&'a Action>,
    /// Tools for an operator to run in the image; checks that depend on them wait too.
    owed: Vec<&'a Action>,
    /// Why required tools cannot run in the image.
    hindrance: Option<String>,
    /// Actions for the running machine only.
    later: Vec<&'a Action>,
}

impl<'a> Parts<'a> {
    fn split(change: &'a Change, store: &mut Store) -> Self {
        let live = store.reader.kind() == HostKind::Live;
        let (now, owed, later) = (Vec::new(), Vec::new(), Vec::new());
        let mut parts = Parts { now, owed, hindrance: None, later };
        for action in &change.actions {
            match action {
                action if action.is_live() && !live => parts.later.push(action),
                Action::RunTool { .. } if !store.writer.runs_tools() => parts.owed.push(action),
                Action::RunTool { argv, .. } => match image_obstacle(store, argv) {
                    Some(why) => {
                        parts.hindrance = Some(why);
                        parts.owed.push(action);
                    }
                    None => parts.now.push(action),
                },
                Action::Verify(_) if !parts.owed.is_empty() => {}
                action => parts.now.push(action),
            }
        }
        parts
    }

    fn pending_commands(&self) -> Vec<Vec<String>> {
        let commands = self.owed.iter().filter_map(|action| match action {
            Action::RunTool { argv, .. } => Some(argv.clone()),
            _ => None,
        });
        commands.collect()
    }

    fn tools(&self) -> impl Iterator<Item = (&'a Vec<String>, &'a String)> {
        self.now.iter().chain(&self.owed).filter_map(|action| match action {
            Action::RunTool { argv, purpose, .. } => Some((argv, purpose)),
            _ => None,
        })
    }
}

/// Executes one change.
pub(super) fn run(
    store: &mut Store,
    checker: Checker,
    watch: &mut dyn FnMut(Event<'_>),
    change: &Change,
    unseen: &[PendingUntilBoot],
) -> ChangeReport {
    let parts = Parts::split(change, store);
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
    unseen: &[PendingUntilBoot],
) -> Outcome {
    let task = Task { change, checker };
    if is_done(store, task, parts) {
        let outcome = match parts.later.is_empty() {
            true => Outcome::AlreadyDone,
            false => Outcome::Deferred { until: FIRST_BOOT.into() },
        };
        return finish(store, change, parts, unseen, outcome);
    }
    let earlier = store.ledger.clone();
    if let Err((action, error)) = begin(store, task, parts, unseen) {
        let why = chain(&error);
        return Outcome::Failed { action, why, output: None, restored: Restored::default() };
    }
    let mut undo = Vec::new();
    for action in &parts.now {
        watch(Event::Action(change, action));
        if let Err(error) = action::operation_for(action).execute(store, task, &mut undo) {
            let restored = roll_back(store, &earlier, change, parts, undo);
            let (why, output) = (chain(&error), error.output().map(str::to_owned));
            return Outcome::Failed { action: describe(action), why, output, restored };
        }
    }
    let outcome = match parts.owed.is_empty() {
        true => Outcome::Done,
        false => Outcome::ToolsPending {
            commands: parts.pending_commands(),
            why: parts.hindrance.clone(),
        },
    };
    finish(store, change, parts, unseen, outcome)
}

/// Whether this host's part of the change is complete, including pending tools. Ignores an action that a later
/// one of the same change overrides.
fn is_done(store: &Store, task: Task, parts: &Parts) -> bool {
    // The results of pending tools are not checked later, so only this check shows whether they have run.
    let checks = task.change.actions.iter().filter(|action| matches!(action, Action::Verify(_)));
    let checks = checks.filter(|_| !parts.owed.is_empty());
    let actions = parts.now.iter().chain(&parts.owed).copied().chain(checks);
    let wanted: Vec<_> = actions.map(|action| action::operation_for(action)).collect();
    wanted.iter().enumerate().all(|(index, operation)| {
        let target = operation.target();
        let overridden =
            target.is_some() && wanted[index + 1..].iter().any(|later| later.target() == target);
        overridden || operation.is_done(store, task)
    })
}

/// Inspects everything that the change affects, and records the current state durably before the first write. The error
/// includes a description of the failed step.
fn begin(
    store: &mut Store,
    task: Task,
    parts: &Parts,
    unseen: &[PendingUntilBoot],
) -> Result<(), (String, StepError)> {
    let change = task.change;
    let mut ledger = store.ledger.clone();
    let mut targets = Vec::new();
    for action in &parts.now {
        let operation = action::operation_for(action);
        let target = operation.target();
        let first = !targets.contains(&target);
        targets.push(target);
        operation
            .record(store, &mut ledger, task, first)
            .map_err(|error| (operation.describe(), error))?;
    }
    // A tool that reads files written here must run after them, even if this run is interrupted. Without files to
    // write, the next plan detects missing work itself, unless this run only leaves the tools pending.
    let writes = parts.now.iter().any(|action| matches!(action, Action::ReplaceFile { .. }));
    if writes || !parts.owed.is_empty() {
        for (argv, purpose) in parts.tools() {
            ledger.owe(PendingTool::new(change.kind, argv, purpose));
        }
    }
    if writes && !parts.owed.is_empty() && change.kind == modules::NAME {
        ledger.owe_anew(change.kind, &modules::initramfs_digests(store.reader));
    }
    for action in &parts.now {
        if let Action::RunTool { argv, .. } = action {
            ledger.begin_tool(change.kind, argv);
        }
    }
    if let Some(owns) = &change.owns {
        ledger.begin_owning(change.kind, owns);
    }
    begin_waits(store, &mut ledger, change, unseen)
        .map_err(|error| ("record the pending boot".to_owned(), error))?;
    store
        .update_ledger(|now| *now = ledger)
        .map_err(|error| ("record the current state".to_owned(), error))
}

/// Completes a successful change: records the resulting state.
fn finish(
    store: &mut Store,
    change: &Change,
    parts: &Parts,
    unseen: &[PendingUntilBoot],
    outcome: Outcome,
) -> Outcome {
    let mut ledger = store.ledger.clone();
    let settle = |ledger: &mut Ledger| -> Result<(), StepError> {
        if let Some(owns) = &change.owns {
            ledger.settle_owning(change.kind, owns);
        }
        for action in &parts.now {
            action::operation_for(action).record_result(store, ledger)?;
        }
        // Paths that an earlier, interrupted run of this change wrote and this plan no longer contains.
        for path in ledger.unfinished_of(&change.id) {
            action::file::record_result(store, ledger, &path)?;
        }
        for (argv, _) in parts.tools() {
            ledger.remove_pending_tool(change.kind, argv);
            // The boot entries were saved only for a rollback: a rebuild of the initramfs keeps their arguments.
            if modules::is_mkinitrd(argv) {
                ledger.forget_products(change.kind);
            }
        }
        Ok(())
    };
    // The change is unfinished until the pending tools have run: the previous state must be retained.
    let noted = match outcome {
        Outcome::ToolsPending { .. } => Ok(()),
        _ => settle(&mut ledger).and_then(|()| settle_waits(store, &mut ledger, change, unseen)),
    }
    .and_then(|()| store.update_ledger(|now| *now = ledger));
    match noted {
        Ok(()) => outcome,
        Err(error) => Outcome::Failed {
            action: "record the result (the change is applied, and stays)".into(),
            why: chain(&error),
            output: None,
            restored: Restored {
                back: Vec::new(),
                left: vec![Left { subject: change.subject.to_string(), why: "applied".into() }],
            },
        },
    }
}

/// Records unobservable pending changes before the first write. If bedplate is killed right after the write, nothing on
/// the host differs any more, and only this record shows that a boot is due.
fn begin_waits(
    store: &Store,
    ledger: &mut Ledger,
    change: &Change,
    unseen: &[PendingUntilBoot],
) -> Result<(), StepError> {
    if unseen.is_empty() || store.reader.kind() != HostKind::Live {
        return Ok(());
    }
    let boot = store.boot_id()?;
    ledger.waiting.retain(|record| record.boot == boot && !is_of(record, change, unseen));
    ledger.waiting.extend(unseen.iter().map(|unseen| WaitRecord {
        kind: change.kind,
        boot: boot.clone(),
        module: unseen.module.clone(),
        subject: unseen.subject.clone(),
        began: unseen.began.clone(),
        next: unseen.next.clone(),
    }));
    Ok(())
}

/// Removes the records of values that the change restored in the same boot. Must run after the change.
fn settle_waits(
    store: &Store,
    ledger: &mut Ledger,
    change: &Change,
    unseen: &[PendingUntilBoot],
) -> Result<(), StepError> {
    if store.reader.kind() != HostKind::Live {
        return Ok(());
    }
    let known = |record: &WaitRecord| {
        record.kind == change.kind && change.items.iter().any(|item| item.subject == record.subject)
    };
    ledger.waiting.retain(|record| !known(record));
    begin_waits(store, ledger, change, unseen)
}

fn is_of(record: &WaitRecord, change: &Change, unseen: &[PendingUntilBoot]) -> bool {
    record.kind == change.kind && unseen.iter().any(|unseen| unseen.subject == record.subject)
}

/// Rolls back a failed change.
fn roll_back(
    store: &mut Store,
    earlier: &Ledger,
    change: &Change,
    parts: &Parts,
    undo: UndoList,
) -> Restored {
    let (mut restored, whole) = undo_all(store, earlier, &change.id, undo);
    // An initramfs is not saved: one that was built from the rejected options must be rebuilt.
    let is_due = |argv: &Vec<String>| {
        earlier.owes(change.kind, argv)
            || (change.kind == modules::NAME && store.started.contains(argv))
    };
    let settled: Vec<&Vec<String>> =
        parts.tools().map(|(argv, _)| argv).filter(|argv| !is_due(argv)).collect();
    // Up to here the ledger on disk may record too much, never too little.
    let noted = store.update_ledger(|ledger| {
        if !whole {
            return;
        }
        match earlier.owned.get(&change.kind) {
            Some(owned) => ledger.owned.insert(change.kind, owned.clone()),
            None => ledger.owned.remove(&change.kind),
        };
        ledger.waiting.clone_from(&earlier.waiting);
        // Records of VFs to be created are dropped with those VFs.
        ledger.starts.retain(|name, _| earlier.starts.contains_key(name));
        for argv in settled {
            ledger.remove_pending_tool(change.kind, argv);
        }
    });
    if let Err(error) = noted {
        restored.left.push(Left { subject: "the ledger".into(), why: chain(&error) });
    }
    restored
}

/// Undoes all steps in reverse order, then the files and the directories created for them. Also returns whether nothing
/// of bedplate's work is left. Settles the ledger in memory only.
fn undo_all(store: &mut Store, earlier: &Ledger, change: &str, undo: UndoList) -> (Restored, bool) {
    let mut restored = Restored::default();
    let (late, early): (UndoList, UndoList) =
        undo.into_iter().rev().partition(|step| step.needs_files());
    let mut whole = restored.undo(store, &early);
    let files = store.ledger.unfinished_of(change);
    for path in &files {
        match action::file::undo(store, path, earlier.files.get(path)) {
            Ok(UndoResult::Unchanged) => {}
            Ok(UndoResult::Back) => restored.back.push(path.clone()),
            Ok(UndoResult::Edited { written }) => {
                whole &= !written;
                restored.leave(path.clone(), if written { EDITED_AFTER } else { EDITED_BEFORE });
            }
            Err(error) => {
                whole = false;
                restored.leave(path.clone(), chain(&error));
            }
        }
    }
    whole &= restored.undo(store, &late);
    let above =
        |directory: &String| files.iter().any(|file| file.starts_with(&format!("{directory}/")));
    let made: Vec<String> =
        store.ledger.directories.iter().rev().filter(|path| above(path)).cloned().collect();
    for directory in made {
        // A directory that is not empty is in use, perhaps by other tools; it stays recorded for revert.
        if let Ok(true) = store.writer.remove_directory(&directory) {
            store.ledger.directories.remove(&directory);
        }
    }
    (restored, whole)
}

/// Reason for leaving a file that bedplate had written.
const EDITED_AFTER: &str = "changed by another program after bedplate wrote it";
/// Reason for leaving a file that bedplate had not written.
const EDITED_BEFORE: &str = "changed by another program, and not written by bedplate";

impl Restored {
    /// Runs undo steps in this order. Returns whether all succeeded.
    fn undo(&mut self, store: &mut Store, steps: &UndoList) -> bool {
        let mut whole = true;
        for step in steps {
            match step.run(store) {
                Ok(()) => self.back.push(step.subject()),
                Err(error) => {
                    whole = false;
                    self.leave(step.subject(), chain(&error));
                }
            }
        }
        whole
    }

    fn leave(&mut self, subject: String, why: impl Into<String>) {
        self.left.push(Left { subject, why: why.into() });
    }
}
