//! Retry policy for changes. A failed change is retried at growing intervals. A change that another program or an
//! operator reverts three times is left alone until its value has not changed for an hour. Pure; time is an argument,
//! read from a monotonic clock.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::observation::{ChangeKey, ChangeResult, Difference, PlannedChange};
use bedplate_core::plan::Item;

/// First wait after a failure.
const FIRST_WAIT: Duration = Duration::from_secs(5);
/// Longest wait after failures.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);
/// Number of external reverts that turn a change into a conflict.
const TAKEN_BACK: u32 = 3;
/// Only reverts within this window count, so a daily device reset is not a conflict.
const MEMORY: Duration = Duration::from_secs(10 * 60);

/// Quiet period: a conflict is retried once its value has not changed for this long. It doubles with each further
/// conflict in a row.
const QUIET: Duration = Duration::from_secs(60 * 60);
/// Longest quiet period.
const LONGEST_QUIET: Duration = Duration::from_secs(24 * 60 * 60);

/// Fix for a conflict, shown to operators.
pub const CLEARS: &str =
    "`bedplate reconcile` retries now; bedplate retries after an hour without another change";

/// Retry state of each change.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    changes: BTreeMap<ChangeKey, Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    /// bedplate has applied it since the daemon started.
    done: bool,
    /// Times of recent external reverts.
    taken_back: Vec<Duration>,
    /// Failures in a row, and the time of the last one.
    failures: u32,
    failed_at: Duration,
    failed: Option<FailedChange>,
    conflict: Option<Conflict>,
    /// Time of the last change of the conflicting value. `seen` is `None` if it matched the profile at the last
    /// observation.
    quiet_since: Duration,
    seen: Option<String>,
    /// Conflicts in a row, and the time of the last retry after one.
    conflicts_in_a_row: u32,
    tried_again: Option<Duration>,
}

/// A change that failed and will be retried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedChange {
    /// Masked id of the change.
    pub id: String,
    /// Human-readable subject.
    pub subject: String,
    /// Reason of the last failure.
    pub why: String,
    /// Failures in a row.
    pub times: u32,
}

/// A change that something else keeps reverting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// Masked id of the change.
    pub id: String,
    /// Values last found there, human-readable.
    pub found: String,
    /// Number of reverts.
    pub times: u32,
}

/// Result of `Backoff::admit`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Admission {
    /// Changes to apply now.
    pub now: Vec<ChangeKey>,
    /// Earliest time at which a waiting change may be retried.
    pub next: Option<Duration>,
    /// Changes that this observation turned into conflicts.
    pub conflicts: Vec<Conflict>,
}

impl Backoff {
    /// Decides which of the differences may be applied at `now` (a reading of a monotonic clock).
    pub(crate) fn admit(&mut self, found: &[PlannedChange], now: Duration) -> Admission {
        let mut admitted = self.release_converged(found, now);
        for change in found {
            let memory = self.changes.entry(change.key.clone()).or_default();
            if let Some(until) = memory.left_until(Some(seen(&change.shown)), now) {
                admitted.wait(until);
                continue;
            }
            if memory.done {
                memory.done = false;
                if let Some(conflict) = memory.note_reverted(&change.shown, now) {
                    admitted.conflicts.push(conflict);
                    admitted.wait(now + memory.quiet_period());
                    continue;
                }
            }
            match memory.wait().map(|wait| memory.failed_at + wait) {
                Some(until) if until > now => admitted.wait(until),
                _ => admitted.now.push(change.key.clone()),
            }
        }
        admitted
    }

    /// Updates conflicting changes that match the profile at this observation. One that has matched for the quiet
    /// period is no longer a conflict.
    fn release_converged(&mut self, found: &[PlannedChange], now: Duration) -> Admission {
        let mut admitted = Admission::default();
        for (key, memory) in &mut self.changes {
            if !found.iter().any(|change| change.key == *key)
                && let Some(until) = memory.left_until(None, now)
            {
                admitted.wait(until);
            }
        }
        admitted
    }

