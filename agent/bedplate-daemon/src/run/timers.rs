//! Work by the clock: re-checks, retries, the heartbeat, the daily reminder.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use super::Daemon;
use super::readiness::ReobserveTimer;
use crate::journal::{self, log_message};
use crate::reminder::Reminder;

/// When the loop comes around although nothing happens.
pub(super) struct Timers {
    /// When the daemon started.
    born: Instant,
    /// When to observe again, since something failed, is contested, or was missing.
    pub(super) retry: Option<Instant>,
    /// When to decide about the reboot again.
    pub(super) decide_again: Option<Instant>,
    /// When to look for signs of changes that no event has told of.
    pub(super) recheck: Instant,
    /// When to observe a host again that only checks keep from being ready.
    pub(super) reobserve: ReobserveTimer,
    pub(super) reminder: Reminder,
}

impl Timers {
    /// `remind_every`: time between two reminders of a reboot that operators have to do.
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

    /// Time since the daemon started: the clock of [`Backoff`](crate::backoff::Backoff).
    pub(super) fn age(&self) -> Duration {
        self.born.elapsed()
    }

    /// Retries at this age of the daemon.
    pub(super) fn retry_at_age(&mut self, age: Option<Duration>) {
        self.retry = age.map(|age| self.born + age);
    }

    /// Retries at this age of the daemon, if not earlier.
    pub(super) fn retry_by_age(&mut self, age: Option<Duration>) {
        self.retry = self.retry.into_iter().chain(age.map(|age| self.born + age)).min();
    }

    /// The first of these times and of `others`.
    fn next(&self, others: [Option<Instant>; 3]) -> Instant {
        let own = [self.retry, self.decide_again, self.reobserve.at()];
        own.into_iter().chain(others).flatten().fold(self.recheck, Instant::min)
    }

    /// The time between re-checks, a tenth more or less, so that a fleet started at once spreads out. `seconds`: the
    /// profile's interval.
    fn interval(&self, boot_id: &str, seconds: u32) -> Duration {
        let seconds = u64::from(seconds);
        let mut hasher = DefaultHasher::new();
        (boot_id, self.born.elapsed().as_secs()).hash(&mut hasher);
        Duration::from_secs(seconds * 9 / 10)
            + Duration::from_millis(hasher.finish() % (seconds * 200).max(1))
    }
}

impl Daemon {
    /// Logs once a day, by the re-checks, that a reboot by operators is still due.
    pub(super) fn remind(&mut self) {
        let Some(observation) = &self.known.observation else { return };
        let settings = &observation.reboot;
        let due = self.timers.reminder.due(&self.known.status, settings, Instant::now());
        if let Some(text) = due {
            log_message(journal::REBOOT_LEFT_TO_PEOPLE, &text);
        }
    }

    /// When the loop comes around although nothing happens.
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
            // An observation reads config space; without any sign of a change there is no need.
            if self.known.has_signs_of_change() {
                return self.observe_now().await;
            }
            self.known.beat();
            self.publish().await;
            // Counters of errors, the kernel's log and ports of InfiniBand, which checks read, give no sign of most changes.
            // Nothing is known to have happened: the status counts until such an observation finds something else.
            if self.known.status.checks.is_some() {
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

    /// The time between re-checks.
    pub(super) fn interval(&self) -> Duration {
        self.timers.interval(&self.known.status.boot_id, self.known.interval_s())
    }
}
