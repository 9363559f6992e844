//! Executes a revert plan with the executor's steps. Records stay in the ledger until the whole revert is done: an
//! interrupted revert is simply run again.

use std::collections::{BTreeMap, BTreeSet};

use super::boot_entry::{Guard, concerns_boot};
use super::report::{FileStates, RevertReport, StepOutcome, StepReport};
use super::{RevertPlan, Step};
use crate::apply::action::{file, setting, tool, vf_attributes};
use crate::apply::{StepError, Store};
use crate::kind::{cmdline, kind_of_command, modules};
use crate::ledger::{
    self, Author, Entry, EntryResult, Generator, Ledger, PendingTool, REVERT, Sha, Unfinished,
};
use crate::modules_conf::MODPROBE_PATH;
use crate::plan::KindId;
use bedplate_base::chain;
use bedplate_cmdline::boot::grub_default::MAIN;
use bedplate_host::{HostKind, Reader, Writer};

/// Executes `plan`. `ledger` is the one it was made from, under the same lock; `now` is written into the history.
pub fn run(
    plan: &RevertPlan,
    ledger: &mut Ledger,
    reader: &dyn Reader,
    writer: &mut dyn Writer,
    watch: &mut dyn FnMut(&Step),
    now: jiff::Timestamp,
) -> RevertReport {
    let mut store = Store::new(reader, writer, ledger);
    let mut warnings = store.remove_stale_temporary_files(std::iter::empty());
    warnings.extend(store.finish_renewal());
    let mut report =
        RevertReport { steps: Vec::new(), pending_tools: plan.pending_tools.clone(), warnings };
    let guard = Guard::new(reader, store.ledger, plan);
    let waits = guard.as_ref().and_then(|_| tool::wait_for_packages(&store).err());
    let waits = waits.map(|error| chain(&error));
    let begun = begin(&mut store, plan).map_err(|error| chain(&error));
    let is_file = |step: &Step| !matches!(step, Step::Directory { .. });
    // Directories must be last: files that are rolled back may need them.
    let (steps, directories): (Vec<&Step>, Vec<&Step>) =
        plan.steps.iter().partition(|step| is_file(step));
    for step in steps {
        watch(step);
        let held = waits.as_ref().filter(|_| concerns_boot(step, store.ledger));
        report.steps.push(match held {
            Some(why) => StepReport { subject: step.subject(), outcome: StepOutcome::failed(why) },
            None => attempt(&mut store, step, &begun),
        });
    }
    let faults = guard.and_then(|guard| {
        let found = begun.as_ref().ok()?;
        guard.settle(&mut store, plan, found, &mut report.steps)
    });
    // The renewal after the restoration of /etc/default/grub may have failed.
    report.warnings.extend(store.finish_renewal());
    for step in directories {
        watch(step);
        report.steps.push(attempt(&mut store, step, &begun));
    }
    report.steps.extend(faults);
    let stays = kept_subjects(plan, &report, store.ledger);
    let is_image = store.reader.kind() == HostKind::Image;
    let ran = is_image.then(|| tools_run(plan, &report));
    let entry = history(plan, &report, now);
    let noted = store.update_ledger(|ledger| {
        forget(ledger, &stays, ran.as_ref());
        if !entry.results.is_empty() {
            ledger.remember(entry);
        }
    });
    if let Err(error) = noted {
        report.warnings.push(format!(
            "cannot update the ledger, run bedplate revert again: {}",
            chain(&error)
        ));
        return report;
    }
    report.warnings.extend(store.remove_surplus_contents());
    if store.ledger.files.is_empty()
        && let Err(error) = store.writer.remove_directory(ledger::BLOBS)
    {
        report.warnings.push(error.to_string());
    }
    report
}

/// Records the files to be replaced, with their current states, which are returned. A power failure may leave a file
/// empty (on FAT); the next run then restores it.
fn begin(store: &mut Store, plan: &RevertPlan) -> Result<FileStates, StepError> {
    let mut found = FileStates::new();
    for step in &plan.steps {
        if let Step::File { path, .. } = step {
            // A file that cannot be read or saved fails on its own, and must not prevent other restorations.
            let Ok(file) = store.file(path) else { continue };
            if store.save_content(&file).is_ok() {
                found.insert(path.clone(), file.state);
            }
        }
    }
    let renewed = match found.contains_key(MAIN) {
        true => store.state_to_renew(MAIN)?,
        false => None,
    };
    let owed = pending_tools(store, plan);
    let outputs = outputs(store, &found);
    store.update_ledger(|ledger| {
        owed.into_iter().for_each(|tool| ledger.owe(tool));
        for (kind, contents) in &outputs {
            ledger.owe_anew(*kind, contents);
        }
        for (path, before) in &found {
            if let Some(record) = ledger.files.get_mut(path) {
                record.unfinished.get_or_insert_with(|| Unfinished::new(REVERT, before.clone()));
            }
        }
        if let Some(now) = &renewed {
            let author = Author { kind: cmdline::NAME, change: REVERT };
            ledger.begin_renewal(cmdline::KERNEL_CMDLINE, author, now, &[]);
        }
    })?;
    Ok(found)
}

