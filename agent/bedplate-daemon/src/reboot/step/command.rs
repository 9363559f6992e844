//! The operator's command that cycles the power. logind only rehearses its time (`dry-reboot`), so nothing but bedplate
//! stands between a hold, an inhibitor or `shutdown -c` and the command: it is run only right after its time, when logind
//! was seen with the announcement right before it, and when nothing forbids it. Anything else calls it off.

use jiff::SignedDuration;

use super::{CommandResult, Effect, MissingInput, Step, because};
use crate::journal;
use crate::reboot::decide::entry_veto;
use crate::reboot::facts::{FastFacts, SlowFacts};
use crate::reboot::state::{Veto, WaitsFor, joined};
use bedplate_base::format_utc;
use bedplate_core::reboot_record::phase::{ArrangedReboot, Ending, GOING_DOWN_US, Phase};

/// Before its time the announcement has to be seen at logind: one that was not seen since may have been called off.
pub(crate) const SEEN_BEFORE: SignedDuration = SignedDuration::from_secs(5);
/// Later than this after its time nobody expects it any more.
pub(crate) const LATEST: SignedDuration = SignedDuration::from_secs(120);

const UNSEEN: &str = "bedplate could not check whether it had been called off";
/// Reason to put the command off.
const OTHER_BUILD: &str = "bedplate was replaced by another build at its time";

/// The announced reboot whose command is due: logind has done its part.
pub(super) fn due(phase: &Phase, seen: &FastFacts) -> Option<ArrangedReboot> {
    let Phase::Scheduled { arranged } = phase else { return None };
    let late = arranged.late(seen.now);
    if !arranged.runs_command() || late < 0 {
        return None;
    }
    // Whatever logind would say of it: without a bus it may never say anything.
    let too_late = i128::from(late) * 1000 > LATEST.as_nanos();
    (too_late || seen.lacks(arranged)).then(|| arranged.clone())
}

/// Runs it, or calls it off.
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
        // Nothing could be observed, which does not forbid it.
        return postpone(step, arranged);
    }
    if !wanted.fresh {
        return step.needing(MissingInput::FreshEntry);
    }
    let why = obstacles(&step, &arranged, seen, wanted);
    if wanted.settings.command.is_empty() || !why.is_empty() {
        return cancel(step, arranged, &joined(&why));
    }
    // That it was run is kept first: the power may be gone before it ends.
    let asked = step.record.asked.take();
    step.record.phase = Phase::CommandRun { arranged, asked };
    let text = "running the command of the profile that cycles this host's power";
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
    why.extend(wanted.held.clone());
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

/// Text for the journal.
pub(super) fn not_run(why: &str) -> String {
    format!("the command that cycles this host's power was not run: {why}")
}

/// The command is not run, nor asked for again by itself in this boot.
fn cancel(mut step: Step, arranged: ArrangedReboot, why: &str) -> Step {
    step.note(journal::REBOOT_CANCELLED, not_run(why));
    step.end(arranged, Ending::Cancelled { by: format!("at its time: {why}") })
}

/// The units are of another build by now, and have run nothing. The next daemon starts at once, too late for this
/// announcement: it makes another one, with the whole delay.
fn postpone(mut step: Step, arranged: ArrangedReboot) -> Step {
    let text = "bedplate was replaced by another build at the time of the announced reboot, and the command that cycles this \
        host's power was not run: it is announced again";
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

/// The veto of a command that was run: the power may be cycled at any moment.
pub(super) fn veto(phase: &Phase, seen: &FastFacts) -> Option<Veto> {
    let Phase::CommandRun { arranged, .. } = phase else { return None };
    if arranged.late(seen.now) >= GOING_DOWN_US {
        return None;
    }
    let at = format_utc(arranged.at());
    let text = format!("the command that cycles the power was run after {at}: it may take minutes");
    Some(Veto::new(WaitsFor::PowerCommand, text))
}
