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
mod tests {
    use super::*;
    use bedplate_base::mask::mask_message;
    use bedplate_core::plan::{Effect, KindId};

    fn found(id: &str) -> PlannedChange {
        let value = Item {
            subject: "ACS control".into(),
            before: Some("001d".into()),
            after: None,
            why: Vec::new(),
        };
        let shown = Difference {
            id: id.into(),
            kind: KindId::Acs,
            subject: id.into(),
            effect: Effect::EveryBoot,
            live: true,
            modules: false,
            items: vec![value],
        };
        PlannedChange { key: ChangeKey::of(id), shown }
    }

    fn keys(ids: &[&str]) -> Vec<ChangeKey> {
        ids.iter().map(|id| ChangeKey::of(id)).collect()
    }

    fn done(id: &str) -> ChangeResult {
        ChangeResult { change: found(id), failure: None }
    }

    fn failed(id: &str) -> ChangeResult {
        ChangeResult { change: found(id), failure: Some("no".into()) }
    }

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_third_time_it_is_taken_back_it_is_left_alone() {
        let mut backoff = Backoff::default();
        for at in 0..3 {
            assert_eq!(backoff.admit(&[found("a")], s(at)).now, keys(&["a"]), "{at}");
            backoff.note(&[done("a")], s(at));
        }
        let last = backoff.admit(&[found("a"), found("b")], s(3));
        assert_eq!(last.now, keys(&["b"]));
        let contested = Conflict { id: "a".into(), found: "ACS control: 001d".into(), times: 3 };
        assert_eq!(
            (last.contested.as_slice(), backoff.contested().as_slice()),
            (&[contested.clone()][..], &[contested][..])
        );
        // Said once.
        let later = backoff.admit(&[found("a")], s(100));
        assert_eq!(later, Admission { next: Some(s(3603)), ..Admission::default() });
        backoff.forget();
        assert_eq!(backoff.admit(&[found("a")], s(101)).now, keys(&["a"]));
    }

    /// Contested at second 3.
    fn fought_over() -> Backoff {
        let mut backoff = Backoff::default();
        for at in 0..3 {
            backoff.admit(&[found("a")], s(at));
            backoff.note(&[done("a")], s(at));
        }
        assert_eq!(backoff.admit(&[found("a")], s(3)).contested.len(), 1);
        backoff
    }

    #[test]
    fn after_an_hour_of_quiet_it_is_tried_once_more() {
        let mut backoff = fought_over();
        let early = backoff.admit(&[found("a")], s(3602));
        assert_eq!((early.now.len(), early.next, backoff.contested().len()), (0, Some(s(3603)), 1));
        assert_eq!(backoff.admit(&[found("a")], s(3603)).now, keys(&["a"]));
        assert_eq!(backoff.contested(), []);
        backoff.note(&[done("a")], s(3603));
        // Taken back again: contested at once, and for longer.
        let again = backoff.admit(&[found("a")], s(3700));
        assert_eq!(
            (again.now.len(), again.contested.len(), again.next),
            (0, 1, Some(s(3700 + 7200)))
        );
        assert_eq!(backoff.admit(&[found("a")], s(3700 + 7200)).now, keys(&["a"]));
        backoff.note(&[done("a")], s(3700 + 7200));
        // It stayed for longer than that: this is another fight, which begins at the beginning.
        let later = s(3700 + 3 * 7200);
        assert_eq!(backoff.admit(&[found("a")], later).now, keys(&["a"]));
        assert_eq!(backoff.contested(), []);
    }

    #[test]
    fn whoever_touches_it_begins_the_quiet_again() {
        let mut other = found("a");
        other.shown.items[0].before = Some("0000".into());
        let mut backoff = fought_over();
        assert_eq!(backoff.admit(&[other.clone()], s(3000)).next, Some(s(6600)));
        assert!(backoff.contested()[0].found.contains("0000"), "what is there now");
        // Right, by another hand: that is a change too.
        assert_eq!(backoff.admit(&[], s(6000)).next, Some(s(9600)));
        assert!(backoff.is_contested());
        assert_eq!(backoff.admit(&[], s(9600)), Admission::default());
        assert!(!backoff.is_contested());
        // What differs after that is drift like any other.
        assert_eq!(backoff.admit(&[other], s(9700)).now, keys(&["a"]));
    }

    /// Masked, both ids are `cmdline/grubby --args=token=…`.
    #[test]
    fn changes_with_equal_masked_ids_are_kept_apart() {
        let change = |secret: &str| {
            let id = format!("cmdline/grubby --args=token={secret}");
            let shown = Difference { id: mask_message(&id), ..found("").shown };
            PlannedChange { key: ChangeKey::of(&id), shown }
        };
        let both = [change("one"), change("two")];
        assert_eq!(both[0].shown, both[1].shown);
        let mut backoff = Backoff::default();
        assert_eq!(backoff.admit(&both, s(0)).now.len(), 2);
        let failure = Some("no".to_owned());
        backoff.note(&[ChangeResult { change: both[0].clone(), failure }], s(0));
        backoff.note(&[ChangeResult { change: both[1].clone(), failure: None }], s(0));
        assert_eq!(backoff.admit(&both, s(1)).now, [both[1].key.clone()]);
        assert_eq!(backoff.failed(&both[1..]), []);
        assert!(!both[0].key.to_string().contains("one"));
    }

    #[test]
    fn the_last_failure_is_known_until_it_is_done() {
        let mut backoff = Backoff::default();
        backoff.note(&[failed("a")], s(0));
        backoff.note(&[failed("a")], s(5));
        let remembered = backoff.failed(&[found("b"), found("a")]);
        assert_eq!(
            (remembered.len(), remembered[0].why.as_str(), remembered[0].times),
            (1, "no", 2)
        );
        assert_eq!(backoff.failed(&[]), [], "it does not differ any more");
        backoff.note(&[done("a")], s(10));
        assert_eq!(backoff.failed(&[found("a")]), []);
    }

    #[test]
    fn a_reset_once_in_a_while_is_no_fight() {
        let mut backoff = Backoff::default();
        for round in 0..50 {
            assert_eq!(backoff.admit(&[found("a")], s(round * 601)).now, keys(&["a"]));
            backoff.note(&[done("a")], s(round * 601));
        }
    }

    #[test]
    fn failures_wait_longer_and_longer_up_to_an_hour() {
        let mut backoff = Backoff::default();
        let mut now = Duration::ZERO;
        let mut waits = Vec::new();
        for _ in 0..14 {
            assert_eq!(backoff.admit(&[found("a")], now).now, keys(&["a"]));
            let next = backoff.note(&[failed("a")], now).unwrap();
            let early = backoff.admit(&[found("a")], next - Duration::from_millis(1));
            assert_eq!((early.now.len(), early.next), (0, Some(next)));
            waits.push((next - now).as_secs());
            now = next;
        }
        assert_eq!(waits[..4], [5, 10, 20, 40]);
        assert_eq!(waits[10..], [3600; 4]);
        backoff.note(&[done("a")], now);
        assert_eq!(
            backoff.note(&[failed("a")], now),
            Some(now + s(5)),
            "a success in between counts"
        );
    }
}
