//! Transitions of the persisted state. [`step`] is pure: time and all facts of the host are in the event. It returns the next
//! record and at most one effect. The record must be on disk before the effect is performed; the effect's result is the next
//! event. Effects are repeatable, so that a crash at any point costs only time.

mod command;
mod observed;
mod outcome;
mod reconcile;

use jiff::Timestamp;

use super::facts::{FastFacts, SlowFacts};
use super::state::{RebootState, Veto};
use crate::journal::{self, Message};
use bedplate_core::profile::model::RebootMethod;
use bedplate_core::reboot_record::phase::{ArrangedReboot, Ending, Phase, Shutdown};
use bedplate_core::reboot_record::preparation::{Preparation, Undo};
use bedplate_core::reboot_record::{RebootRequest, Record};

pub(crate) use observed::FINAL_PHASE_LENGTH;
pub(crate) use reconcile::DID_NOT_COME;

/// Input events of the state machine.
#[derive(Debug)]
pub(crate) enum Event<'s, 'w> {
    /// Time has passed: logind, PID 1 and small files were read.
    Polled(&'s FastFacts),
    /// Like `Polled`, but read by a command. The daemon may be arming a method at the same time; the command leaves that to
    /// the daemon.
    PolledByCommand(&'s FastFacts),
    /// The host was observed; `Err` is the reason why it cannot be compared with its profile.
    Observed(&'s FastFacts, Result<&'w SlowFacts<'w>, &'w str>),
    /// The record is unreadable: only this process's memory has the scheduled reboot.
    RecordLost(&'s FastFacts, &'w str),
    /// An operator requests a reboot.
    Requested(RebootRequest),
    /// An operator cancels: user and time, for display.
    CancelRequested(&'s FastFacts, String),
    /// Result of [`Effect::FindUndo`].
    UndoFound(Result<Preparation, Veto>),
    /// Result of [`Effect::Arm`].
    Armed(Result<Preparation, Veto>),
    /// Result of [`Effect::Schedule`]: `Ok` if logind confirms it.
    ScheduleAnswered(Result<(), Veto>),
    /// Result of [`Effect::Cancel`].
    CancelAnswered(Result<CancelResult, Veto>),
    /// Result of [`Effect::Disarm`]: the remaining steps.
    Disarmed(Vec<Undo>),
    /// Result of [`Effect::RunCommand`].
    CommandEnded(CommandResult),
}

/// Result of a cancellation at logind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CancelResult {
    /// logind does not have the reboot.
    Absent,
    /// Too late: the machine is going down.
    GoingDown,
}

/// How the operator's command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommandResult {
    /// It succeeded; the power should be cycled within this many seconds.
    Done(u64),
    /// Another build of this program refused to run it.
    Replaced,
    /// It was not started.
    NotStarted(String),
    /// It was started and failed.
    Failed(String),
}

/// Input that a decision lacks; another pass provides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingInput {
    /// A fresh observation of the boot entry.
    FreshEntry,
    /// A slot of the lock server.
    Slot,
}

/// One action on the host. Each may be repeated after a crash, and each verifies its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Find the steps that undo a method. Changes nothing.
    FindUndo {
        /// The method.
        method: RebootMethod,
        /// Due time.
        at: Timestamp,
    },
    /// Arm a method.
    Arm {
        /// The method.
        method: RebootMethod,
        /// Hash of the pending changes.
        plan: String,
        /// Due time.
        at: Timestamp,
    },
    /// Schedule it with logind, unless logind has it already.
    Schedule {
        /// The reboot.
        arranged: ArrangedReboot,
        /// Reason, for the wall message.
        why: String,
    },
    /// Cancel it at logind, if logind has it.
    Cancel(ArrangedReboot),
    /// Disarm the method.
    Disarm(Preparation),
    /// Run the operator's command.
    RunCommand,
}

/// Result of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// The next state; must be persisted before `effect` is performed.
    pub record: Record,
    /// The action to perform; its result is the next event.
    pub effect: Option<Effect>,
    /// Input that the decision lacks.
    pub missing: Option<MissingInput>,
    /// Journal messages, logged once the record is persisted.
    pub notes: Vec<(Message, String)>,
    /// The state to show; `None` if unchanged or not decided yet.
    pub shown: Option<RebootState>,
}

impl Step {
    fn new(record: Record) -> Self {
        Step { record, effect: None, missing: None, notes: Vec::new(), shown: None }
    }

    fn enter(mut self, phase: Phase) -> Self {
        self.record.phase = phase;
        self
    }

    fn then(mut self, effect: Effect) -> Self {
        self.effect = Some(effect);
        self
    }

    fn needing(mut self, missing: MissingInput) -> Self {
        self.missing = Some(missing);
        self
    }

    fn showing(mut self, state: RebootState) -> Self {
        self.shown = Some(state);
        self
    }

    fn note(&mut self, message: Message, text: impl Into<String>) {
        self.notes.push((message, text.into()));
    }

    /// Cancels the reboot at logind. Its attempt stays counted until logind confirms.
    fn cancel(self, arranged: ArrangedReboot, ending: Ending) -> Self {
        self.enter(Phase::Cancelling { arranged: arranged.clone(), ending })
            .then(Effect::Cancel(arranged))
    }

