//! Transitions on the result of an effect. A concurrent command may have changed the phase: a result that no longer fits is
//! undone.

use super::reconcile::cancelled_text;
use super::{CancelResult, Effect, Step, because, kind, observed, over};
use crate::journal;
use crate::reboot::state::{RebootState, Veto};
use bedplate_core::reboot_record::phase::{ArrangedReboot, Ending, Phase};
use bedplate_core::reboot_record::preparation::{Preparation, Undo};

/// Stores the undo steps before any change: an arming that is interrupted can be undone from them.
pub(super) fn undo_found(step: Step, found: Result<Preparation, Veto>) -> Step {
    let Phase::Arming { arranged } = step.record.phase.clone() else { return step };
    match found {
        Err(why) => step.end(arranged, because(why.text)),
        Ok(prepared) => {
            let (method, plan, at) = (arranged.method, arranged.plan.clone(), arranged.at());
            step.enter(Phase::Arming { arranged: with(arranged, prepared) }).then(Effect::Arm {
                method,
                plan,
                at,
            })
        }
    }
}

fn with(arranged: ArrangedReboot, prepared: Preparation) -> ArrangedReboot {
    ArrangedReboot { kind: kind(&prepared), prepared: Some(prepared), ..arranged }
}

pub(super) fn armed(step: Step, armed: Result<Preparation, Veto>) -> Step {
    match (step.record.phase.clone(), armed) {
        (Phase::Arming { arranged }, Ok(prepared)) => {
            observed::schedule(step, with(arranged, prepared))
        }
        (Phase::Arming { arranged }, Err(why)) => step.end(arranged, because(why.text)),
        // Cancelled concurrently: the method armed after that is disarmed again.
        (Phase::Disarming { .. } | Phase::Rest | Phase::Ended { .. }, Ok(prepared))
            if !prepared.undo.is_empty() =>
        {
            step.then(Effect::Disarm(prepared))
        }
        _ => step,
    }
}

pub(super) fn schedule_answered(mut step: Step, set: Result<(), Veto>) -> Step {
    match (step.record.phase.clone(), set) {
        (Phase::Scheduling { arranged }, Ok(())) => {
            observed::note_scheduled(&mut step, &arranged);
            let at = arranged.at();
            step.enter(Phase::Scheduled { arranged }).showing(RebootState::Scheduled { at })
        }
        // logind may have accepted it despite the error.
        (Phase::Scheduling { arranged }, Err(why)) => step.cancel(arranged, because(why.text)),
        _ => step,
    }
}

pub(super) fn cancel_answered(mut step: Step, cleared: Result<CancelResult, Veto>) -> Step {
    let Phase::Cancelling { arranged, ending } = step.record.phase.clone() else { return step };
    match cleared {
        // Retried with the next observation.
        Err(_) => step,
        Ok(CancelResult::GoingDown) => step.enter(Phase::GoingDown { arranged }),
        Ok(CancelResult::Absent) => {
            match &ending {
                Ending::CancelledByAgent { why } | Ending::Cancelled { by: why } => {
                    step.note(journal::REBOOT_CANCELLED_BY_AGENT, cancelled_text(why))
                }
                Ending::DidNotCome => {}
            }
            step.end(arranged, ending)
        }
    }
}

pub(super) fn disarmed(step: Step, left: Vec<Undo>) -> Step {
    let Phase::Disarming { arranged, ending } = step.record.phase.clone() else { return step };
    let next = match arranged.prepared.clone() {
        Some(prepared) if !left.is_empty() => {
            let prepared = Some(Preparation { undo: left, ..prepared });
            Phase::Disarming { arranged: ArrangedReboot { prepared, ..arranged }, ending }
        }
        _ => over(arranged.boot_id, ending),
    };
    step.enter(next)
}
