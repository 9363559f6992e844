//! Lock → plan again → apply → observe again, and revert: the only module that changes a host.

use std::path::Path;
use std::sync::Arc;

use super::prepare::{mark_tools_run, trusted};
use super::{EngineError, ImageRequest, PreparedPlan, Request, prepare};
use crate::apply::{self, ApplyReport, Event, Executor};
use crate::kind::cmdline;
use crate::ledger::{self, Ledger};
use crate::plan::{Check, NextBoot};
use crate::readback;
use crate::revert::{self, RevertPlan, RevertReport, Step};
use crate::seal::{self, Machine, SealPlan, SealReport};
use bedplate_base::chain;
use bedplate_cmdline::Token;
use bedplate_facts::{Depth, Facts, observe};
use bedplate_host::write::DirWriter;
use bedplate_host::{DirReader, HostKind, ImageRoot, Reader, Writer};

/// Host to change.
#[derive(Debug, Clone)]
pub enum Target {
    /// The running machine.
    Live,
    /// Root directory whose system is not running.
    Image {
        /// The directory, opened once: its path may later name another directory.
        root: Arc<ImageRoot>,
        /// Whether the image's own tools are run inside it.
        chroot_tools: bool,
    },
}

impl Target {
    /// Opens the image at `root`, which must belong to the caller or to root.
    ///
    /// # Errors
    /// [`EngineError::Image`].
    pub fn image(root: &Path, chroot_tools: bool) -> Result<Self, EngineError> {
        let root = ImageRoot::open_to_change(root).map_err(EngineError::Image)?;
        Ok(Target::Image { root, chroot_tools })
    }

    /// Whether the target is this machine, also as an image root at `/`.
    pub fn is_running_machine(&self) -> bool {
        match self {
            Target::Live => true,
            Target::Image { root, .. } => root.is_running_machine(),
        }
    }

    /// Whether the target is an image root in which another system runs: a container, for example.
    pub fn has_running_system(&self) -> bool {
        match self {
            Target::Live => false,
            Target::Image { root, .. } => root.has_running_system(),
        }
    }

    /// Returns a reader with an empty cache: a reader that was in use may know directories that are gone.
    pub fn reader(&self) -> DirReader {
        match self {
            Target::Live => DirReader::live(),
            Target::Image { root, .. } => DirReader::within(Arc::clone(root)),
        }
    }

    fn writer(&self) -> DirWriter {
        match self {
            Target::Live => DirWriter::live(),
            Target::Image { root, chroot_tools } => {
                DirWriter::within(Arc::clone(root), *chroot_tools)
            }
        }
    }
}

/// Checks that the host can be changed at all, so that it fails before an operator is prompted.
///
/// # Errors
/// [`EngineError::Unwritable`].
pub fn may_change(target: &Target) -> Result<(), EngineError> {
    let writer = target.writer();
    writer.may_write(ledger::DIRECTORY).map_err(EngineError::Unwritable)?;
    writer.check_trust(ledger::DIRECTORY).map_err(EngineError::Unwritable)
}

/// Result of applying a plan.
#[derive(Debug)]
pub struct ApplyOutcome {
    /// Plan that was made under the lock and carried out.
    pub before: PreparedPlan,
    /// Result of each change.
    pub report: ApplyReport,
    /// Plan made after the changes. If the host cannot be read afterwards, the changes remain.
    pub after: Result<PreparedPlan, EngineError>,
    /// Arguments that were removed from the command line and stay in effect until the next boot: no later plan can
    /// report them.
    pub still_in_effect: Vec<String>,
}

