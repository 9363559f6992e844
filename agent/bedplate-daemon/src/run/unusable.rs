//! A host that cannot be held against a profile: nothing is enforced, and what was decided before does not act.

use std::time::{Duration, Instant};

use super::Daemon;
use crate::journal::{self, Message, log_message};
use crate::status::Status;

/// A profile that cannot be used is tried again by itself, for what was missing may have come.
const TRY_AGAIN: Duration = Duration::from_secs(60);

impl Daemon {
    /// The operator's profile is not there. Nothing is enforced on a guess; what was decided before does not act either.
    pub(super) async fn without_profile(&mut self, why: String) {
        match self.known.lost_profile_may_come_back() {
            true => self.wait_for_profile().await,
            false => self.unusable(why, journal::NO_PROFILE, Status::without_profile).await,
        }
    }

    /// Nothing is done until the quiet seconds are over.
    pub(super) async fn wait_for_profile(&mut self) {
        let (until, text) = self.known.wait_for_profile();
        (self.timers.retry, self.timers.decide_again) = (until, None);
        self.working_on(&text).await;
    }

    /// Cancels a reboot, shows why by `update`, and tries again later.
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
        self.known.beat();
        self.publish().await;
    }
}
