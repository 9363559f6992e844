//! Events come in bursts: a driver that is loaded, an update of packages, a device that resets again and again. One burst
//! is worth one observation. Time is an argument.

use std::time::{Duration, Instant};

use super::events::Trigger;
use super::logind;

/// Quiet that ends a burst.
const QUIET: Duration = Duration::from_millis(200);
/// The longest burst that is waited for. One that goes on after that costs an observation and then gets twice the time, so that a
/// machine in which events never end is not looked at all the time.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(32);

/// What is gathered, and for how long.
#[derive(Debug)]
pub(crate) struct Debounce {
    limit: Duration,
    under_way: Option<Batch>,
}

/// Events that came one after the other.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The first one, for a log.
    pub first: String,
    /// How many.
    pub count: u32,
    /// Whether the profile may have changed.
    pub profile: bool,
    /// Whether anything but logind's schedule has changed.
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
    /// Adds an event to the burst that is under way, or begins one.
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

    /// Whether a burst is under way that may have changed the host.
    pub(crate) fn is_of_the_host(&self) -> bool {
        self.under_way.as_ref().is_some_and(|batch| batch.other)
    }

    /// When the burst that is under way will be over, as far as is known now.
    pub(crate) fn ends(&self) -> Option<Instant> {
        self.under_way.as_ref().map(|batch| batch.quiet.min(batch.end))
    }

    /// Takes the burst if it is over.
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

    /// An event every 10 ms for five minutes: an observation after 1, 2, 4 … 32, 32 seconds; then quiet, and 1 again.
    #[test]
    fn events_without_end_cost_ever_fewer_looks() {
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
