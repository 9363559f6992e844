//! Debouncing of events. They arrive in bursts: a driver load, a package update, a device that keeps resetting. Each burst
//! leads to one observation. Time is an argument.

use std::time::{Duration, Instant};

use super::events::Trigger;
use super::logind;

/// Quiet time that ends a burst.
const QUIET: Duration = Duration::from_millis(200);
/// First time limit of a burst. A burst that exceeds its limit costs one observation and doubles the limit up to
/// [`LONGEST`], so that an endless stream of events does not cause constant observation.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(32);

/// The current burst, and its time limit.
#[derive(Debug)]
pub(crate) struct Debounce {
    limit: Duration,
    under_way: Option<Batch>,
}

/// A burst of events.
#[derive(Debug)]
pub(crate) struct Batch {
    /// First event, for the log.
    pub first: String,
    /// Number of events.
    pub count: u32,
    /// Whether the profile may have changed.
    pub profile: bool,
    /// Whether anything except logind's schedule has changed.
    pub other: bool,
    quiet: Instant,
    end: Instant,
}

impl Default for Debounce {
    fn default() -> Self {
        Debounce { limit: SHORTEST, under_way: None }
    }
}

impl Debounce {
    /// Adds an event to the current burst, or starts one.
    pub(crate) fn add(&mut self, trigger: &Trigger, now: Instant) {
        let batch = self.under_way.get_or_insert_with(|| Batch {
            first: trigger.what.clone(),
            count: 0,
            profile: false,
            other: false,
            quiet: now,
            end: now + self.limit,
        });
        batch.count += 1;
        batch.profile |= trigger.profile;
        batch.other |= trigger.what != logind::CHANGED;
        batch.quiet = now + QUIET;
    }

    /// Whether the current burst may have changed the host.
    pub(crate) fn is_of_the_host(&self) -> bool {
        self.under_way.as_ref().is_some_and(|batch| batch.other)
    }

    /// Returns when the current burst ends, as far as known now.
    pub(crate) fn ends(&self) -> Option<Instant> {
        self.under_way.as_ref().map(|batch| batch.quiet.min(batch.end))
    }

    /// Takes the burst if it has ended.
    pub(crate) fn over(&mut self, now: Instant) -> Option<Batch> {
        let batch = self.under_way.take_if(|batch| batch.quiet.min(batch.end) <= now)?;
        self.limit = if batch.quiet > now { (self.limit * 2).min(LONGEST) } else { SHORTEST };
        Some(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(what: &str) -> Trigger {
        Trigger { what: what.into(), profile: what == "profile" }
    }

    #[test]
    fn quiet_ends_a_burst() {
        let (mut debounce, begun) = (Debounce::default(), Instant::now());
        assert_eq!(debounce.ends(), None);
        debounce.add(&event(logind::CHANGED), begun);
        let almost = begun + QUIET - Duration::from_millis(1);
        assert!(debounce.over(almost).is_none());
        debounce.add(&event("profile"), almost);
        assert_eq!(debounce.ends(), Some(almost + QUIET));
        let batch = debounce.over(almost + QUIET).unwrap();
        assert_eq!((batch.count, batch.profile, batch.other), (2, true, true));
        assert_eq!((debounce.ends(), debounce.over(almost + QUIET).is_some()), (None, false));
        debounce.add(&event(logind::CHANGED), begun);
        assert!(!debounce.over(begun + QUIET).unwrap().other);
    }

    /// An event every 10 ms for five minutes: observations after 1, 2, 4 … 32, 32 seconds; then quiet, and 1 again.
    #[test]
    fn endless_events_cause_ever_fewer_observations() {
        let (mut debounce, begun) = (Debounce::default(), Instant::now());
        let mut looks = Vec::new();
        let mut last = begun;
        for tick in 0..30_000 {
            let now = begun + Duration::from_millis(tick * 10);
            debounce.add(&event("uevent"), now);
            if debounce.over(now).is_some() {
                looks.push((now - last).as_secs());
                last = now;
            }
        }
        assert_eq!(looks[..6], [1, 2, 4, 8, 16, 32]);
        assert!(looks[6..].iter().all(|wait| *wait == 32) && looks.len() == 13, "{looks:?}");
        let quiet = begun + Duration::from_secs(400);
        debounce.over(quiet).unwrap();
        debounce.add(&event("uevent"), quiet);
        assert_eq!(debounce.limit, SHORTEST);
    }
}
