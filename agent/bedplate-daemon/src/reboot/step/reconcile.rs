//! Transitions of a scheduled reboot on facts from logind and PID 1.

use super::super::method::surviving;
use super::{Effect, Step, because, has, over};
use crate::journal;
use crate::reboot::facts::FastFacts;
use crate::reboot::state::joined;
use bedplate_base::format_utc;
use bedplate_core::reboot_record::phase::{ArrangedReboot, Ending, GOING_DOWN_US, Phase, time};

/// Text for a reboot that did not happen at its time.
pub(crate) const DID_NOT_COME: &str = "the machine did not go down at the scheduled time";
/// Reason for cancelling a reboot that logind dropped at a soft-reboot.
const SOFT_REBOOT: &str = "a soft-reboot discarded it";
/// Reason for cancelling a reboot whose arrangement was interrupted.
const CUT_SHORT: &str = "scheduling was interrupted";

/// Updates the phase to the facts, and cancels a scheduled reboot that a small file vetoes.
pub(super) fn reconcile_phase(step: Step, seen: &FastFacts) -> Step {
    let step = booted(step, seen);
    if step.effect.is_some() {
        return step;
    }
    match step.record.phase.clone() {
        Phase::Rest | Phase::Ended { .. } => step,
        Phase::Arming { arranged } => step.end(arranged, because(CUT_SHORT)),
        Phase::Scheduling { arranged } => match &seen.schedule {
            Err(_) => step,
            Ok(schedule) if has(schedule.as_ref(), &arranged) => {
                let step = step.enter(Phase::Scheduled { arranged: arranged.clone() });
                scheduled(step, arranged, seen)
            }
            Ok(_) if seen.goes_down => step.enter(Phase::GoingDown { arranged }),
            Ok(_) => step.end(arranged, because(CUT_SHORT)),
        },
        Phase::Scheduled { arranged } => scheduled(step, arranged, seen),
        Phase::GoingDown { arranged } => still_going_down(step, arranged, seen),
        Phase::CommandRun { arranged, .. } if is_over(&arranged, seen) => {
            step.enter(over(arranged.boot_id, Ending::DidNotCome))
        }
        Phase::CommandRun { .. } => step,
        Phase::Cancelling { .. } | Phase::Disarming { .. } if seen.failed.is_some() => step,
        Phase::Cancelling { arranged, .. } => step.then(Effect::Cancel(arranged)),
        Phase::Disarming { arranged, ending } => match arranged.prepared.clone() {
            Some(prepared) => step.then(Effect::Disarm(prepared)),
            None => step.end(arranged, ending),
        },
    }
}

/// Ends the reboot of an earlier boot; only state that a boot does not reset remains to undo.
fn booted(mut step: Step, seen: &FastFacts) -> Step {
    let boot = seen.boot_id.as_str();
    if step.record.request(boot).is_none() {
        step.record.asked = None;
    }
    if step.record.phase.boot_id().is_none_or(|of| of == boot) {
        return step;
    }
    let survives = |arranged: &ArrangedReboot| arranged.prepared.as_ref().and_then(surviving);
    let left = step.record.phase.arranged().and_then(survives);
    match (left, step.record.phase.arranged().cloned()) {
        (Some(prepared), Some(arranged)) => {
            let boot_id = boot.to_owned();
            let arranged = ArrangedReboot { boot_id, prepared: Some(prepared.clone()), ..arranged };
            let ending = because("another boot has started");
            step.enter(Phase::Disarming { arranged, ending }).then(Effect::Disarm(prepared))
        }
        _ => step.enter(Phase::Rest),
    }
}

/// Whether its time passed so long ago that it can no longer be in progress.
fn is_over(arranged: &ArrangedReboot, seen: &FastFacts) -> bool {
    arranged.late(seen.now) >= GOING_DOWN_US && !seen.goes_down
}