    /// Records the results of applied changes. Returns when a failed one may be retried.
    pub(crate) fn note(&mut self, done: &[ChangeResult], now: Duration) -> Option<Duration> {
        let mut next: Option<Duration> = None;
        for done in done {
            let memory = self.changes.entry(done.change.key.clone()).or_default();
            match &done.failure {
                None => {
                    memory.done = true;
                    memory.failures = 0;
                    memory.failed = None;
                }
                Some(why) => {
                    memory.failures = memory.failures.saturating_add(1);
                    memory.failed = Some(FailedChange {
                        id: done.change.shown.id.clone(),
                        subject: done.change.shown.subject.clone(),
                        why: why.clone(),
                        times: memory.failures,
                    });
                    memory.failed_at = now;
                    let until = memory.wait().map(|wait| now + wait);
                    next = next.into_iter().chain(until).min();
                }
            }
        }
        next
    }

    /// Returns all conflicts, sorted by id.
    pub(crate) fn conflicts(&self) -> Vec<Conflict> {
        let conflicts = self.changes.values().filter_map(|memory| memory.conflict.clone());
        let mut conflicts: Vec<Conflict> = conflicts.collect();
        conflicts.sort_by(|one, other| one.id.cmp(&other.id));
        conflicts
    }

    /// Whether any change is a conflict. An observation then matters even if nothing differs.
    pub(crate) fn has_conflicts(&self) -> bool {
        self.changes.values().any(|memory| memory.conflict.is_some())
    }

    /// Returns those of the differences whose last attempt failed.
    pub(crate) fn failed(&self, found: &[PlannedChange]) -> Vec<FailedChange> {
        let of = |change: &PlannedChange| self.changes.get(&change.key)?.failed.clone();
        found.iter().filter_map(of).collect()
    }

    /// Clears all state: an operator requested a retry, or the profile was replaced.
    pub(crate) fn forget(&mut self) {
        self.changes.clear();
    }
}

impl Admission {
    fn wait(&mut self, until: Duration) {
        self.next = Some(self.next.map_or(until, |next| next.min(until)));
    }
}

impl Memory {
    /// Returns how long the value must stay unchanged before the conflicting change is retried.
    fn quiet_period(&self) -> Duration {
        QUIET
            .saturating_mul(1 << self.conflicts_in_a_row.saturating_sub(1).min(8))
            .min(LONGEST_QUIET)
    }

    /// Returns until when a conflict is left alone; `None` if it may be applied. `seen` is the current value. Any
    /// change of the value, even to the profile's value, restarts the quiet period.
    fn left_until(&mut self, seen: Option<String>, now: Duration) -> Option<Duration> {
        let conflict = self.conflict.as_mut()?;
        if self.seen != seen {
            self.quiet_since = now;
            if let Some(seen) = &seen {
                conflict.found.clone_from(seen);
            }
            self.seen = seen;
        }
        let until = self.quiet_since + self.quiet_period();
        if now < until {
            return Some(until);
        }
        self.conflict = None;
        self.taken_back.clear();
        self.tried_again = Some(now);
        None
    }

    /// Records that an applied change differs again. A revert soon after the retry of a conflict
    /// makes it a conflict at once.
    fn note_reverted(&mut self, difference: &Difference, now: Duration) -> Option<Conflict> {
        self.taken_back.retain(|at| now.saturating_sub(*at) < MEMORY);
        self.taken_back.push(now);
        let again = self
            .tried_again
            .take()
            .is_some_and(|tried| now.saturating_sub(tried) < self.quiet_period());
        let times = u32::try_from(self.taken_back.len()).unwrap_or(u32::MAX);
        if times < TAKEN_BACK && !again {
            self.conflicts_in_a_row = 0;
            return None;
        }
        self.conflicts_in_a_row = self.conflicts_in_a_row.saturating_add(1);
        let found = seen(difference);
        (self.quiet_since, self.seen) = (now, Some(found.clone()));
        let conflict = Conflict { id: difference.id.clone(), found, times };
        self.conflict = Some(conflict.clone());
        Some(conflict)
    }

    fn wait(&self) -> Option<Duration> {
        let doubled = self.failures.checked_sub(1)?;
        Some(FIRST_WAIT.saturating_mul(1 << doubled.min(16)).min(LONGEST_WAIT))
    }
}

fn seen(difference: &Difference) -> String {
    let one = |value: &Item| {
        format!("{}: {}", value.subject, value.before.as_deref().unwrap_or("absent"))
    };
    difference.items.iter().map(one).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
