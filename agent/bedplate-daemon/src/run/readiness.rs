//! Timer for observing a host again that only failed checks keep from being ready. The first wait is short: an InfiniBand
//! port that gets its link after the boot causes no event, and a boot may wait for it.

use std::time::{Duration, Instant};

use crate::checks::{self, Checked};
use crate::status::{State, Status};

/// First wait. Each further one is twice as long, until the re-check is as frequent.
const FIRST: Duration = Duration::from_secs(15);

/// Time of the next such observation.
#[derive(Debug, Default)]
pub(super) struct ReobserveTimer {
    next: Option<(Instant, Duration)>,
    /// Last results; a change of them restarts the timer.
    found: Option<Vec<Checked>>,
}

impl ReobserveTimer {
    pub(super) fn at(&self) -> Option<Instant> {
        self.next.map(|(at, _)| at)
    }

    /// Updates the timer after an observation of the loop.
    pub(super) fn note_status(&mut self, status: &Status) {
        let checks = status.checks.as_deref();
        let keeps = |check: &Checked| check.fails() || check.is_inconclusive();
        let keeps = checks.is_some_and(|checks| checks.iter().any(keeps));
        self.note(checks, status.state == State::Converged && keeps, Instant::now());
    }

    /// Records the results. `keeps`: they keep the host from being ready.
    fn note(&mut self, found: Option<&[Checked]>, keeps: bool, now: Instant) {
        let same = checks::are_no_news(found, self.found.as_deref());
        if !keeps {
            self.next = None;
        } else if !same {
            self.next = Some((now + FIRST, FIRST));
        }
        if !same {
            self.found = found.map(<[Checked]>::to_vec);
        }
    }

    /// Whether an observation is due; if so, schedules the next one. Re-checks happen every `interval` anyway.
    pub(super) fn is_due(&mut self, now: Instant, interval: Duration) -> bool {
        let Some((_, wait)) = self.next.filter(|(at, _)| *at <= now) else { return false };
        let longer = wait * 2;
        self.next = (longer < interval).then(|| (now + longer, longer));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_base::Recovery;
    use bedplate_core::verify::{Severity, Verdict as Outcome};

    fn failing(text: &str) -> Vec<Checked> {
        let (id, severity) = ("rdma.port-state".to_owned(), Severity::Fail);
        let (text, recovery) = (text.into(), Recovery::None);
        vec![Checked { id, outcome: Outcome::Fail, severity, text, fix: None, recovery }]
    }

    #[test]
    fn failed_checks_are_reobserved_at_growing_intervals() {
        let (mut again, born) = (ReobserveTimer::default(), Instant::now());
        let interval = Duration::from_secs(300);
        again.note(Some(&failing("down")), true, born);
        let mut looks = Vec::new();
        while let Some(at) = again.at() {
            assert!(!again.is_due(at - Duration::from_millis(1), interval));
            assert!(again.is_due(at, interval));
            looks.push((at - born).as_secs());
            // Unchanged.
            again.note(Some(&failing("down")), true, at);
        }
        assert_eq!(looks, [15, 45, 105, 225, 465]);
        // Another check fails: soon again.
        again.note(Some(&failing("another is down")), true, born);
        assert_eq!(again.at(), Some(born + FIRST));
        again.note(Some(&[]), false, born);
        assert_eq!(again.at(), None);
        again.note(Some(&failing("down")), true, born);
        assert_eq!(again.at(), Some(born + FIRST));
    }
}
