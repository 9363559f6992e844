//! Verdict on the host stage: settings and checks that need no GPU driver. Pure.

use super::{IN_EFFECT, StageVerdict, Status};
use crate::checks::{self, Checked};
use crate::reboot::state::RebootState;
use crate::state::Verdict;
use bedplate_core::plan::KindId;
use bedplate_core::verify::{Stage, find};

/// Check of all settings. The differences of the stage say whether it passes there.
const ALL_SETTINGS: &str = "profile.in-effect";

/// Whether a check belongs to a stage. Excludes the check of all settings from the host stage.
pub(crate) fn has_check(stage: Stage, checked: &Checked) -> bool {
    match stage {
        Stage::Gpudirect => true,
        Stage::Host => {
            checked.id != ALL_SETTINGS
                && find(&checked.id).is_some_and(|check| stage.has_check(check))
        }
    }
}

/// Derives the verdict from the differences of an observed host.
pub(super) fn verdict(status: &Status) -> StageVerdict {
    let not_ready = |reason| StageVerdict { verdict: Verdict::NotReady, reason };
    if let Some(reason) = difference(status) {
        return not_ready(reason);
    }
    let Some(all) = &status.checks else { return judged(None) };
    let of_stage = all.iter().filter(|checked| has_check(Stage::Host, checked));
    let of_stage: Vec<Checked> = of_stage.cloned().collect();
    let verdict = judged(Some(&of_stage));
    let mut unknowns = status.unknowns.iter().filter(|one| Stage::Host.has_kind(one.kind));
    match (verdict.verdict, unknowns.next()) {
        (Verdict::Ready | Verdict::CannotTell, Some(unknown)) => StageVerdict {
            verdict: Verdict::CannotTell,
            reason: format!("cannot read {}: {}", unknown.subject, unknown.reason),
        },
        _ => verdict,
    }
}

fn judged(checks: Option<&[Checked]>) -> StageVerdict {
    let (verdict, why) = checks::verdict(checks);
    let ready = || format!("the host stage of {IN_EFFECT}, and no check of it fails");
    StageVerdict { verdict, reason: why.unwrap_or_else(ready) }
}

/// Returns the first difference from the profile in the settings of the stage.
fn difference(status: &Status) -> Option<String> {
    let has = |kind: &KindId| Stage::Host.has_kind(*kind);
    // An id begins with the kind, which is never masked. An unknown kind counts: a newer daemon may have it.
    let has_id = |id: &str| {
        let kind = id.split('/').next().unwrap_or_default();
        KindId::ALL.iter().find(|known| known.name() == kind).is_none_or(has)
    };
    let pending = status.pending.iter().find(|pending| has(&pending.kind));
    if let (RebootState::AttemptsExhausted { why }, Some(_)) = (&status.reboot.state, pending) {
        return Some(why.clone());
    }
    let conflict = status.conflicts.iter().find(|one| has_id(&one.id));
    let failed = status.failed.iter().find(|one| has_id(&one.id));
    let blocker = status.blockers.iter().find(|one| has(&one.kind));
    let change = status.changes.iter().find(|one| has(&one.kind));
    conflict
        .map(|one| format!("conflict: something else keeps reverting {}", one.id))
        .or_else(|| failed.map(|one| format!("{}: {}", one.subject, one.why)))
        .or_else(|| blocker.map(|one| format!("{}: {}", one.subject, one.reason)))
        .or_else(|| change.map(|one| format!("drifted: {}", one.subject)))
        .or_else(|| pending.map(|one| format!("pending reboot: {}", one.subject)))
}
