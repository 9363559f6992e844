//! Log messages about observations. Unchanged results are not logged again.

use super::checks::Checked;
use super::journal::{self, Message, log_message, say_of};
use super::observation::{Difference, Observation, PlannedChange};
use bedplate_core::enforce_hold::EnforceHold;
use bedplate_core::plan::{Blocker, RebootNeed, Unknown};
use bedplate_core::verify::Verdict as Outcome;

/// Logs the results of the applied changes, and errors outside them. `plan`: hash of the plan that contained the changes.
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

/// Logs a difference. `plan`: hash of the plan that contains it.
pub(crate) fn differs(plan: &str, change: &Difference) {
    say_of(journal::DRIFT, plan, change, "drifted");
}

/// Logs that an operator paused or resumed enforcement.
pub(crate) fn enforce_hold(before: Option<&EnforceHold>, now: Option<&EnforceHold>) {
    match (before, now) {
        (before, Some(hold)) if before != Some(hold) => {
            log_message(
                journal::PAUSED,
                &format!("{}; until then this host is only observed", hold.describe()),
            );
        }
        (Some(_), None) => log_message(journal::RELEASED, "enforcement resumed"),
        _ => {}
    }
}

/// State at the last logged observation.
#[derive(Debug, Default)]
pub(crate) struct LogState {
    differences: Vec<PlannedChange>,
    blockers: Vec<String>,
    unknowns: Vec<String>,
    checks: Vec<Checked>,
    need: Option<RebootNeed>,
}

impl LogState {
    /// Logs new differences.
    pub(crate) fn differences(&mut self, observation: &Observation) {
        for change in &observation.changes {
            if !self.differences.contains(change) {
                differs(&observation.hash, &change.shown);
            }
        }
        self.differences.clone_from(&observation.changes);
    }

    /// Logs new items that require operator action.
    pub(crate) fn blockers(&mut self, observation: &Observation) {
        let words = |one: &Blocker| {
            format!("{} {}: {}; fix: {}", one.kind, one.subject, one.reason, one.fix)
        };
        let now = observation.blockers.iter().map(words).collect();
        log_new(journal::BLOCKED, &mut self.blockers, now);
    }

    /// Logs values that newly could not be read.
    pub(crate) fn unknowns(&mut self, observation: &Observation) {
        let words =
            |one: &Unknown| format!("cannot read {} {}: {}", one.kind, one.subject, one.reason);
        let now = observation.unknowns.iter().map(words).collect();
        log_new(journal::UNREAD, &mut self.unknowns, now);
    }

    /// Logs checks whose outcome changed since the last results. A different text with the same outcome is not logged.
    pub(crate) fn checks(&mut self, observation: &Observation) {
        let Some(checks) = &observation.checks else { return };
        // An unknown check that could only warn is reported by `bedplate verify` alone.
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

    /// Logs that a reboot is needed, or a colder one than before.
    pub(crate) fn need(&mut self, need: RebootNeed, reason: &str) {
        if self.need.unwrap_or(RebootNeed::None) < need {
            log_message(journal::REBOOT_NEEDED, reason);
        }
        self.need = Some(need);
    }
}

/// Logs the texts that are new, and records all of them.
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
        _ => "is unknown",
    };
    let fix = checked.fix.as_ref().map(|fix| format!("; fix: {fix}"));
    format!("check {id} {word}: {text}{}", fix.unwrap_or_default())
}