/// Takes the host's lock, plans again, applies the part of the plan that `select` leaves, and observes the host again.
///
/// # Errors
/// [`EngineError`], or the error of `select`; then nothing was changed.
pub fn apply(
    target: &Target,
    request: &Request<'_>,
    select: &mut dyn FnMut(&mut PreparedPlan) -> Result<(), EngineError>,
    watch: &mut dyn FnMut(Event<'_>),
    now: jiff::Timestamp,
) -> Result<ApplyOutcome, EngineError> {
    let mut writer = target.writer();
    let _lock = writer.lock().map_err(EngineError::Lock)?;
    restore_cut_short(&trusted(&target.reader())?, &mut writer)?;
    // Another bedplate process or an operator may have made the planned changes before the lock was taken.
    let reader = target.reader();
    let mut before = prepare(&reader, request)?;
    before.may_be_applied()?;
    select(&mut before)?;
    let facts = &before.facts;
    let check = |check: &Check, reader: &dyn Reader| readback::check(reader, facts, check);
    let executor = Executor { reader: &reader, writer: &mut writer, checker: &check, watch };
    let owned = cmdline::owned(&before.ledger);
    let report = apply::apply(&before.plan, &mut before.ledger, executor, now);
    let mut still_in_effect = Vec::new();
    let reader = target.reader();
    // The ledger now holds the claims.
    let again = Request { image: ImageRequest { ran: &[], ..request.image }, ..*request };
    let after = prepare(&reader, &again).map(|mut after| {
        still_in_effect = in_effect_until_boot(&reader, &after.facts, &owned);
        let is_unsound = matches!(after.plan.next_boot, NextBoot::Unsound { .. });
        if !still_in_effect.is_empty() && !is_unsound {
            after.plan.reboot = after.plan.reboot.max(before.plan.reboot);
        }
        after
    });
    Ok(ApplyOutcome { before, report, after, still_in_effect })
}

/// Result of a revert.
#[derive(Debug)]
pub struct RevertOutcome {
    /// Plan that was made under the lock and carried out.
    pub plan: RevertPlan,
    /// Result of each step.
    pub report: RevertReport,
    /// Arguments that were removed from the command line and stay in effect until the next boot.
    pub still_in_effect: Vec<String>,
}

impl RevertOutcome {
    /// Plans a revert of the host's present state.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn plan(target: &Target, force: bool) -> Result<RevertPlan, EngineError> {
        let (reader, writer) = (target.reader(), target.writer());
        Ok(revert::plan(&trusted(&reader)?, &reader, &writer, force))
    }

    /// Whether `bedplate revert` has something to do although `plan` has no step: a change was cut short, or the ledger
    /// lacks a pending tool that the image build has to run.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn has_records(target: &Target, plan: &RevertPlan) -> Result<bool, EngineError> {
        let ledger = trusted(&target.reader())?;
        let is_owed = |argv: &Vec<String>| ledger.owed.iter().any(|tool| tool.argv == *argv);
        Ok(ledger.was_cut_short() || !plan.pending_tools.iter().all(is_owed))
    }
}

/// Takes the host's lock and restores the originals recorded in the ledger. Calls `locked` once the lock is held.
///
/// # Errors
/// [`EngineError`]; then nothing was changed.
pub fn revert(
    target: &Target,
    force: bool,
    locked: &mut dyn FnMut(),
    watch: &mut dyn FnMut(&Step),
    now: jiff::Timestamp,
) -> Result<RevertOutcome, EngineError> {
    let mut writer = target.writer();
    let _lock = writer.lock().map_err(EngineError::Lock)?;
    locked();
    let reader = target.reader();
    let mut ledger = trusted(&reader)?;
    restore_cut_short(&ledger, &mut writer)?;
    let owned = cmdline::owned(&ledger);
    let plan = revert::plan(&ledger, &reader, &writer, force);
    let report = revert::run(&plan, &mut ledger, &reader, &mut writer, watch, now);
    let reader = target.reader();
    let still_in_effect = in_effect_until_boot(&reader, &observe(&reader, Depth::Plan), &owned);
    Ok(RevertOutcome { plan, report, still_in_effect })
}

