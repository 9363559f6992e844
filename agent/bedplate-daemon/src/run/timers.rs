//! Timers: re-checks, retries, the heartbeat, the daily reminder.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use super::Daemon;
use super::readiness::ReobserveTimer;
use crate::journal::{self, log_message};
use crate::reminder::Reminder;

/// Times at which the loop wakes up without an event.
pub(super) struct Timers {
    /// When the daemon started.
    born: Instant,
    /// Next observation after a failure, a conflict, or a missing profile.
    pub(super) retry: Option<Instant>,
    /// Next decision about the reboot.
    pub(super) decide_again: Option<Instant>,
    /// Next check for changes that no event reported.
    pub(super) recheck: Instant,
    /// Next observation of a host that only checks keep from being ready.
    pub(super) reobserve: ReobserveTimer,
    pub(super) reminder: Reminder,
}

impl Timers {
    /// `remind_every`: interval between reminders of a reboot that operators must do.
    pub(super) fn new(remind_every: Duration) -> Self {
        let born = Instant::now();
        Timers {
            born,
            retry: None,
            decide_again: None,
            recheck: born,
            reobserve: ReobserveTimer::default(),
            reminder: Reminder::new(remind_every),
        }
    }

    /// Returns the time since the daemon started: the clock of [`Backoff`](crate::backoff::Backoff).
    pub(super) fn age(&self) -> Duration {
        self.born.elapsed()
    }

    /// Sets the retry to this age of the daemon.
    pub(super) fn retry_at_age(&mut self, age: Option<Duration>) {
        self.retry = age.map(|age| self.born + age);
    }

    /// Moves the retry forward to this age of the daemon, if it is not earlier already.
    pub(super) fn retry_by_age(&mut self, age: Option<Duration>) {
        self.retry = self.retry.into_iter().chain(age.map(|age| self.born + age)).min();
    }

    /// Returns the earliest of these times and of `others`.
    fn next(&self, others: [Option<Instant>; 3]) -> Instant {
        let own = [self.retry, self.decide_again, self.reobserve.at()];
        own.into_iter().chain(others).flatten().fold(self.recheck, Instant::min)
    }

    /// Returns the time until the next re-check: `seconds`, the profile's interval, plus or minus a tenth, so that a fleet
    /// started at once spreads out.
    fn interval(&self, boot_id: &str, seconds: u32) -> Duration {
        let seconds = u64::from(seconds);
        let mut hasher = DefaultHasher::new();
        (boot_id, self.born.elapsed().as_secs()).hash(&mut hasher);
        Duration::from_secs(seconds * 9 / 10)
            + Duration::from_millis(hasher.finish() % (seconds * 200).max(1))
    }
}

impl Daemon {
    /// Logs once a day that a manual reboot is still due.
    pub(super) fn remind(&mut self) {
        let Some(observation) = &self.known.observation else { return };
        let settings = &observation.reboot;
        let due = self.timers.reminder.due(&self.known.status, settings, Instant::now());
        if let Some(text) = due {
            log_message(journal::REBOOT_MANUAL, &text);
        }
    }

    /// Returns when the loop must wake up without an event.
    pub(super) fn wake(&self) -> Instant {
        let burst = self.watches.burst.ends();
        self.timers.next([burst, self.bus.retry_at(), self.exports.retry_at()])
    }

    pub(super) async fn due(&mut self) {
        self.connect_again().await;
        self.debounced().await;
        let now = Instant::now();
        if self.timers.retry.take_if(|at| *at <= now).is_some() {
            return self.observe_now().await;
        }
        if self.timers.recheck <= now {
            self.timers.recheck = now + self.interval();
            // An observation reads config space; without an indication of a change it is not needed.
            if self.known.has_signs_of_change() {
                return self.observe_now().await;
            }
            self.known.beat();
            let is_judged = self.known.status.checks.is_some();
            if !is_judged {
                // Only settings count, and none has a sign of a change.
                self.known.note_evaluated();
            }
            self.publish().await;
            // Most changes of error counters, kernel log and InfiniBand ports, which checks read, cause no event. The status
            // stays valid until such an observation finds a difference.
            if is_judged {
                self.observe_in_background();
            }
        }
        if self.timers.reobserve.is_due(now, self.interval()) {
            self.observe_in_background();
        }
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(self.timers.decide_again) {
            return self.decide().await;
        }
        if is_due(self.exports.retry_at()) {
            self.publish().await;
        }
    }

    /// Returns the time until the next re-check.
    pub(super) fn interval(&self) -> Duration {
        self.timers.interval(&self.known.status.boot_id, self.known.interval_s())
    }
}
