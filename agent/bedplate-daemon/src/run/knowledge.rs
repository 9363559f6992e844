//! Knowledge of the host: the last observation, the status derived from it, and the work in progress.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use crate::backoff::Backoff;
use crate::checks;
use crate::devices::KnownDevices;
use crate::fingerprint;
use crate::journal::{self, log_message};
use crate::log_changes::{self, LogState};
use crate::observation::Observation;
use crate::reboot::state::{RebootState, WaitsFor};
use crate::status::{State, Status, Work};
use bedplate_core::enforce_hold::EnforceHold;
use bedplate_host::file::under;

/// Longest time in which a missing profile is assumed to be in replacement, by a tool that removes the old file first.
const PROFILE_QUIET: Duration = Duration::from_secs(2);
/// Seconds between re-checks until a profile sets its own interval.
const INTERVAL_S: u32 = 900;

pub(super) struct Knowledge {
    root: PathBuf,
    /// Status by the last observation; hidden while `work` is set.
    pub(super) status: Status,
    /// The last accepted observation, if any.
    pub(super) observation: Option<Observation>,
    /// Reason why the host cannot be observed or the profile cannot be used.
    pub(super) unusable: Option<String>,
    /// Work in progress; meanwhile the status of the last observation is stale.
    pub(super) work: Option<Work>,
    /// Time at which the enforced profile was found missing.
    profile_gone: Option<Instant>,
    /// [`fingerprint`] at the last observation.
    fingerprint: u64,
    pub(super) devices: KnownDevices,
    pub(super) logged: LogState,
}

impl Knowledge {
    /// Returns the state before the first observation.
    pub(super) fn new(root: &Path, status: Status, devices: KnownDevices) -> Self {
        Knowledge {
            root: root.to_owned(),
            status,
            observation: None,
            unusable: None,
            work: None,
            profile_gone: None,
            fingerprint: 0,
            devices,
            logged: LogState::default(),
        }
    }

    /// Returns the public status.
    pub(super) fn shown(&self) -> Status {
        match &self.work {
            Some(work) => self.status.working_on(work),
            None => self.status.clone(),
        }
    }

    /// Returns the plan of the last observation as JSON, or an empty string.
    pub(super) fn plan(&self) -> String {
        let plan = self.observation.as_ref().map(|observation| observation.plan_json.clone());
        plan.unwrap_or_default()
    }

    /// # Errors
    /// The reason, if the host cannot be observed or has no usable profile.
    pub(super) fn expect_usable(&self) -> Result<(), String> {
        self.unusable.clone().map_or(Ok(()), Err)
    }

    /// Whether decisions may use the last observation; `false` while the profile may be missing.
    pub(super) fn is_current(&self) -> bool {
        self.unusable.is_none() && self.profile_gone.is_none()
    }

    /// Returns the profile's seconds between re-checks.
    pub(super) fn interval_s(&self) -> u32 {
        self.observation.as_ref().map_or(INTERVAL_S, |observation| observation.agent.interval_s)
    }

    /// Marks the start of work, or its next step.
    pub(super) fn begin(&mut self, what: &str) {
        let since = self.work.as_ref().map_or_else(Timestamp::now, |work| work.since);
        self.work = Some(Work { what: what.to_owned(), since });
    }

    /// Renews the status: it is valid for two intervals from now.
    pub(super) fn beat(&mut self) {
        let now = Timestamp::now();
        self.status.heartbeat = Some(now);
        self.status.fresh_until =
            now.checked_add(SignedDuration::from_secs(2 * i64::from(self.interval_s()))).ok();
    }

    /// Records that the status follows from an observation that ended now, or was confirmed by it.
    pub(super) fn note_evaluated(&mut self) {
        self.status.evaluated_at = Some(Timestamp::now());
    }

    fn signs(&self) -> u64 {
        let watch = self.observation.as_ref().map(|observation| &observation.watch);
        fingerprint::fingerprint(&self.root, watch)
    }

    /// Whether the host may have changed since the last observation.
    pub(super) fn has_signs_of_change(&self) -> bool {
        self.signs() != self.fingerprint
    }

    /// Reads whether an operator paused enforcement, and logs a change.
    pub(super) fn is_enforcement_held(&mut self) -> bool {
        let pause = EnforceHold::load(&self.root);
        log_changes::enforce_hold(self.status.pause.as_ref(), pause.as_ref());
        self.status.pause = pause;
        self.status.pause.is_some()
    }

