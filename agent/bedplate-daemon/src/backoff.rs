//! What may be tried again, and when: a change that fails is tried ever more seldom, and one that another program or an
//! operator takes back three times is left alone until an hour has passed in which nobody touched it. Pure; time is an
//! argument (of a clock that no one sets).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::observation::{ChangeKey, ChangeResult, Difference, PlannedChange};
use bedplate_core::plan::Item;

/// First wait after a failure.
const FIRST_WAIT: Duration = Duration::from_secs(5);
/// Longest wait after failures.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);
/// So often something may be taken back by others before it is left to them.
const TAKEN_BACK: u32 = 3;
/// What was taken back longer ago does not count: a device reset once a day is no fight.
const MEMORY: Duration = Duration::from_secs(10 * 60);

/// After so long without the value changing again, what is contested is tried once more; after the second contest twice as
/// long, and so on.
const QUIET: Duration = Duration::from_secs(60 * 60);
/// The longest such time.
const LONGEST_QUIET: Duration = Duration::from_secs(24 * 60 * 60);

/// How something contested is cleared, for people.
pub const CLEARS: &str = "`bedplate reconcile` tries it now; bedplate tries it by itself after an hour without another change";

/// What is remembered of each change.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    changes: BTreeMap<ChangeKey, Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    /// bedplate has done it in this life.
    done: bool,
    /// When it was found undone after that, lately.
    taken_back: Vec<Duration>,
    /// Failures in a row, and when the last one was.
    failures: u32,
    failed_at: Duration,
    failed: Option<FailedChange>,
    contested: Option<Conflict>,
    /// Since when nobody has changed the contested value; `None` in its `seen`: it was right at the last observation.
    quiet_since: Duration,
    seen: Option<String>,
    /// Contests in a row, and when the last one was given another try.
    contests: u32,
    tried_again: Option<Duration>,
}

/// A change that failed and will be tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedChange {
    /// The change's id, masked.
    pub id: String,
    /// What it is about, for people.
    pub subject: String,
    /// Why the last try failed.
    pub why: String,
    /// Tries that failed, in a row.
    pub times: u32,
}

/// Something that others keep changing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// The change's id, masked.
    pub id: String,
    /// What was found there in its last state, for people.
    pub found: String,
    /// How often it was taken back.
    pub times: u32,
}

/// What is to be done about an observation of the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Admission {
    /// Changes to apply now.
    pub now: Vec<ChangeKey>,
    /// When the first of those that have to wait may be tried again.
    pub next: Option<Duration>,
    /// Those that became contested by this observation.
    pub contested: Vec<Conflict>,
}

impl Backoff {
    /// Which of the differences may be applied at `now` (a monotonic clock's reading).
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
                if let Some(contested) = memory.note_reverted(&change.shown, now) {
                    admitted.contested.push(contested);
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

    /// What is contested and right at this observation: once that has lasted, it is no longer contested.
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

    /// What became of those that were applied. Returns when a failed one may be tried again.
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

    /// Everything that is left to others, by id.
    pub(crate) fn contested(&self) -> Vec<Conflict> {
        let contested = self.changes.values().filter_map(|memory| memory.contested.clone());
        let mut contested: Vec<Conflict> = contested.collect();
        contested.sort_by(|one, other| one.id.cmp(&other.id));
        contested
    }

    /// Whether anything is left to others, so that an observation counts even where nothing differs.
    pub(crate) fn is_contested(&self) -> bool {
        self.changes.values().any(|memory| memory.contested.is_some())
    }

    /// Those of the differences whose last try failed.
    pub(crate) fn failed(&self, found: &[PlannedChange]) -> Vec<FailedChange> {
        let of = |change: &PlannedChange| self.changes.get(&change.key)?.failed.clone();
        found.iter().filter_map(of).collect()
    }

    /// Forgets everything: an operator asked for it, or the profile is another one.
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
    /// How long it has to be quiet before what is contested is tried once more.
    fn quiet_period(&self) -> Duration {
        QUIET.saturating_mul(1 << self.contests.saturating_sub(1).min(8)).min(LONGEST_QUIET)
    }

    /// Until when it is left to others, if it is; `seen` is what is there now. A value that has changed, to right too, is
    /// an operator at work: the quiet begins again.
    fn left_until(&mut self, seen: Option<String>, now: Duration) -> Option<Duration> {
        let contested = self.contested.as_mut()?;
        if self.seen != seen {
            self.quiet_since = now;
            if let Some(seen) = &seen {
                contested.found.clone_from(seen);
            }
            self.seen = seen;
        }
        let until = self.quiet_since + self.quiet_period();
        if now < until {
            return Some(until);
        }
        self.contested = None;
        self.taken_back.clear();
        self.tried_again = Some(now);
        None
    }

    /// It was done, and differs again. What is taken back once more after a contest is contested at once.
    fn note_reverted(&mut self, difference: &Difference, now: Duration) -> Option<Conflict> {
        self.taken_back.retain(|at| now.saturating_sub(*at) < MEMORY);
        self.taken_back.push(now);
        let again = self
            .tried_again
            .take()
            .is_some_and(|tried| now.saturating_sub(tried) < self.quiet_period());
        let times = u32::try_from(self.taken_back.len()).unwrap_or(u32::MAX);
        if times < TAKEN_BACK && !again {
            self.contests = 0;
            return None;
        }
        self.contests = self.contests.saturating_add(1);
        let found = seen(difference);
        (self.quiet_since, self.seen) = (now, Some(found.clone()));
        let contested = Conflict { id: difference.id.clone(), found, times };
        self.contested = Some(contested.clone());
        Some(contested)
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
