//! Status and journal messages of the reboot, from the record and the decision.

use jiff::Timestamp;

use super::{RebootController, fast_facts};
use crate::journal::{self, log_message};
use crate::observation::Observation;
use crate::reboot::decide::{NO_METHOD, entry_veto};
use crate::reboot::facts::{FastFacts, SlowFacts};
use crate::reboot::state::{RebootState, UNFINISHED, Veto, joined};
use crate::reboot::step::DID_NOT_COME;
use crate::status::Status;
use bedplate_base::format_utc;
use bedplate_core::kind::cmdline::diagnosis::Cause;
use bedplate_core::reboot_record::phase::{Ending, Phase};

/// Text until the next decision.
const DECIDING: &str = "the daemon is deciding about the reboot";

impl RebootController {
    /// Writes the data of the record into the status.
    pub(crate) fn show(&self, status: &mut Status) {
        status.reboot.hold = fast_facts::hold(&self.root, Timestamp::now());
        let Ok(record) = self.record() else { return };
        status.reboot.cancelled_by = match record.phase.ending() {
            Some(Ending::Cancelled { by }) => Some(by.clone()),
            Some(Ending::DidNotCome) => Some(DID_NOT_COME.to_owned()),
            Some(Ending::CancelledByAgent { .. }) | None => None,
        };
        status.reboot.attempts = record.in_a_row(&self.boot_id);
    }

    /// Updates the status before the next decision, so that an operator never sees a state from before a command.
    pub(crate) fn show_at_once(&self, status: &mut Status) {
        self.show(status);
        let Ok(record) = self.record() else { return };
        status.reboot.state = match record.phase {
            Phase::Scheduled { arranged } => RebootState::Scheduled { at: arranged.at() },
            Phase::GoingDown { arranged } => RebootState::UnderWay { at: arranged.at() },
            phase if phase.needs_operator() => RebootState::Cancelled { why: Vec::new() },
            _ => RebootState::Unknown { why: DECIDING.into() },
        };
    }

    /// Lists all vetoes except a closed window and another shutdown.
    pub(super) fn show_vetoes(
        &self,
        status: &mut Status,
        seen: &FastFacts,
        (wanted, closely): (&SlowFacts<'_>, bool),
        failed: Option<&Veto>,
    ) {
        status.reboot.next_boot = Some(wanted.entry.clone());
        status.reboot.vetoes.clear();
        if !closely {
            return;
        }
        let all = seen.vetoes.iter().chain(&wanted.vetoes).chain(&wanted.pause).chain(failed);
        let texts = all.map(Veto::to_string);
        let method = wanted.method.is_none().then(|| NO_METHOD.to_owned());
        let entry = entry_veto(&wanted.entry).map(|why| why.text);
        let unasked = seen.schedule.as_ref().err().map(Veto::to_string);
        let rest = [method, entry, unasked].into_iter().flatten();
        status.reboot.vetoes = texts.chain(rest).chain(wanted.inhibitors.iter().cloned()).collect();
    }

    /// Logs a changed state.
    pub(super) fn log_changes(&mut self, status: &Status, observation: &Observation) {
        let state = &status.reboot.state;
        if self.last.as_ref() == Some(state) {
            return;
        }
        match state {
            RebootState::AttemptsExhausted { why } => {
                let cause = observation.cause.as_ref().map(Cause::describe).unwrap_or_default();
                log_message(journal::ATTEMPTS_EXHAUSTED, &format!("{why}: {cause}"));
            }
            RebootState::Waiting { why, until, overdue } => {
                let until =
                    until.map(|at| format!(" (until {})", format_utc(at))).unwrap_or_default();
                let late = if *overdue { "longer than `inhibitor_wait`: " } else { "" };
                log_message(
                    journal::REBOOT_WAITS,
                    &format!("reboot waiting: {late}{}{until}", joined(why)),
                );
            }
            RebootState::WaitingForChanges => {
                log_message(journal::REBOOT_WAITS, &format!("reboot waiting: {UNFINISHED}"));
            }
            RebootState::Cancelled { .. } => log_message(journal::REBOOT_WAITS, &state.to_string()),
            _ => {}
        }
        self.last = Some(state.clone());
    }

    /// Returns the log text for a scheduled reboot at the daemon's end.
    pub(crate) fn pending_reboot_text(&self) -> Option<String> {
        let Phase::Scheduled { arranged } = self.record().ok()?.phase else { return None };
        let at = format_utc(arranged.at());
        Some(match arranged.runs_command() {
            true => format!(
                "daemon stopping: the reboot scheduled for {at} will not happen, because only the daemon runs its \
                 command"
            ),
            false => format!(
                "daemon stopping: systemd-logind keeps the reboot scheduled for {at}; cancel it with `bedplate reboot \
                 cancel` or `shutdown -c`"
            ),
        })
    }
}