/// Records that pending tools of an image have run, and returns a line for each. `named` has the form of
/// [`ImageRequest::ran`].
///
/// # Errors
/// [`EngineError`]; then nothing was recorded.
pub fn note_ran(target: &Target, named: &[String]) -> Result<Vec<String>, EngineError> {
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let mut writer = target.writer();
    let _lock = writer.lock().map_err(EngineError::Lock)?;
    let reader = target.reader();
    let mut ledger = trusted(&reader)?;
    let (paid, notes) = mark_tools_run(&ledger, named)?;
    let mut lines: Vec<String> =
        notes.iter().map(|note| format!("{}: {}", note.subject, note.text)).collect();
    apply::note_paid(&paid, &mut ledger, &reader, &mut writer)
        .map_err(|error| EngineError::NotNoted(chain(&error)))?;
    lines.extend(paid.iter().map(|tool| format!("{}: recorded as run", tool.argv.join(" "))));
    Ok(lines)
}

/// Plans a seal of the host.
///
/// # Errors
/// [`EngineError`].
pub fn plan_seal(target: &Target, machine: &mut dyn Machine) -> Result<SealPlan, EngineError> {
    let reader = target.reader();
    Ok(seal::plan(&trusted(&reader)?, &reader, machine.in_use().as_ref()))
}

/// Takes the host's lock, plans again, and seals the host.
///
/// # Errors
/// [`EngineError`]; then nothing was removed.
pub fn seal(target: &Target, machine: &mut dyn Machine) -> Result<SealReport, EngineError> {
    let mut writer = target.writer();
    let _lock = writer.lock().map_err(EngineError::Lock)?;
    let reader = target.reader();
    let mut ledger = trusted(&reader)?;
    let plan = seal::plan(&ledger, &reader, machine.in_use().as_ref());
    Ok(seal::run(plan, &mut ledger, (&reader, &mut writer), machine))
}

/// Restores files lost to a power cut during their replacement: a plan must be based on the original contents.
fn restore_cut_short(ledger: &Ledger, writer: &mut dyn Writer) -> Result<(), EngineError> {
    let mut files = ledger.unfinished();
    files
        .try_for_each(|path| writer.restore_cut_short(path).map(drop))
        .map_err(EngineError::Unwritable)
}

/// Returns bedplate's own kernel arguments that were removed from the command line and are still in effect.
fn in_effect_until_boot(reader: &dyn Reader, facts: &Facts, owned: &[Token]) -> Vec<String> {
    match reader.kind() {
        HostKind::Live => cmdline::gone_at_next_boot(reader, facts, owned),
        HostKind::Image | HostKind::Snapshot => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For `/b.conf`, no record shows that bedplate emptied it.
    #[test]
    fn file_is_restored_only_if_its_change_was_cut_short() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let record = |unfinished: &str| {
            format!(r#"{{"kind":"cmdline","original":{{"state":"absent"}},"ours":[]{unfinished}}}"#)
        };
        let begun = r#","unfinished":{"change":"cmdline/x","before":{"state":"absent"}}"#;
        let ledger = format!(
            r#"{{"version":2,"owed":[],"owned":{{}},"files":{{"/a.conf":{},"/b.conf":{}}}}}"#,
            record(begun),
            record("")
        );
        for name in ["a", "b"] {
            std::fs::write(at(&format!("{name}.conf")), "").unwrap();
            std::fs::write(at(&format!(".{name}.conf.bedplate-old")), "old\n").unwrap();
        }
        let ledger = Ledger::parse(ledger.as_bytes(), "ledger.json").unwrap();
        let mut writer = DirWriter::image(root.path(), false).unwrap().on_fat();
        restore_cut_short(&ledger, &mut writer).unwrap();
        let text = |name: &str| std::fs::read_to_string(at(name)).unwrap();
        assert_eq!((text("a.conf").as_str(), text("b.conf").as_str()), ("old\n", ""));
    }
}
