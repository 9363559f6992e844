//! Handling of a host without a usable profile: nothing is enforced, and earlier decisions are not carried out.

use std::time::{Duration, Instant};

use super::Daemon;
use crate::journal::{self, Message, log_message};
use crate::status::Status;

/// Retry interval for an unusable profile: a missing part may have been added.
const TRY_AGAIN: Duration = Duration::from_secs(60);

impl Daemon {
    /// Handles a missing operator's profile. Nothing is enforced by a guess, and earlier decisions are not carried out.
    pub(super) async fn without_profile(&mut self, why: String) {
        match self.known.lost_profile_may_come_back() {
            true => self.wait_for_profile().await,
            false => self.unusable(why, journal::NO_PROFILE, Status::without_profile).await,
        }
    }

    /// Suspends all work until the wait for the profile ends.
    pub(super) async fn wait_for_profile(&mut self) {
        let (until, text) = self.known.wait_for_profile();
        (self.timers.retry, self.timers.decide_again) = (until, None);
        self.working_on(&text).await;
    }

    /// Cancels a reboot, publishes the reason with `update`, and schedules a retry.
    pub(super) async fn unusable(
        &mut self,
        why: String,
        message: Message,
        update: fn(&mut Status, String),
    ) {
        if self.known.unusable.as_ref() != Some(&why) {
            log_message(message, &why);
        }
        self.reboot.cancel_unverified(&mut self.known.status, &why).await;
        update(&mut self.known.status, why.clone());
        self.known.unusable = Some(why);
        self.timers.retry = Some(Instant::now() + TRY_AGAIN);
        self.timers.decide_again = None;
        self.watches.set_own();
        self.known.note_evaluated();
        self.known.beat();
        self.publish().await;
    }
}
