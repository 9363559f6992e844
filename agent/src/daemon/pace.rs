//! What may be tried again, and when: a change that fails is tried ever more seldom, and one that somebody else takes
//! back three times is left alone. Pure; time is an argument (of a clock that no one sets).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::round::{Difference, Done, End};

/// First wait after a failure.
const FIRST_WAIT: Duration = Duration::from_secs(5);
/// Longest wait after failures.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);
/// So often something may be taken back by others before it is left to them.
const TAKEN_BACK: u32 = 3;
/// What was taken back longer ago does not count: a device reset once a day is no fight.
const MEMORY: Duration = Duration::from_secs(10 * 60);

/// What is remembered of each change, by its id.
#[derive(Debug, Default)]
pub struct Pace {
    changes: BTreeMap<String, Memory>,
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
    contested: Option<Contested>,
}

/// Something that others keep changing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contested {
    /// The change's id.
    pub id: String,
    /// What was found there in its last state, for people.
    pub found: String,
    /// How often it was taken back.
    pub times: u32,
}

/// What is to be done about a look at the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admitted {
    /// Ids to apply now.
    pub now: Vec<String>,
    /// When the first of those that have to wait may be tried again.
    pub next: Option<Duration>,
    /// Those that became contested by this look.
    pub contested: Vec<Contested>,
}

impl Pace {
    /// Which of the differences may be applied at `now` (a monotonic clock's reading).
    pub fn admit(&mut self, found: &[Difference], now: Duration) -> Admitted {
        let mut admitted = Admitted::default();
        for difference in found {
            let memory = self.changes.entry(difference.id.clone()).or_default();
            if memory.contested.is_some() {
                continue;
            }
            if memory.done {
                memory.done = false;
                memory.taken_back.retain(|at| now.saturating_sub(*at) < MEMORY);
                memory.taken_back.push(now);
                let times = u32::try_from(memory.taken_back.len()).unwrap_or(u32::MAX);
                if times >= TAKEN_BACK {
                    let contested = Contested { id: difference.id.clone(), found: seen(difference), times };
                    memory.contested = Some(contested.clone());
                    admitted.contested.push(contested);
                    continue;
                }
            }
            match memory.wait().map(|wait| memory.failed_at + wait) {
                Some(until) if until > now => {
                    admitted.next = Some(admitted.next.map_or(until, |next| next.min(until)));
                }
                _ => admitted.now.push(difference.id.clone()),
            }
        }
        admitted
    }

    /// What became of those that were applied. Returns when a failed one may be tried again.
    pub fn note(&mut self, done: &[Done], now: Duration) -> Option<Duration> {
        let mut next: Option<Duration> = None;
        for done in done {
            let memory = self.changes.entry(done.change.id.clone()).or_default();
            match done.end {
                End::Done => {
                    memory.done = true;
                    memory.failures = 0;
                }
                End::Failed { .. } => {
                    memory.failures = memory.failures.saturating_add(1);
                    memory.failed_at = now;
                    let until = memory.wait().map(|wait| now + wait);
                    next = next.into_iter().chain(until).min();
                }
            }
        }
        next
    }

    /// Everything that is left to others.
    pub fn contested(&self) -> Vec<Contested> {
        self.changes.values().filter_map(|memory| memory.contested.clone()).collect()
    }

    /// Forgets everything: somebody asked for it, or the profile is another one.
    pub fn forget(&mut self) {
        self.changes.clear();
    }
}

impl Memory {
    fn wait(&self) -> Option<Duration> {
        let doubled = self.failures.checked_sub(1)?;
        Some(FIRST_WAIT.saturating_mul(1 << doubled.min(16)).min(LONGEST_WAIT))
    }
}

fn seen(difference: &Difference) -> String {
    let one = |value: &super::round::Value| {
        format!("{}: {}", value.subject, value.before.as_deref().unwrap_or("absent"))
    };
    difference.items.iter().map(one).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::round::Value;
    use crate::plan::Effect;

    fn found(id: &str) -> Difference {
        let value = Value { subject: "ACS control".into(), before: Some("001d".into()), after: None };
        Difference {
            id: id.into(),
            kind: "acs".into(),
            subject: id.into(),
            effect: Effect::EveryBoot,
            live: true,
            items: vec![value],
        }
    }

    fn done(id: &str) -> Done {
        Done { change: found(id), end: End::Done }
    }

    fn failed(id: &str) -> Done {
        Done { change: found(id), end: End::Failed { why: "no".into() } }
    }

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_third_time_it_is_taken_back_it_is_left_alone() {
        let mut pace = Pace::default();
        for at in 0..3 {
            assert_eq!(pace.admit(&[found("a")], s(at)).now, ["a"], "{at}");
            pace.note(&[done("a")], s(at));
        }
        let last = pace.admit(&[found("a"), found("b")], s(3));
        assert_eq!(last.now, ["b"]);
        let contested = Contested { id: "a".into(), found: "ACS control: 001d".into(), times: 3 };
        assert_eq!(
            (last.contested.as_slice(), pace.contested().as_slice()),
            (&[contested.clone()][..], &[contested][..])
        );
        // Said once, and never again by itself.
        let later = pace.admit(&[found("a")], s(100_000));
        assert_eq!(later, Admitted::default());
        pace.forget();
        assert_eq!(pace.admit(&[found("a")], s(100_001)).now, ["a"]);
    }

    #[test]
    fn a_reset_once_in_a_while_is_no_fight() {
        let mut pace = Pace::default();
        for round in 0..50 {
            assert_eq!(pace.admit(&[found("a")], s(round * 601)).now, ["a"]);
            pace.note(&[done("a")], s(round * 601));
        }
    }

    #[test]
    fn failures_wait_longer_and_longer_up_to_an_hour() {
        let mut pace = Pace::default();
        let mut now = Duration::ZERO;
        let mut waits = Vec::new();
        for _ in 0..14 {
            assert_eq!(pace.admit(&[found("a")], now).now, ["a"]);
            let next = pace.note(&[failed("a")], now).unwrap();
            let early = pace.admit(&[found("a")], next - Duration::from_millis(1));
            assert_eq!((early.now.len(), early.next), (0, Some(next)));
            waits.push((next - now).as_secs());
            now = next;
        }
        assert_eq!(waits[..4], [5, 10, 20, 40]);
        assert_eq!(waits[10..], [3600; 4]);
        pace.note(&[done("a")], now);
        assert_eq!(pace.note(&[failed("a")], now), Some(now + s(5)), "a success in between counts");
    }
}
