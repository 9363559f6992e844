//! A host that cannot be held against a profile: nothing is enforced, and what was decided before does not act.

use std::time::{Duration, Instant};

use super::Daemon;
use crate::journal::{self, log_message};
use crate::observation::Observation;
use crate::status::State;

/// A profile that cannot be used is tried again by itself, for what was missing may have come.
const TRY_AGAIN: Duration = Duration::from_secs(60);
/// A profile that is gone for a shorter time than this is being replaced, by a tool that removes the old file first.
const PROFILE_QUIET: Duration = Duration::from_secs(2);

impl Daemon {
    /// The operator's profile is not there. Nothing is enforced on a guess; what was decided before does not act either.
    pub(super) async fn without_profile(&mut self, why: String) {
        let enforced = self.observation.is_some() && self.status.state != State::NoProfile;
        if enforced && self.profile_may_come_back() {
            return self.wait_for_profile().await;
        }
        if self.unusable.as_ref() != Some(&why) {
            log_message(journal::NO_PROFILE, &why);
        }
        self.reboot.cancel_unverified(&mut self.status, &why).await;
        self.status.without_profile(why.clone());
        self.unusable(why).await;
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

    fn profile_may_come_back(&mut self) -> bool {
        self.profile_gone.get_or_insert_with(Instant::now).elapsed() < PROFILE_QUIET
    }

    /// Nothing is done until the quiet seconds are over.
    pub(super) async fn wait_for_profile(&mut self) {
        self.retry = self.profile_gone.map(|gone| gone + PROFILE_QUIET);
        self.decide_again = None;
        let gone = match self.gone_files().as_slice() {
            // It is back already, and is read at once.
            [] => "the profile is being replaced: waiting for it to come back".to_owned(),
            [file] => format!("{file} is gone: waiting for it to come back"),
            [file, more @ ..] => {
                format!("{file} and {} more are gone: waiting for them to come back", more.len())
            }
        };
        self.working_on(&gone).await;
    }

    /// The files of the profile in force that are not there now.
    fn gone_files(&self) -> Vec<&str> {
        let files = self.observation.iter().flat_map(|observation| &observation.profile_files);
        let gone = |file: &&String| !self.options.root.join(file.trim_start_matches('/')).exists();
        files.filter(gone).map(String::as_str).collect()
    }

    pub(super) async fn unusable(&mut self, why: String) {
        self.unusable = Some(why);
        self.retry = Some(Instant::now() + TRY_AGAIN);
        self.decide_again = None;
        self.watch_own_files();
        self.beat();
        self.publish().await;
    }
}
