//! The operator's command that cycles the power. logind only announces its time (`dry-reboot`), so bedplate alone must honour
//! a hold, an inhibitor or `shutdown -c`. The command runs only right after its time, if logind was seen with the
//! announcement right before it, and without any veto. Otherwise it is cancelled.

use jiff::SignedDuration;

use super::{CommandResult, Effect, MissingInput, Step, because};
use crate::journal;
use crate::reboot::decide::entry_veto;
use crate::reboot::facts::{FastFacts, SlowFacts};
use crate::reboot::state::{Veto, WaitsFor, joined};
use bedplate_base::format_utc;
use bedplate_core::reboot_record::phase::{ArrangedReboot, Ending, GOING_DOWN_US, Phase};

/// The announcement must be seen at logind within this time before it is due; an unseen one may have been cancelled.
pub(crate) const SEEN_BEFORE: SignedDuration = SignedDuration::from_secs(5);
/// Latest start after its time; later the command would be unexpected.
pub(crate) const LATEST: SignedDuration = SignedDuration::from_secs(120);

const UNSEEN: &str = "bedplate could not verify that the reboot was not cancelled";
/// Reason for postponing the command.
const OTHER_BUILD: &str = "bedplate was replaced by another build when the reboot was due";

/// Returns the scheduled reboot whose command is due: logind has ended the announcement.
pub(super) fn due(phase: &Phase, seen: &FastFacts) -> Option<ArrangedReboot> {
    let Phase::Scheduled { arranged } = phase else { return None };
    let late = arranged.late(seen.now);
    if !arranged.runs_command() || late < 0 {
        return None;
    }
    // Regardless of logind's answer: without a bus there may never be one.
    let too_late = i128::from(late) * 1000 > LATEST.as_nanos();
    (too_late || seen.lacks(arranged)).then(|| arranged.clone())
}

/// Runs the command, or cancels it.
pub(super) fn due_now(
    mut step: Step,
    arranged: ArrangedReboot,
    seen: &FastFacts,
    wanted: Result<&SlowFacts<'_>, &str>,
) -> Step {
    if i128::from(arranged.late(seen.now)) * 1000 > LATEST.as_nanos() {
        return cancel(step, arranged, UNSEEN);
    }
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(why) => return cancel(step, arranged, why),
    };
    if wanted.replaced {
        // Nothing could be observed; that is not a veto.
        return postpone(step, arranged);
    }
    if !wanted.fresh {
        return step.needing(MissingInput::FreshEntry);
    }
    let why = obstacles(&step, &arranged, seen, wanted);
    if wanted.settings.command.is_empty() || !why.is_empty() {
        return cancel(step, arranged, &joined(&why));
    }
    // The run is recorded first: the power may be cut before the command ends.
    let asked = step.record.asked.take();
    step.record.phase = Phase::CommandRun { arranged, asked };
    let text = "running the profile's command that power-cycles this host";
    step.note(journal::REBOOT_SCHEDULED, text);
    step.then(Effect::RunCommand)
}

fn obstacles(
    step: &Step,
    arranged: &ArrangedReboot,
    seen: &FastFacts,
    wanted: &SlowFacts<'_>,
) -> Vec<Veto> {
    let asked = step.record.request(&seen.boot_id);
    let mut why = seen.vetoes.clone();
    why.extend(wanted.vetoes.iter().cloned());
    why.extend(wanted.pause.clone());
    let inhibitor = |who: &String| Veto::new(WaitsFor::Inhibitor, who);
    why.extend(wanted.inhibitors.iter().map(inhibitor));
    if !asked.is_some_and(|asked| asked.force) {
        why.extend(entry_veto(&wanted.entry));
    }
    let in_time = |seen: jiff::Timestamp| arranged.at().duration_since(seen) <= SEEN_BEFORE;
    if !seen.last_ours.is_some_and(in_time) {
        why.push(Veto::new(WaitsFor::Logind, UNSEEN));
    }
    if let Ok(Some((kind, _))) = &seen.schedule {
        let text = format!("another shutdown is scheduled: {kind}");
        why.push(Veto::new(WaitsFor::OtherShutdown, text));
    }
    why
}

/// Returns the journal text for a command that was not run.
pub(super) fn not_run(why: &str) -> String {
    format!("the power-cycle command was not run: {why}")
}

/// Cancels the command; bedplate does not schedule it again on its own in this boot.
fn cancel(mut step: Step, arranged: ArrangedReboot, why: &str) -> Step {
    step.note(journal::REBOOT_CANCELLED, not_run(why));
    step.end(arranged, Ending::Cancelled { by: format!("when due: {why}") })
}

/// Postpones the command: the units are of another build by now, and ran nothing. The next daemon starts at once, but too
/// late for this announcement; it makes another one with the full delay.
fn postpone(mut step: Step, arranged: ArrangedReboot) -> Step {
    let text = "bedplate was replaced by another build when the reboot was due, and the power-cycle command was not \
        run; the reboot is scheduled again";
    step.note(journal::REBOOT_CANCELLED_BY_AGENT, text);
    step.end(arranged, because(OTHER_BUILD))
}

pub(super) fn ended(mut step: Step, ran: CommandResult) -> Step {
    let Phase::CommandRun { arranged, asked } = step.record.phase.clone() else { return step };
    match ran {
        CommandResult::Done(grace) => {
            let text = format!("the power should be cycled within {grace} s");
            step.note(journal::REBOOT_WAITS, text);
            step
        }
        CommandResult::Failed(_) => step,
        CommandResult::Replaced => {
            step.record.asked = asked;
            postpone(step, arranged)
        }
        CommandResult::NotStarted(why) => cancel(step, arranged, &why),
    }
}

/// Returns the veto after the command was run: the power may be cycled at any moment.
pub(super) fn veto(phase: &Phase, seen: &FastFacts) -> Option<Veto> {
    let Phase::CommandRun { arranged, .. } = phase else { return None };
    if arranged.late(seen.now) >= GOING_DOWN_US {
        return None;
    }
    let at = format_utc(arranged.at());
    let text = format!("the power-cycle command was run after {at}; it may take minutes");
    Some(Veto::new(WaitsFor::PowerCommand, text))
}
