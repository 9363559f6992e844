//! Revert: restores the recorded state where the current one is still bedplate's work. [`plan`] only reads and can be
//! printed; [`run()`] executes it with the executor's steps. Settings and files changed by other tools are refused
//! individually, unless forced.

mod boot_entry;
mod initramfs;
mod kernels;
mod later_kernels;
mod orphan;
mod report;
mod run;
mod settings;
mod step;

use std::cell::OnceCell;
use std::collections::BTreeSet;

use serde::Serialize;

use crate::apply::{find_file, saved_content};
use crate::kind::{self, cmdline, limits, modules};
use crate::ledger::{FileRecord, FileState, Ledger, PendingTool};
use crate::orphans::orphans;
use crate::plan::{FileContent, Orphan};
use crate::restore_policy;
use bedplate_base::{Reading, chain};
use bedplate_facts::{Depth, observe};
use bedplate_host::{HostKind, Reader, Writer, boot_id};

use kernels::{Source, Tools};
pub use report::{RevertReport, StepOutcome};
pub use run::run;
pub use step::{Refused, Step};

/// Steps of a revert, in order, and refused subjects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct RevertPlan {
    /// Steps, in order.
    pub steps: Vec<Step>,
    /// Records that stay: restoring is impossible, or would undo later changes.
    pub refused: Vec<Refused>,
    /// Tools to run in the image after the files are restored, since they cannot run from here.
    pub pending_tools: Vec<Vec<String>>,
    /// Notes about settings that are gone already.
    pub notes: Vec<String>,
}

/// Plans `bedplate revert`. Reads only. `force` also reverts settings changed by other tools.
pub fn plan(ledger: &Ledger, reader: &dyn Reader, writer: &dyn Writer, force: bool) -> RevertPlan {
    let mut plan = RevertPlan::default();
    let boot = match reader.kind() {
        HostKind::Live => boot_id::read(reader).ok(),
        HostKind::Image | HostKind::Snapshot => None,
    };
    let cell = OnceCell::new();
    let facts = || cell.get_or_init(|| observe(reader, Depth::Plan));
    let settings =
        settings::Planner { reader, ledger, boot: boot.as_deref(), force, facts: &facts };
    settings.plan(&mut plan);
    for tool in ledger.undo.iter().rev() {
        match writer.runs_tools() {
            true => plan.steps.push(Step::Tool {
                argv: tool.argv.clone(),
                purpose: tool.purpose.clone(),
                makes: Vec::new(),
                limit_s: tool.limit_s,
            }),
            false => plan.pending_tools.push(tool.argv.clone()),
        }
    }
    let orphans = orphans(reader, ledger, &facts);
    let kept = initramfs::refuse(&mut plan, (reader, writer), (ledger, force), &facts);
    let source = Source::find(reader, ledger, facts);
    let mut tools =
        plan_files(&mut plan, (reader, writer), (ledger, source, orphans, &kept), force);
    let later = later_kernels::plan(&mut plan, (reader, ledger), (source, &tools), &facts);
    tools.extend(later);
    if writer.runs_tools() {
        plan.steps.extend(tools.into_iter().map(|(tool, makes)| Step::Tool {
            makes: initramfs::made_by(&tool.argv, makes, reader),
            argv: tool.argv,
            purpose: tool.purpose,
            limit_s: tool.limit_s,
        }));
    } else {
        plan.pending_tools.extend(tools.into_keys().map(|tool| tool.argv));
    }
    plan_owed(&mut plan, ledger, (reader, writer), &kept);
    let deepest_first = ledger.directories.iter().rev();
    plan.steps.extend(deepest_first.map(|path| Step::Directory { path: path.clone() }));
    plan
}

/// Plans pending tools, except those in `kept`: their output is older than the configuration, independent of the
/// revert. On a running host these are rebuilds of the initramfs, which a failed change has left.
fn plan_owed(
    plan: &mut RevertPlan,
    ledger: &Ledger,
    (reader, writer): (&dyn Reader, &dyn Writer),
    kept: &BTreeSet<String>,
) {
    let is_image = reader.kind() == HostKind::Image;
    let is_rebuild =
        |tool: &PendingTool| tool.kind == modules::NAME && !modules::is_of_image(&tool.argv);
    let is_due = |tool: &&PendingTool| {
        (is_image || is_rebuild(tool)) && !kept.contains(&tool.argv.join(" "))
    };
    for tool in ledger.owed.iter().filter(is_due) {
        let PendingTool { argv, purpose, .. } = tool.clone();
        let is_planned = plan
            .steps
            .iter()
            .any(|step| matches!(step, Step::Tool { argv: one, .. } if *one == argv));
        match writer.runs_tools() {
            true if is_planned => {}
            true => {
                let makes = initramfs::made_by(&argv, BTreeSet::new(), reader);
                plan.steps.push(Step::Tool { argv, purpose, makes, limit_s: kind::OWED_LIMIT_S });
            }
            false => plan.pending_tools.push(argv),
        }
    }
    let mut seen = BTreeSet::new();
    plan.pending_tools.retain(|argv| seen.insert(argv.clone()));
}