fn scheduled(step: Step, arranged: ArrangedReboot, seen: &FastFacts) -> Step {
    // Only a real shutdown brings the machine down at its time; under an announcement it is another shutdown.
    if seen.goes_down && !arranged.is_dry() {
        return step.enter(Phase::GoingDown { arranged });
    }
    let Ok(schedule) = &seen.schedule else { return step };
    let is_due = arranged.late(seen.now) >= 0;
    if has(schedule.as_ref(), &arranged) {
        return match (is_due, arranged.is_dry()) {
            (true, true) => step,
            // logind retains it while the machine goes down, but also if its job was cancelled or failed.
            (true, false) if is_over(&arranged, seen) => did_not_come(step, arranged, true),
            (true, false) => step.enter(Phase::GoingDown { arranged }),
            (false, _) if !seen.vetoes.is_empty() => {
                step.cancel(arranged, because(joined(&seen.vetoes)))
            }
            (false, _) => step,
        };
    }
    match (is_due, arranged.is_dry()) {
        // The command: decided with all facts.
        (true, true) if arranged.runs_command() => step,
        // A finished dry run; it is recorded as an attempt of its own.
        (true, true) => step.enter(Phase::Rest),
        (true, false) if schedule.is_some() || is_over(&arranged, seen) => {
            did_not_come(step, arranged, false)
        }
        (true, false) => step.enter(Phase::GoingDown { arranged }),
        // The other shutdown ends the announcement; the attempt does not count, because no command ran.
        (false, true) if seen.goes_down => step,
        (false, _) => lost(step, arranged, schedule.as_ref(), seen),
    }
}

/// Handles a reboot that logind dropped before its time, while the machine does not go down.
fn lost(
    mut step: Step,
    arranged: ArrangedReboot,
    schedule: Option<&(String, u64)>,
    seen: &FastFacts,
) -> Step {
    let changed = arranged.userspace.zip(seen.userspace).is_some_and(|(then, now)| then != now);
    let ending = match schedule {
        Some((kind, usec)) => {
            let at = format_utc(time(*usec));
            let by = format!("by another shutdown in its place: {kind} at {at}");
            Ending::Cancelled { by }
        }
        None if changed => because(SOFT_REBOOT),
        // The tool that set a hold has cancelled it as well; it is scheduled again after the hold.
        None if !seen.vetoes.is_empty() => because(joined(&seen.vetoes)),
        None => Ending::Cancelled {
            by: format!(
                "through logind, as by `shutdown -c`, at {} or shortly before",
                format_utc(seen.now)
            ),
        },
    };
    match &ending {
        Ending::CancelledByAgent { why } => {
            step.note(journal::REBOOT_CANCELLED_BY_AGENT, cancelled_text(why));
        }
        Ending::Cancelled { by } => {
            let again = "run `bedplate reboot schedule` to request it again";
            let text = format!("the scheduled reboot was cancelled {by}; {again}");
            step.note(journal::REBOOT_CANCELLED, text);
        }
        Ending::DidNotCome => {}
    }
    step.end(arranged, ending)
}

/// Returns the text for a reboot that bedplate cancelled.
pub(super) fn cancelled_text(why: &str) -> String {
    format!("scheduled reboot cancelled: {why}")
}

/// Ends a reboot that did not happen. Its attempt stays counted. `kept`: logind still has it.
fn did_not_come(mut step: Step, arranged: ArrangedReboot, kept: bool) -> Step {
    let text = format!("the scheduled reboot did not happen: {DID_NOT_COME}");
    step.note(journal::REBOOT_FAILED, text);
    match kept {
        true => step.cancel(arranged, Ending::DidNotCome),
        false => step.end(arranged, Ending::DidNotCome),
    }
}

fn still_going_down(mut step: Step, arranged: ArrangedReboot, seen: &FastFacts) -> Step {
    let Ok(schedule) = &seen.schedule else { return step };
    if seen.goes_down {
        return step;
    }
    if arranged.late(seen.now) < 0 {
        // Another shutdown started before its time, and was aborted or was a soft-reboot.
        let step = step.enter(Phase::Scheduled { arranged: arranged.clone() });
        return scheduled(step, arranged, seen);
    }
    let changed = arranged.userspace.zip(seen.userspace).is_some_and(|(then, now)| then != now);
    if changed && !has(schedule.as_ref(), &arranged) {
        step.note(journal::REBOOT_CANCELLED_BY_AGENT, cancelled_text(SOFT_REBOOT));
        return step.end(arranged, because(SOFT_REBOOT));
    }
    if is_over(&arranged, seen) {
        let kept = has(schedule.as_ref(), &arranged);
        return did_not_come(step, arranged, kept);
    }
    step
}
