//! Decisions after an observation of the host.

use jiff::SignedDuration;

use super::{Effect, MissingInput, Step, because, command, has, reconcile};
use crate::journal;
use crate::reboot::decide::{ScheduledShutdown, Situation, decide};
use crate::reboot::facts::{FastFacts, SlowFacts};
use crate::reboot::state::{RebootState, WaitsFor};
use bedplate_base::terminal::brief;
use bedplate_core::reboot_hold::LONGEST_REASON;
use bedplate_core::reboot_record::attempt::Attempt;
use bedplate_core::reboot_record::phase::{ArrangedReboot, Phase, Shutdown, time, usec};

/// Time before a reboot within which each decision reads the boot entry afresh.
pub(crate) const FINAL_PHASE_LENGTH: SignedDuration = SignedDuration::from_secs(15);

/// Text while another build takes over.
const REPLACED: &str = "the daemon is being replaced by another build";

/// Reconciles the phase, and decides. After a step with an effect another pass follows.
pub(super) fn observed(step: Step, seen: &FastFacts, wanted: Result<&SlowFacts<'_>, &str>) -> Step {
    let mut step = reconcile::reconcile_phase(step, seen);
    if step.effect.is_some() {
        return step;
    }
    if let Some(arranged) = command::due(&step.record.phase, seen) {
        return command::due_now(step, arranged, seen, wanted);
    }
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(why) => return cancel_unverified(step, why),
    };
    let scheduled = scheduled(&step.record.phase, seen);
    if wanted.replaced {
        // The next daemon, which starts at once, decides.
        let state = match scheduled {
            ScheduledShutdown::Ours { at, .. } => RebootState::Scheduled { at },
            _ => RebootState::waiting(WaitsFor::Logind, REPLACED),
        };
        return step.showing(state);
    }
    let state = decided(&step, seen, wanted, scheduled);
    if let (RebootState::Waiting { .. }, Some(asked)) = (&state, &mut step.record.asked) {
        // After a hold of hours, an operator who lifts it does not expect an immediate reboot.
        asked.waited = true;
    }
    match state {
        RebootState::TakingLock | RebootState::Scheduling { .. } if !wanted.fresh => {
            step.needing(MissingInput::FreshEntry)
        }
        RebootState::Scheduled { at }
            if !wanted.fresh
                && at.duration_since(seen.now) <= FINAL_PHASE_LENGTH
                && at > seen.now =>
        {
            step.needing(MissingInput::FreshEntry)
        }
        RebootState::TakingLock => step.needing(MissingInput::Slot),
        RebootState::Scheduling { at } => arrange(step, seen, wanted, usec(at)),
        RebootState::Cancelling { why } => match step.record.phase.clone() {
            Phase::Scheduled { arranged } => step.cancel(arranged, because(why.join("; "))),
            _ => step,
        },
        state => step.showing(state),
    }
}

/// Cancels the scheduled reboot: without an observation it may no longer be needed or safe.
fn cancel_unverified(step: Step, why: &str) -> Step {
    match step.record.phase.clone() {
        Phase::Scheduled { arranged } => step.cancel(arranged, because(why)),
        _ => step,
    }
}

fn decided(
    step: &Step,
    seen: &FastFacts,
    wanted: &SlowFacts<'_>,
    scheduled: ScheduledShutdown,
) -> RebootState {
    let record = &step.record;
    let mut vetoes = seen.vetoes.clone();
    vetoes.extend(wanted.vetoes.iter().cloned());
    vetoes.extend(command::veto(&record.phase, seen));
    vetoes.extend(seen.schedule.as_ref().err().cloned());
    vetoes.extend(seen.failed.clone());
    let locked = wanted.settings.fleetlock.as_ref().map(|server| {
        record.lock.as_ref().is_some_and(|held| held.certain && held.server == *server)
    });
    decide(&Situation {
        need: wanted.need,
        plan: wanted.plan,
        unfinished: wanted.unfinished,
        planned: wanted.planned,
        refused: wanted.refused,
        boot_id: &seen.boot_id,
        now: seen.now,
        settings: wanted.settings,
        record,
        vetoes: &vetoes,
        pause: wanted.pause.as_ref(),
        entry: &wanted.entry,
        method: wanted.method,
        needs_operator: record.phase.needs_operator(),
        inhibitors: &wanted.inhibitors,
        inhibited_for: wanted.inhibited_for,
        scheduled,
        locked,
    })
}