    /// Ends a reboot that logind does not have while the machine does not go down.
    fn end(mut self, arranged: ArrangedReboot, ending: Ending) -> Self {
        self.end_request(&arranged, &ending);
        if ending != Ending::DidNotCome {
            self.record.cancel_attempt(&arranged.boot_id);
        }
        let armed = arranged.prepared.clone().filter(|_| arranged.is_armed());
        match armed {
            Some(prepared) => {
                self.enter(Phase::Disarming { arranged, ending }).then(Effect::Disarm(prepared))
            }
            None => self.enter(over(arranged.boot_id, ending)),
        }
    }

    /// Removes the request of a cancelled reboot, which would otherwise be scheduled again at once. After a cancellation by
    /// bedplate itself the request stays, and gets the full delay.
    fn end_request(&mut self, arranged: &ArrangedReboot, ending: &Ending) {
        match ending {
            Ending::Cancelled { .. } | Ending::DidNotCome => self.record.asked = None,
            Ending::CancelledByAgent { .. } => {
                let own = |asked: &&mut RebootRequest| arranged.request == Some(asked.since);
                if let Some(asked) = self.record.asked.as_mut().filter(own) {
                    asked.waited = true;
                }
            }
        }
    }
}

/// Returns the phase after the end of a reboot with nothing left to undo.
fn over(boot_id: String, ending: Ending) -> Phase {
    match ending {
        Ending::CancelledByAgent { .. } => Phase::Rest,
        ending => Phase::Ended { boot_id, ending },
    }
}

fn because(why: impl Into<String>) -> Ending {
    Ending::CancelledByAgent { why: why.into() }
}

/// Returns the next state and its effect.
pub(crate) fn step(record: &Record, event: Event<'_, '_>) -> Step {
    let step = Step::new(record.clone());
    match event {
        Event::Polled(seen) => reconcile::reconcile_phase(step, seen),
        Event::PolledByCommand(_) if matches!(step.record.phase, Phase::Arming { .. }) => step,
        Event::PolledByCommand(seen) => reconcile::reconcile_phase(step, seen),
        Event::Observed(seen, wanted) => observed::observed(step, seen, wanted),
        Event::RecordLost(seen, why) => observed::observed(step, seen, Err(why)),
        Event::Requested(asked) => requested(step, asked),
        Event::CancelRequested(seen, by) => cancelled(step, seen, by),
        Event::UndoFound(found) => outcome::undo_found(step, found),
        Event::Armed(armed) => outcome::armed(step, armed),
        Event::ScheduleAnswered(set) => outcome::schedule_answered(step, set),
        Event::CancelAnswered(cleared) => outcome::cancel_answered(step, cleared),
        Event::Disarmed(left) => outcome::disarmed(step, left),
        Event::CommandEnded(ran) => command::ended(step, ran),
    }
}

/// Adds an operator's request. It overrides an earlier cancellation, but not a command that was run.
fn requested(mut step: Step, asked: RebootRequest) -> Step {
    step.record.asked = Some(asked);
    match &mut step.record.phase {
        phase @ Phase::Ended { .. } => *phase = Phase::Rest,
        Phase::Cancelling { ending, .. } | Phase::Disarming { ending, .. } => {
            *ending = because("an operator requested a reboot again");
        }
        _ => {}
    }
    step
}

/// Handles an operator's cancellation. logind's schedule is evaluated first: a reboot that has already ended is not
/// cancelled.
fn cancelled(step: Step, seen: &FastFacts, by: String) -> Step {
    // A concurrent daemon has started to arrange it, and would start again.
    let arranging = matches!(&step.record.phase, Phase::Arming { arranged } | Phase::Scheduling { arranged }
        if arranged.boot_id == seen.boot_id);
    let mut step = reconcile::reconcile_phase(step, seen);
    step.record.asked = None;
    let ending = Ending::Cancelled { by };
    match step.record.phase.clone() {
        Phase::Scheduling { arranged } | Phase::Scheduled { arranged } => {
            if arranged.runs_command() && arranged.late(seen.now) >= 0 && seen.lacks(&arranged) {
                // logind has already ended the announcement; only the command is left.
                step.note(journal::REBOOT_CANCELLED, command::not_run("`bedplate reboot cancel`"));
                return step.end(arranged, ending);
            }
            step.effect = None;
            step.cancel(arranged, ending)
        }
        Phase::Cancelling { arranged, .. } => step.cancel(arranged, ending),
        Phase::Disarming { arranged, ending: Ending::CancelledByAgent { .. } } => {
            step.enter(Phase::Disarming { arranged, ending })
        }
        Phase::Rest if arranging => step.enter(over(seen.boot_id.clone(), ending)),
        _ => step,
    }
}

impl FastFacts {
    /// Whether logind is known not to have this reboot.
    fn lacks(&self, arranged: &ArrangedReboot) -> bool {
        matches!(&self.schedule, Ok(schedule) if !has(schedule.as_ref(), arranged))
    }
}

fn has(schedule: Option<&(String, u64)>, arranged: &ArrangedReboot) -> bool {
    schedule.is_some_and(|(kind, usec)| arranged.is(kind, *usec))
}

/// Returns the shutdown type for the armed method.
fn kind(prepared: &Preparation) -> Shutdown {
    Shutdown::for_preparation(Some(prepared))
}

#[cfg(test)]
mod tests;