/// Returns the tools of an image that the plan runs or leaves to its build. A tool that undoes another has its own
/// record.
fn pending_tools(store: &Store, plan: &RevertPlan) -> Vec<PendingTool> {
    if store.reader.kind() != HostKind::Image {
        return Vec::new();
    }
    let run = plan.steps.iter().filter_map(|step| match step {
        Step::Tool { argv, .. } => Some(argv),
        _ => None,
    });
    let undoes = |argv: &[String]| store.ledger.undo.iter().any(|tool| tool.argv == argv);
    let owed = run.filter(|argv| !undoes(argv)).chain(&plan.pending_tools).filter_map(|argv| {
        let kind = kind_of_command(argv)?;
        let outputs = match kind {
            cmdline::NAME => cmdline::entry_contents(store.reader),
            _ => BTreeMap::new(),
        };
        let purpose = "regenerate from the restored files";
        Some(PendingTool { outputs, ..PendingTool::new(kind, argv, purpose) })
    });
    owed.collect()
}

/// Returns the contents of an image's files that tools generate from those in `found`, by resource type.
fn outputs(store: &Store, found: &FileStates) -> Vec<(KindId, BTreeMap<String, Sha>)> {
    if store.reader.kind() != HostKind::Image {
        return Vec::new();
    }
    let kind_of = |path: &String| store.ledger.files.get(path).map(|record| record.kind);
    let mut outputs = Vec::new();
    if found.keys().any(|path| kind_of(path) == Some(cmdline::NAME)) {
        outputs.push((cmdline::NAME, cmdline::entry_contents(store.reader)));
    }
    if found.contains_key(MODPROBE_PATH) {
        outputs.push((modules::NAME, modules::initramfs_digests(store.reader)));
    }
    outputs
}

/// Executes one step; `begun` holds the result of [`begin`].
fn attempt(store: &mut Store, step: &Step, begun: &Result<FileStates, String>) -> StepReport {
    let outcome = match (step, begun) {
        // Without a record, an interrupted replacement would look like an unchanged file.
        (Step::File { .. }, Err(why)) => {
            StepOutcome::failed(format!("cannot write the ledger: {why}"))
        }
        _ => match run_step(store, step) {
            Ok(None) => StepOutcome::Done,
            Ok(Some(why)) => StepOutcome::Left { why },
            Err(error) => StepOutcome::Failed {
                why: chain(&error),
                output: error.output().map(str::to_owned),
            },
        },
    };
    StepReport { subject: step.subject(), outcome }
}

/// Executes a step. Returns the reason if the subject is left unchanged.
fn run_step(store: &mut Store, step: &Step) -> Result<Option<String>, StepError> {
    match step {
        Step::Attribute(action) => {
            if store.reader.exists(&action.path) == Ok(false) {
                return Ok(Some("removed by an earlier step".to_owned()));
            }
            setting::run(store, action)?;
        }
        Step::Register(action) => setting::run(store, action)?,
        Step::Vf(action) => vf_attributes::put_back(store, action)?,
        Step::Eswitch(action) => setting::run(store, action)?,
        Step::File { path, before, to, .. } => file::put_back(store, path, before.as_ref(), to)?,
        Step::Tool { argv, purpose, makes, limit_s } => {
            let tool =
                Generator { argv: argv.clone(), purpose: purpose.clone(), limit_s: *limit_s };
            let Some(kind) = kind_of_step(store.ledger, argv) else {
                return Ok(Some("no resource type runs this tool".to_owned()));
            };
            tool::repeat(store, kind, &tool, makes)?;
        }
        Step::Directory { path } => {
            return match store.writer.remove_directory(path)? {
                true => Ok(None),
                false => Ok(Some("not empty".to_owned())),
            };
        }
    }
    Ok(None)
}

/// Returns the resource type of a tool: that of the change it undoes, else of its command. Its output files do not show
/// the type: tools of several types make the entries of sdbootutil.
fn kind_of_step(ledger: &Ledger, argv: &[String]) -> Option<KindId> {
    let undone = ledger.undo.iter().find(|tool| tool.argv == argv).map(|tool| tool.kind);
    undone.or_else(|| kind_of_command(argv))
}