/// Plans the files, except those in `kept`. Returns the tools to run after their restoration, each with its output
/// files. Generated files are never restored from the ledger: the kernels that they name may be removed, and the
/// machine boots from them.
fn plan_files(
    plan: &mut RevertPlan,
    (reader, writer): (&dyn Reader, &dyn Writer),
    (ledger, source, orphans, kept): (&Ledger, Source, Vec<Orphan>, &BTreeSet<String>),
    force: bool,
) -> Tools {
    let mut tools = Tools::new();
    for (path, record) in ledger.files.iter().filter(|(path, _)| !kept.contains(*path)) {
        if !force && source.is_needed(path) {
            plan.refuse(path, ONLY_LINE, MAKE_IMAGES);
            continue;
        }
        match record.generator.as_ref().filter(|tool| source.makes(tool)) {
            Some(tool) if writer.runs_tools() => {
                tools.entry(tool.clone()).or_default().insert(path.clone());
            }
            Some(_) => plan.notes.push(format!("{path} {STAYS}")),
            None => plan_file(plan, (reader, writer), path, record, force),
        }
        for tool in record.readers.iter().filter(|tool| source.makes(tool)) {
            tools.entry(tool.clone()).or_default();
        }
    }
    let mut files = ledger.files.keys().filter(|path| !kept.contains(*path));
    if files.any(|path| limits::is_unit_file(path)) {
        // The files of a host that was an image do not name the reload; an image itself does not need it.
        tools.retain(|tool, _| !limits::is_reload(&tool.argv));
        match limits::reload_hindrance(reader) {
            None => _ = tools.entry(limits::reload_tool()).or_default(),
            Some(_) if reader.kind() == HostKind::Image => {}
            Some(why) => {
                plan.notes.push(format!("systemd reads the restored files at the next boot: {why}"))
            }
        }
    }
    for orphan in orphans {
        orphan::plan(plan, reader, &orphan, force);
        if force && let Ok(Some(tool)) = orphan.reader {
            tools.entry(tool).or_default();
        }
    }
    let tools = kernels::assign(plan, reader, tools);
    let is_new = |path: &String| ledger.files[path].original == FileState::Absent;
    for makes in tools.values().filter(|makes| makes.iter().all(is_new)) {
        plan.notes.extend(makes.iter().map(|path| format!("{path} {MENU_STAYS}")));
    }
    tools
}

impl RevertPlan {
    fn refuse(
        &mut self,
        subject: impl Into<String>,
        reason: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.refused.push(Refused {
            subject: subject.into(),
            reason: reason.into(),
            fix: fix.into(),
        });
    }
}

const FORCE: &str = "inspect it, then run bedplate revert --force to revert it anyway";
const GUESTS: &str = "stop the VM, unbind the function from its driver, and run bedplate revert again; --force restores \
                      the bits under the running VM";
const MENU_STAYS: &str = "was absent before, and is regenerated: the machine boots from it";
const ONLY_LINE: &str = "images or boot entries outside the ledger were generated from it, and no other file has their \
                         complete kernel arguments";
const MAKE_IMAGES: &str = "remove bedplate's arguments from it, run `kernel-install add RELEASE IMAGE` for each kernel, \
                           then bedplate revert --force";
const STAYS: &str =
    "is left unchanged: the machine boots from it, and only its tool can regenerate it";
const KERNEL_GONE: &str = "was removed with its kernel, and is not restored";
const GONE: &str = "was set in an earlier boot, and the reboot reset it";

fn plan_file(
    plan: &mut RevertPlan,
    (reader, writer): (&dyn Reader, &dyn Writer),
    path: &str,
    record: &FileRecord,
    force: bool,
) {
    let found = match find_file(reader, writer, path) {
        Ok(found) => found,
        Err(error) => {
            return plan.refuse(path, chain(&error), "fix this, then run bedplate revert again");
        }
    };
    if found.state == record.original {
        return;
    }
    if found.state == FileState::Absent && cmdline::is_entry_file(path) {
        match boot_entry::kernel(reader, path, record) {
            Reading::Known(_) => {}
            Reading::Absent => return plan.notes.push(format!("{path} {KERNEL_GONE}")),
            Reading::Unknown(why) => {
                let reason = format!("removed since; cannot tell whether its kernel exists: {why}");
                return plan.refuse(path, reason, "fix this, then run bedplate revert again");
            }
        }
    }
    let ours = record.knows(found.state.sha())
        || record.unfinished.as_ref().is_some_and(|cut| cut.before.sha() == found.state.sha());
    if !force && !ours {
        return plan.refuse(path, "changed by another tool since", FORCE);
    }
    if !force && record.edited {
        let reason =
            "edited between two changes by bedplate: restoring the original would lose that edit";
        return plan.refuse(path, reason, FORCE);
    }
    let after = match record.original.sha().map(|sha| saved_content(reader, sha)).transpose() {
        Ok(bytes) => bytes,
        Err(error) => return plan.refuse(path, chain(&error), error.fix()),
    };
    let now = found.bytes.as_deref();
    let refused = after.as_deref().and_then(|to| restore_policy::refusal_on(reader, path, to, now));
    if let Some((what, sha)) = refused.zip(record.original.sha()) {
        let fix = format!("to restore it anyway, copy it from {}", sha.blob());
        return plan.refuse(path, what, fix);
    }
    let content = |bytes: Option<Vec<u8>>| bytes.map(FileContent::new);
    plan.steps.push(Step::File {
        path: path.into(),
        before: content(found.bytes),
        after: content(after),
        to: record.original.clone(),
    });
}
