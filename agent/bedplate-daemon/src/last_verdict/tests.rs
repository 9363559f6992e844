use super::*;
use crate::status::{StageVerdict, Verdicts};
use bedplate_core::plan::{KindId, Unknown};

const NOW: &str = "2026-03-03T03:10:00Z";

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn checked(id: &str, outcome: Outcome) -> Checked {
    Checked {
        id: id.into(),
        outcome,
        severity: Severity::Fail,
        text: format!("{id} says"),
        fix: Some(format!("fix {id}")),
        recovery: if outcome == Outcome::Fail { Recovery::Drain } else { Recovery::None },
    }
}

/// A host whose profile is in effect, observed two minutes ago.
fn converged(checks: &[Checked]) -> Status {
    let mut status = Status::starting("b".into());
    status.checks = Some(checks.to_vec());
    status.evaluated_at = Some(time("2026-03-03T03:08:00Z"));
    status.heartbeat = status.evaluated_at;
    status.fresh_until = Some(time("2026-03-03T03:38:00Z"));
    status.update_verdict(None);
    status
}

fn minutes(minutes: i64) -> Option<SignedDuration> {
    Some(SignedDuration::from_mins(minutes))
}

#[test]
fn stages_differ_by_what_needs_a_driver() {
    let status = converged(&[
        checked("iommu.mode", Outcome::Pass),
        checked("modules.driver", Outcome::Fail),
    ]);
    let host = report(&status, Stage::Host);
    assert_eq!((host.answer, host.stage), (Answer::Ready, Some(Stage::Host)));
    assert_eq!(host.checks.len(), 1);
    let all = report(&status, Stage::Gpudirect);
    assert_eq!((all.answer, all.stage), (Answer::NotReady, None));
    assert_eq!(all.decided_by, ["modules.driver"]);
    assert_eq!(all.recovery, Recovery::Drain);
    assert_eq!(all.next.as_deref(), Some("fix modules.driver (modules.driver)"));
}

#[test]
fn unread_setting_is_unknown_on_its_stage() {
    let mut status = converged(&[checked("iommu.mode", Outcome::Pass)]);
    let unknown = |kind: KindId| -> Vec<Unknown> { vec![kind.unknown("x", "unreadable")] };
    status.unknowns = unknown(KindId::Nccl);
    status.update_verdict(None);
    assert_eq!(report(&status, Stage::Host).answer, Answer::Ready);
    let all = report(&status, Stage::Gpudirect);
    assert_eq!((all.answer, &all.decided_by[..]), (Answer::CannotTell, &["profile.in-effect"][..]));
    status.unknowns = unknown(KindId::Sriov);
    status.update_verdict(None);
    assert_eq!(report(&status, Stage::Host).answer, Answer::CannotTell);
}

/// A missing device blocks a host that matches its profile: one check has one verdict.
#[test]
fn blocker_beside_passed_checks_is_named_once() {
    let mut status = converged(&[checked("profile.in-effect", Outcome::Pass)]);
    status.blockers = vec![KindId::Host.blocker("GPU", "missing", "reseat it")];
    status.update_verdict(None);
    let all = report(&status, Stage::Gpudirect);
    assert_eq!((all.answer, &all.decided_by[..]), (Answer::NotReady, &["profile.in-effect"][..]));
    let verdicts: Vec<Outcome> = all.checks.iter().map(|judged| judged.verdict).collect();
    assert_eq!(verdicts, [Outcome::Fail]);
}

/// Without results of the checks, the host differs in settings of the host stage.
#[test]
fn host_stage_without_checks_is_not_ready() {
    let mut status = converged(&[]);
    status.checks = None;
    status.update_verdict(None);
    for stage in Stage::ALL {
        assert_ne!(report(&status, stage).answer, Answer::Ready, "{stage}");
    }
}

#[test]
fn old_verdict_is_refused() {
    let status = converged(&[]);
    let at = |max_age, now: &str| check(&status, max_age, time(now)).map(drop);
    assert_eq!(at(None, NOW), Ok(()));
    assert_eq!(at(minutes(2), NOW), Ok(()));
    assert!(matches!(at(minutes(1), NOW), Err(NoVerdict::TooOld { .. })));
    // A daemon that hangs renews nothing.
    let late = "2026-03-03T03:39:00Z";
    assert!(matches!(at(None, late), Err(NoVerdict::TooOld { .. })));
    assert!(matches!(at(minutes(600), late), Err(NoVerdict::TooOld { .. })));
    let early = "2026-03-03T03:00:00Z";
    assert!(matches!(at(None, early), Err(NoVerdict::Future { .. })));
    assert_eq!(at(None, "2026-03-03T03:07:30Z"), Ok(()), "a small step of the clock");
}

/// A daemon whose observations hang still publishes its heartbeat.
#[test]
fn heartbeat_alone_does_not_renew_a_verdict() {
    let mut status = converged(&[]);
    status.heartbeat = Some(time("2026-03-03T04:00:00Z"));
    status.fresh_until = Some(time("2026-03-03T04:30:00Z"));
    let late = check(&status, None, time("2026-03-03T04:01:00Z"));
    assert!(matches!(late, Err(NoVerdict::TooOld { .. })), "{late:?}");
}

#[test]
fn unobserved_host_has_no_verdict() {
    let status = Status::starting("b".into());
    assert_eq!(check(&status, None, time(NOW)).map(drop), Err(NoVerdict::NotObserved));
}

/// It publishes its end while its process exists.
#[test]
fn ending_daemon_has_no_verdict() {
    let mut status = converged(&[]);
    status.stop();
    assert_eq!(check(&status, None, time(NOW)).map(drop), Err(NoVerdict::DaemonGone));
}

#[test]
fn long_work_hides_the_verdict_and_short_work_does_not() {
    let ready = converged(&[]);
    let work = Work { what: "update-grub".into(), since: time(NOW) };
    let working = ready.working_on(&work);
    assert_eq!(
        (working.verdict, working.host_stage.verdict),
        (Verdict::NotReady, Verdict::NotReady)
    );
    let soon = check(&working, None, time("2026-03-03T03:10:00.3Z")).unwrap();
    assert_eq!((soon.verdict, soon.host_stage), (Verdict::Ready, ready.host_stage));
    let late = check(&working, None, time("2026-03-03T03:10:02Z")).map(drop);
    assert_eq!(late, Err(NoVerdict::Working { what: "update-grub".into() }));
}

#[test]
fn verdicts_before_work_survive_the_file() {
    let work = Work { what: "x".into(), since: time(NOW) };
    let working = converged(&[]).working_on(&work);
    let text = serde_json::to_string(&working).unwrap();
    let Some(Verdicts { host: StageVerdict { verdict, .. }, .. }) =
        Status::parse(&text).unwrap().before_work
    else {
        panic!("{text}")
    };
    assert_eq!(verdict, Verdict::Ready);
}
