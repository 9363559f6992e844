//! Knowledge of the host: the last observation, the status that follows from it, and the work under way.

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

/// A profile that is gone for a shorter time than this is being replaced, by a tool that removes the old file first.
const PROFILE_QUIET: Duration = Duration::from_secs(2);
/// Seconds between re-checks until a profile says otherwise.
const INTERVAL_S: u32 = 900;

pub(super) struct Knowledge {
    root: PathBuf,
    /// Status by the last observation; `work` hides it.
    pub(super) status: Status,
    /// The last observation that was taken; `None`: none yet.
    pub(super) observation: Option<Observation>,
    /// Why the host cannot be observed or the profile not be used.
    pub(super) unusable: Option<String>,
    /// Work under way: the status of the last observation does not count meanwhile.
    pub(super) work: Option<Work>,
    /// Since when the profile that was enforced is gone.
    profile_gone: Option<Instant>,
    /// [`fingerprint`] at the last observation.
    fingerprint: u64,
    pub(super) devices: KnownDevices,
    pub(super) logged: LogState,
}

impl Knowledge {
    /// Before the first observation.
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

    /// The status as everybody may see it now.
    pub(super) fn shown(&self) -> Status {
        match &self.work {
            Some(work) => self.status.working_on(work),
            None => self.status.clone(),
        }
    }

    /// The plan of the last observation as JSON, or nothing.
    pub(super) fn plan(&self) -> String {
        let plan = self.observation.as_ref().map(|observation| observation.plan_json.clone());
        plan.unwrap_or_default()
    }

    /// # Errors
    /// Why the host cannot be observed, or has no profile that can be used.
    pub(super) fn expect_usable(&self) -> Result<(), String> {
        self.unusable.clone().map_or(Ok(()), Err)
    }

    /// Whether decisions may rest on the last observation: not on a profile that may be gone.
    pub(super) fn is_current(&self) -> bool {
        self.unusable.is_none() && self.profile_gone.is_none()
    }

    /// Seconds between re-checks, by the profile.
    pub(super) fn interval_s(&self) -> u32 {
        self.observation.as_ref().map_or(INTERVAL_S, |observation| observation.agent.interval_s)
    }

    /// Something is under way from now on.
    pub(super) fn begin(&mut self, what: &str) {
        self.work = Some(Work { what: what.to_owned(), since: Timestamp::now() });
    }

    /// Renews the status: it counts for two intervals from now on.
    pub(super) fn beat(&mut self) {
        let now = Timestamp::now();
        self.status.heartbeat = Some(now);
        self.status.fresh_until =
            now.checked_add(SignedDuration::from_secs(2 * i64::from(self.interval_s()))).ok();
    }

    fn signs(&self) -> u64 {
        let watch = self.observation.as_ref().map(|observation| &observation.watch);
        fingerprint::fingerprint(&self.root, watch)
    }

    /// Whether something may have changed since the last observation.
    pub(super) fn has_signs_of_change(&self) -> bool {
        self.signs() != self.fingerprint
    }

    /// Reads whether an operator holds enforcement; logs a change of that.
    pub(super) fn is_enforcement_held(&mut self) -> bool {
        let held = EnforceHold::load(&self.root);
        log_changes::enforce_hold(self.status.held.as_ref(), held.as_ref());
        self.status.held = held;
        self.status.held.is_some()
    }

    /// Whether an observation beside the loop is not what is shown. `None`: the host could not be observed.
    pub(super) fn is_news(&self, seen: Option<&Observation>) -> bool {
        match (seen, &self.observation) {
            (Some(seen), Some(known)) => {
                self.unusable.is_some()
                    || seen.plan_json != known.plan_json
                    || !checks::are_no_news(seen.checks.as_deref(), known.checks.as_deref())
            }
            (Some(_), None) => true,
            // The loop finds the reason, and logs it once.
            (None, _) => self.unusable.is_none(),
        }
    }

    /// Takes an observation over, and logs what differs from the one before, which is returned.
    pub(super) fn take(
        &mut self,
        observation: Observation,
        backoff: &Backoff,
    ) -> Option<Observation> {
        (self.unusable, self.profile_gone) = (None, None);
        let was = self.status.is_as_the_profile_says();
        self.status.failed = backoff.failed(&observation.changes);
        self.status.take(&observation, backoff.contested());
        self.logged.differences(&observation);
        self.logged.blockers(&observation);
        self.logged.need(observation.need, &self.status.reason);
        self.logged.unknowns(&observation);
        self.logged.checks(&observation);
        if self.status.is_as_the_profile_says() {
            self.status.last_converged = Some(Timestamp::now());
            if !was {
                let text = format!("this host is what profile {} says", observation.profile);
                log_message(journal::CONVERGED, &text);
            }
        }
        let before = self.observation.replace(observation);
        self.fingerprint = self.signs();
        self.beat();
        before
    }

    /// Updates state, verdict and reason after a decision about the reboot.
    pub(super) fn update_verdict(&mut self) {
        let Some(observation) = &self.observation else { return };
        self.status.update_verdict(observation.failure());
        if self.status.state == State::Stuck
            && let Some(cause) = &observation.cause
        {
            self.status.reason = format!("{}: {}", self.status.reason, cause.describe());
        }
    }

    /// Whether the reboot waits for logind to answer.
    pub(super) fn waits_for_logind(&self) -> bool {
        match &self.status.reboot.state {
            RebootState::Waiting { why, .. } => {
                why.iter().any(|reason| reason.waits_for == WaitsFor::Logind)
            }
            _ => false,
        }
    }

    /// Whether a file that the profile in force was read from is gone, and others stand in for it only until it is back: the
    /// profiles of a fleet, say, or the same profile without a layer.
    pub(super) fn old_profile_may_come_back(&mut self, seen: &Observation) -> bool {
        let mut before = self.observation.iter().flat_map(|observation| &observation.profile_files);
        before.any(|file| !seen.profile_files.contains(file)) && self.profile_may_come_back()
    }

    /// The same, where the host could not be observed.
    pub(super) fn old_profile_is_gone(&mut self) -> bool {
        !self.gone_files().is_empty() && self.profile_may_come_back()
    }

    /// The same, where the operator's profile is missing: `false` also where none was in force.
    pub(super) fn lost_profile_may_come_back(&mut self) -> bool {
        let enforced = self.observation.is_some() && self.status.state != State::NoProfile;
        enforced && self.profile_may_come_back()
    }

    fn profile_may_come_back(&mut self) -> bool {
        self.profile_gone.get_or_insert_with(Instant::now).elapsed() < PROFILE_QUIET
    }

    /// End of the wait for a profile that is gone, and a text for the meantime.
    pub(super) fn wait_for_profile(&self) -> (Option<Instant>, String) {
        let text = match self.gone_files().as_slice() {
            // It is back already, and is read at once.
            [] => "the profile is being replaced: waiting for it to come back".to_owned(),
            [file] => format!("{file} is gone: waiting for it to come back"),
            [file, more @ ..] => {
                format!("{file} and {} more are gone: waiting for them to come back", more.len())
            }
        };
        (self.profile_gone.map(|gone| gone + PROFILE_QUIET), text)
    }

    /// The files of the profile in force that are not there now.
    fn gone_files(&self) -> Vec<&str> {
        let files = self.observation.iter().flat_map(|observation| &observation.profile_files);
        let gone = |file: &&String| !under(&self.root, file).exists();
        files.filter(gone).map(String::as_str).collect()
    }
}