/// Returns logind's schedule with its owner.
pub(super) fn scheduled(phase: &Phase, seen: &FastFacts) -> ScheduledShutdown {
    let schedule = seen.schedule.as_ref().ok().and_then(Option::as_ref);
    let foreign = |(kind, at): &(String, u64)| ScheduledShutdown::Foreign {
        kind: kind.clone(),
        at: time(*at),
    };
    match phase {
        Phase::GoingDown { arranged } => ScheduledShutdown::Underway(arranged.at()),
        Phase::Scheduled { arranged } if has(schedule, arranged) => {
            ScheduledShutdown::Ours { at: arranged.at(), request: arranged.request }
        }
        // Another shutdown has started under an announcement.
        _ if schedule.is_none() && seen.goes_down => {
            ScheduledShutdown::Foreign { kind: "shutdown".into(), at: seen.now }
        }
        // A reboot that is being cancelled does not belong to another program.
        Phase::Cancelling { arranged, .. } if has(schedule, arranged) => ScheduledShutdown::Nothing,
        _ => schedule.map_or(ScheduledShutdown::Nothing, foreign),
    }
}

/// Starts a reboot. It counts as an attempt from here on: a power cut costs an attempt, but never causes a loop.
fn arrange(mut step: Step, seen: &FastFacts, wanted: &SlowFacts<'_>, usec: u64) -> Step {
    let Some(method) = wanted.method else { return step };
    let dry_run = wanted.settings.dry_run;
    let request = step.record.request(&seen.boot_id).map(|asked| asked.since);
    let arranged = ArrangedReboot {
        boot_id: seen.boot_id.clone(),
        kind: Shutdown::DryReboot,
        usec,
        plan: wanted.plan.to_owned(),
        method,
        request,
        userspace: seen.userspace,
        prepared: None,
    };
    step.record.attempt(Attempt {
        plan: wanted.plan.to_owned(),
        boot_id: seen.boot_id.clone(),
        at: seen.now,
        due: Some(arranged.at()),
        method,
        dry_run,
        passthrough: wanted.passthrough,
        followed: false,
        subject: subject(&step, wanted),
    });
    if dry_run {
        return schedule(step, arranged);
    }
    let at = arranged.at();
    step.enter(Phase::Arming { arranged }).then(Effect::FindUndo { method, at })
}

/// Returns the subject of a reboot, shown to all logged-in users.
fn subject(step: &Step, wanted: &SlowFacts<'_>) -> String {
    match &step.record.asked {
        Some(asked) => brief(&asked.why, LONGEST_REASON),
        None => wanted.subject.clone(),
    }
}

/// Schedules the armed reboot with logind.
pub(super) fn schedule(step: Step, arranged: ArrangedReboot) -> Step {
    let why = reason(&step, &arranged);
    step.enter(Phase::Scheduling { arranged: arranged.clone() })
        .then(Effect::Schedule { arranged, why })
}

/// Returns the reason for the reboot, from its attempt.
pub(super) fn reason(step: &Step, arranged: &ArrangedReboot) -> String {
    let own = |attempt: &&Attempt| attempt.boot_id == arranged.boot_id;
    let attempt = step.record.attempts.iter().find(own);
    attempt.map(|attempt| attempt.subject.clone()).unwrap_or_default()
}

/// Logs a reboot that logind has confirmed.
pub(super) fn note_scheduled(step: &mut Step, arranged: &ArrangedReboot) {
    let why = reason(step, arranged);
    let at = bedplate_base::format_utc(arranged.at());
    let text = format!("reboot scheduled for {at} ({}): {why}", arranged.method);
    step.note(journal::REBOOT_SCHEDULED, text);
}