/// Returns the subjects whose records stay: refused ones, failed ones, and the inputs of failed tools.
fn kept_subjects(plan: &RevertPlan, report: &RevertReport, ledger: &Ledger) -> BTreeSet<String> {
    let mut stays: BTreeSet<String> =
        plan.refused.iter().map(|refused| refused.subject.clone()).collect();
    for (step, done) in plan.steps.iter().zip(&report.steps) {
        if !matches!(done.outcome, StepOutcome::Failed { .. }) {
            continue;
        }
        stays.insert(step.subject());
        if let Step::Tool { argv, makes, .. } = step {
            stays.extend(makes.iter().cloned());
            // Kernels that were installed after the change are not among the readers.
            let is_kernel_install = cmdline::installed_release(argv).is_some();
            let reads = |path: &str, record: &ledger::FileRecord| {
                record.readers.iter().any(|tool| tool.argv == *argv)
                    || is_kernel_install && path == cmdline::KERNEL_CMDLINE
            };
            let inputs = ledger.files.iter().filter(|(path, record)| reads(path, record));
            stays.extend(inputs.map(|(path, _)| path.clone()));
        }
    }
    stays
}

/// Returns the tools that have run.
fn tools_run(plan: &RevertPlan, report: &RevertReport) -> BTreeSet<Vec<String>> {
    let done = plan.steps.iter().zip(&report.steps);
    let ran = done.filter_map(|(step, done)| match step {
        Step::Tool { argv, .. } if done.outcome == StepOutcome::Done => Some(argv.clone()),
        _ => None,
    });
    ran.collect()
}

/// Drops all records but those in `stays`. A resource type's arguments and pending tools are dropped with its last
/// record; an image's tool is pending until it has run (`ran`; `None`: not an image).
fn forget(ledger: &mut Ledger, stays: &BTreeSet<String>, ran: Option<&BTreeSet<Vec<String>>>) {
    ledger.files.retain(|path, _| stays.contains(path));
    for record in ledger.files.values_mut() {
        record.unfinished.take_if(|unfinished| unfinished.change == REVERT);
    }
    ledger.attributes.retain(|name, _| stays.contains(name));
    ledger.registers.retain(|name, _| stays.contains(name));
    ledger.eswitches.retain(|name, _| stays.contains(name));
    ledger.vfs.retain(|name, _| stays.contains(name));
    // A refused VF stays as it is, with or without its driver.
    ledger.starts.retain(|name, _| stays.contains(name));
    ledger.undo.retain(|tool| stays.contains(&tool.argv.join(" ")));
    let kinds: BTreeSet<KindId> = ledger.files.values().map(|record| record.kind).collect();
    ledger.owned.retain(|kind, _| kinds.contains(kind));
    ledger.owed.retain(|owed| match ran {
        Some(ran) => !ran.contains(&owed.argv),
        None => stays.contains(&owed.argv.join(" ")) || kinds.contains(&owed.kind),
    });
    ledger.waiting.retain(|record| kinds.contains(&record.kind));
    // A directory that is not empty is now unmanaged; one above a remaining file is still bedplate's.
    let above =
        |path: &String| ledger.files.keys().any(|file| file.starts_with(&format!("{path}/")));
    let kept: BTreeSet<String> =
        ledger.directories.iter().filter(|path| above(path)).cloned().collect();
    ledger.directories = kept;
}

fn history(plan: &RevertPlan, report: &RevertReport, now: jiff::Timestamp) -> Entry {
    let steps = report.steps.iter().map(|step| {
        let (result, why) = match &step.outcome {
            StepOutcome::Done => ("reverted", None),
            StepOutcome::Left { why } => ("left", Some(why.clone())),
            StepOutcome::Failed { why, .. } => ("failed", Some(why.clone())),
        };
        EntryResult { subject: step.subject.clone(), result: result.into(), why }
    });
    let refused = plan.refused.iter().map(|refused| EntryResult {
        subject: refused.subject.clone(),
        result: "refused".into(),
        why: Some(refused.reason.clone()),
    });
    Entry {
        at: format!("{now:.0}"),
        command: "revert".into(),
        profile: None,
        results: steps.chain(refused).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::FileState;

    #[test]
    fn tool_has_the_type_of_its_command() {
        const ENTRY: &str = "/boot/efi/loader/entries/a-6.1.conf";
        let mut ledger = Ledger::default();
        let author = Author { kind: cmdline::NAME, change: "cmdline/x" };
        ledger.begin_file(ENTRY, author, &FileState::Absent, None, &[]);
        for (command, kind) in [("mkinitrd", modules::NAME), ("update-all-entries", cmdline::NAME)]
        {
            let argv = ["sdbootutil", command].map(str::to_owned);
            assert_eq!(kind_of_step(&ledger, &argv), Some(kind), "{command}");
        }
    }
}