    /// Whether an observation outside the loop differs from the published state. `seen` is `None` if the host could not be
    /// observed.
    pub(super) fn is_news(&self, seen: Option<&Observation>) -> bool {
        match (seen, &self.observation) {
            (Some(seen), Some(known)) => {
                self.unusable.is_some()
                    || seen.plan_json != known.plan_json
                    || !checks::are_no_news(seen.checks.as_deref(), known.checks.as_deref())
            }
            (Some(_), None) => true,
            // The loop finds the reason and logs it once.
            (None, _) => self.unusable.is_none(),
        }
    }

    /// Accepts an observation and logs its differences from the previous one, which is returned.
    pub(super) fn take(
        &mut self,
        observation: Observation,
        backoff: &Backoff,
    ) -> Option<Observation> {
        (self.unusable, self.profile_gone) = (None, None);
        let was = self.status.is_as_the_profile_says();
        self.status.failed = backoff.failed(&observation.changes);
        self.status.take(&observation, backoff.conflicts());
        self.logged.differences(&observation);
        self.logged.blockers(&observation);
        self.logged.need(observation.need, &self.status.reason);
        self.logged.unknowns(&observation);
        self.logged.checks(&observation);
        if self.status.is_as_the_profile_says() {
            self.status.last_converged = Some(Timestamp::now());
            if !was {
                let text = format!("converged on profile {}", observation.profile);
                log_message(journal::CONVERGED, &text);
            }
        }
        self.note_evaluated();
        let before = self.observation.replace(observation);
        self.fingerprint = self.signs();
        self.beat();
        before
    }

    /// Updates state, verdict and reason after a decision about the reboot.
    pub(super) fn update_verdict(&mut self) {
        let Some(observation) = &self.observation else { return };
        self.status.update_verdict(observation.failure());
        if self.status.state == State::AttemptsExhausted
            && let Some(cause) = &observation.cause
        {
            self.status.reason = format!("{}: {}", self.status.reason, cause.describe());
        }
    }

    /// Whether the reboot waits for an answer of logind.
    pub(super) fn waits_for_logind(&self) -> bool {
        match &self.status.reboot.state {
            RebootState::Waiting { why, .. } => {
                why.iter().any(|reason| reason.waits_for == WaitsFor::Logind)
            }
            _ => false,
        }
    }

    /// Whether a file of the enforced profile is missing and `seen` used other files only temporarily, such as a fleet's
    /// shared profiles, or the same profile without a layer.
    pub(super) fn old_profile_may_come_back(&mut self, seen: &Observation) -> bool {
        let mut before = self.observation.iter().flat_map(|observation| &observation.profile_files);
        before.any(|file| !seen.profile_files.contains(file)) && self.profile_may_come_back()
    }

    /// Like `old_profile_may_come_back`, for a failed observation.
    pub(super) fn old_profile_is_gone(&mut self) -> bool {
        !self.gone_files().is_empty() && self.profile_may_come_back()
    }

    /// Like `old_profile_may_come_back`, for a missing operator's profile; `false` if no profile was enforced.
    pub(super) fn lost_profile_may_come_back(&mut self) -> bool {
        let enforced = self.observation.is_some() && self.status.state != State::NoProfile;
        enforced && self.profile_may_come_back()
    }

    fn profile_may_come_back(&mut self) -> bool {
        self.profile_gone.get_or_insert_with(Instant::now).elapsed() < PROFILE_QUIET
    }

    /// Returns the end of the wait for a missing profile, and a text to show until then.
    pub(super) fn wait_for_profile(&self) -> (Option<Instant>, String) {
        let text = match self.gone_files().as_slice() {
            // The files exist again and are read at once.
            [] => "the profile is being replaced: waiting for its return".to_owned(),
            [file] => format!("{file} is missing: waiting for its return"),
            [file, more @ ..] => {
                format!("{file} and {} more are missing: waiting for their return", more.len())
            }
        };
        (self.profile_gone.map(|gone| gone + PROFILE_QUIET), text)
    }

    /// Returns the missing files of the enforced profile.
    fn gone_files(&self) -> Vec<&str> {
        let files = self.observation.iter().flat_map(|observation| &observation.profile_files);
        let gone = |file: &&String| !under(&self.root, file).exists();
        files.filter(gone).map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A caller may use an earlier verdict for a short time of work, not of each step.
    #[test]
    fn steps_without_a_pause_have_one_start() {
        let (root, status) = (Path::new("/nowhere"), Status::starting("b".into()));
        let mut known = Knowledge::new(root, status, KnownDevices::default());
        let start = |known: &Knowledge| known.work.as_ref().map(|work| work.since);
        known.begin("observing the host");
        let first = start(&known);
        known.begin("applying the profile");
        assert_eq!(start(&known), first);
        known.work = None;
        known.begin("observing the host");
        assert_ne!(start(&known), first);
    }
}
