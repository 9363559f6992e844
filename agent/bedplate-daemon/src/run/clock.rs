//! What the loop does by the clock: re-checks, retries, the heartbeat, the daily reminder.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use super::Daemon;
use crate::fingerprint;
use crate::journal::{self, log_message};

impl Daemon {
    /// Once a day, by the re-checks: a reboot that is left to people is still due.
    pub(super) fn remind(&mut self) {
        let Some(observation) = &self.observation else { return };
        if let Some(text) = self.reminder.due(&self.status, &observation.reboot, Instant::now()) {
            log_message(journal::REBOOT_LEFT_TO_PEOPLE, &text);
        }
    }

    /// When the loop comes around although nothing happens.
    pub(super) fn wake(&self) -> Instant {
        [
            self.retry,
            self.decide_again,
            self.debounce.ends(),
            self.bus_again.map(|(at, _)| at),
            self.unmarked.as_ref().map(|unmarked| unmarked.until),
            self.observer.again.at(),
        ]
        .into_iter()
        .flatten()
        .fold(self.recheck, Instant::min)
    }

    pub(super) async fn due(&mut self) {
        self.connect_again().await;
        self.debounced().await;
        let now = Instant::now();
        if self.retry.is_some_and(|at| at <= now) {
            self.retry = None;
            self.working_on("observing the host").await;
            return self.observe().await;
        }
        if self.recheck <= now {
            self.recheck = now + self.interval();
            // An observation reads config space; without any sign of a change there is no need.
            if fingerprint::fingerprint(
                &self.options.root,
                self.observation.as_ref().map(|observation| &observation.watch),
            ) != self.seen
            {
                self.working_on("observing the host").await;
                return self.observe().await;
            }
            self.beat();
            self.publish().await;
            // What checks look at gives no sign of most of its changes: counters of errors, the kernel's log, ports of
            // InfiniBand. Nothing is known to have happened: what was said counts until such an observation finds something else.
            if self.status.checks.is_some() {
                self.observe_in_background();
            }
        }
        self.judge_if_due(now);
        if self.decide_again.is_some_and(|at| at <= now) {
            return self.decide().await;
        }
        if self.unmarked.as_ref().is_some_and(|unmarked| unmarked.until <= now) {
            self.publish().await;
        }
    }

    /// What is said counts from now on for two intervals.
    pub(super) fn beat(&mut self) {
        let now = Timestamp::now();
        let seconds =
            self.observation.as_ref().map_or(900, |observation| observation.agent.interval_s);
        self.status.heartbeat = Some(now);
        self.status.fresh_until =
            now.checked_add(SignedDuration::from_secs(2 * i64::from(seconds))).ok();
    }

    /// The time between re-checks, a tenth more or less, so that a fleet started at once spreads out.
    pub(super) fn interval(&self) -> Duration {
        let seconds = u64::from(
            self.observation.as_ref().map_or(900, |observation| observation.agent.interval_s),
        );
        let mut hasher = DefaultHasher::new();
        (self.status.boot_id.as_str(), self.born.elapsed().as_secs()).hash(&mut hasher);
        Duration::from_secs(seconds * 9 / 10)
            + Duration::from_millis(hasher.finish() % (seconds * 200).max(1))
    }
}
