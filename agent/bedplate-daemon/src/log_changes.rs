//! What is said of an observation in the log; what still is as it was is not said again.

use super::checks::Checked;
use super::journal::{self, Message, log_message, say_of};
use super::observation::{Difference, Observation, PlannedChange};
use bedplate_core::enforce_hold::EnforceHold;
use bedplate_core::plan::{Blocker, RebootNeed, Unknown};
use bedplate_core::verify::Verdict as Outcome;

/// Says what became of the changes that were applied, and what went wrong beside them. `plan`: the hash of what they were
/// part of.
pub(crate) fn ended(plan: &str, observation: &Observation) {
    for done in &observation.done {
        match &done.failure {
            None => say_of(journal::DONE, plan, &done.change.shown, "done"),
            Some(why) => {
                say_of(journal::FAILED, plan, &done.change.shown, &format!("failed ({why})"));
            }
        }
    }
    for warning in &observation.warnings {
        log_message(journal::IMPAIRED, warning);
    }
}

/// Says that something differs. `plan`: the hash of what it is part of.
pub(crate) fn differs(plan: &str, change: &Difference) {
    say_of(journal::DRIFT, plan, change, "not as the profile says");
}

/// Says that an operator holds enforcement, or does not any more.
pub(crate) fn enforce_hold(before: Option<&EnforceHold>, now: Option<&EnforceHold>) {
    match (before, now) {
        (before, Some(hold)) if before != Some(hold) => {
            log_message(
                journal::HELD,
                &format!("{}; until then this host is only observed", hold.describe()),
            );
        }
        (Some(_), None) => log_message(journal::RELEASED, "enforcement is no longer held"),
        _ => {}
    }
}

/// What was said of the last observation.
#[derive(Debug, Default)]
pub(crate) struct LogState {
    differences: Vec<PlannedChange>,
    blockers: Vec<String>,
    unknowns: Vec<String>,
    checks: Vec<Checked>,
    need: Option<RebootNeed>,
}

impl LogState {
    /// Says what is found to differ.
    pub(crate) fn differences(&mut self, observation: &Observation) {
        for change in &observation.changes {
            if !self.differences.contains(change) {
                differs(&observation.hash, &change.shown);
            }
        }
        self.differences.clone_from(&observation.changes);
    }

    /// Says what people have to deal with.
    pub(crate) fn blockers(&mut self, observation: &Observation) {
        let words = |one: &Blocker| {
            format!("{} {}: {}; do: {}", one.kind, one.subject, one.reason, one.remedy)
        };
        let now = observation.blockers.iter().map(words).collect();
        log_new(journal::BLOCKED, &mut self.blockers, now);
    }

    /// Says what could not be read.
    pub(crate) fn unknowns(&mut self, observation: &Observation) {
        let words = |one: &Unknown| {
            format!("{} {} could not be read: {}", one.kind, one.subject, one.reason)
        };
        let now = observation.unknowns.iter().map(words).collect();
        log_new(journal::UNREAD, &mut self.unknowns, now);
    }

    /// Says which checks come to something else than at the last judgement. Another wording of the same outcome is not said again.
    pub(crate) fn checks(&mut self, observation: &Observation) {
        let Some(checks) = &observation.checks else { return };
        // What could only be a warning and is not known is told by `bedplate verify` alone.
        let counts = |checked: &Checked| {
            matches!(checked.outcome, Outcome::Fail | Outcome::Warn) || checked.is_inconclusive()
        };
        for checked in checks {
            let before = self.checks.iter().find(|before| before.id == checked.id);
            if before.is_some_and(|before| before.outcome == checked.outcome) {
                continue;
            }
            if counts(checked) {
                log_message(journal::CHECK, &format_check(checked));
            } else if before.is_some_and(counts) && !checked.has_finding() {
                log_message(journal::CHECK_PASSED, &format!("check {} passes again", checked.id));
            }
        }
        self.checks.clone_from(checks);
    }

    /// Says that a boot is needed, or a colder one than before.
    pub(crate) fn need(&mut self, need: RebootNeed, reason: &str) {
        if self.need.unwrap_or(RebootNeed::None) < need {
            log_message(journal::REBOOT_NEEDED, reason);
        }
        self.need = Some(need);
    }
}

/// Says what was not said before, and remembers all of it.
fn log_new(message: Message, said: &mut Vec<String>, now: Vec<String>) {
    for text in now.iter().filter(|text| !said.contains(text)) {
        log_message(message, text);
    }
    *said = now;
}

fn format_check(checked: &Checked) -> String {
    let Checked { id, text, .. } = checked;
    let word = match checked.outcome {
        Outcome::Fail => "fails",
        Outcome::Warn => "warns",
        _ => "cannot tell",
    };
    let remedy = checked.remedy.as_ref().map(|remedy| format!("; do: {remedy}"));
    format!("check {id} {word}: {text}{}", remedy.unwrap_or_default())
}
