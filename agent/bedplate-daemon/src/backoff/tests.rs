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
fn third_revert_makes_a_conflict() {
    let mut backoff = Backoff::default();
    for at in 0..3 {
        assert_eq!(backoff.admit(&[found("a")], s(at)).now, keys(&["a"]), "{at}");
        backoff.note(&[done("a")], s(at));
    }
    let last = backoff.admit(&[found("a"), found("b")], s(3));
    assert_eq!(last.now, keys(&["b"]));
    let conflict = Conflict { id: "a".into(), found: "ACS control: 001d".into(), times: 3 };
    assert_eq!(
        (last.conflicts.as_slice(), backoff.conflicts().as_slice()),
        (&[conflict.clone()][..], &[conflict][..])
    );
    // Reported once.
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
    assert_eq!(backoff.admit(&[found("a")], s(3)).conflicts.len(), 1);
    backoff
}

#[test]
fn conflict_is_retried_after_quiet_hour() {
    let mut backoff = fought_over();
    let early = backoff.admit(&[found("a")], s(3602));
    assert_eq!((early.now.len(), early.next, backoff.conflicts().len()), (0, Some(s(3603)), 1));
    assert_eq!(backoff.admit(&[found("a")], s(3603)).now, keys(&["a"]));
    assert_eq!(backoff.conflicts(), []);
    backoff.note(&[done("a")], s(3603));
    // Reverted again: a conflict at once, and for longer.
    let again = backoff.admit(&[found("a")], s(3700));
    assert_eq!((again.now.len(), again.conflicts.len(), again.next), (0, 1, Some(s(3700 + 7200))));
    assert_eq!(backoff.admit(&[found("a")], s(3700 + 7200)).now, keys(&["a"]));
    backoff.note(&[done("a")], s(3700 + 7200));
    // It stayed applied for longer than the quiet period, so the count starts again.
    let later = s(3700 + 3 * 7200);
    assert_eq!(backoff.admit(&[found("a")], later).now, keys(&["a"]));
    assert_eq!(backoff.conflicts(), []);
}

#[test]
fn external_change_restarts_quiet_period() {
    let mut other = found("a");
    other.shown.items[0].before = Some("0000".into());
    let mut backoff = fought_over();
    assert_eq!(backoff.admit(&[other.clone()], s(3000)).next, Some(s(6600)));
    assert!(backoff.conflicts()[0].found.contains("0000"), "what is there now");
    // Changed to the profile's value by another tool: that is a change too.
    assert_eq!(backoff.admit(&[], s(6000)).next, Some(s(9600)));
    assert!(backoff.has_conflicts());
    assert_eq!(backoff.admit(&[], s(9600)), Admission::default());
    assert!(!backoff.has_conflicts());
    // A later difference is ordinary drift.
    assert_eq!(backoff.admit(&[other], s(9700)).now, keys(&["a"]));
}

/// The masked ids are equal: `cmdline/grubby --args=token=…`.
#[test]
fn changes_with_equal_masked_ids_stay_separate() {
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
fn last_failure_is_reported_until_success() {
    let mut backoff = Backoff::default();
    backoff.note(&[failed("a")], s(0));
    backoff.note(&[failed("a")], s(5));
    let remembered = backoff.failed(&[found("b"), found("a")]);
    assert_eq!((remembered.len(), remembered[0].why.as_str(), remembered[0].times), (1, "no", 2));
    assert_eq!(backoff.failed(&[]), [], "it does not differ any more");
    backoff.note(&[done("a")], s(10));
    assert_eq!(backoff.failed(&[found("a")]), []);
}

#[test]
fn infrequent_resets_are_no_conflict() {
    let mut backoff = Backoff::default();
    for round in 0..50 {
        assert_eq!(backoff.admit(&[found("a")], s(round * 601)).now, keys(&["a"]));
        backoff.note(&[done("a")], s(round * 601));
    }
}

#[test]
fn retry_wait_doubles_up_to_one_hour() {
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
    assert_eq!(backoff.note(&[failed("a")], now), Some(now + s(5)), "a success in between counts");
}
