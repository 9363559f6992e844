use super::*;
use crate::profile::model::{FleetLock, RebootMethod};
use crate::reboot::record::{Asked, Attempt};
use crate::reboot::state::{NAMES, may_follow};

const BOOT: &str = "b-now";

fn settings(policy: RebootPolicy, windows: &[&str]) -> Reboot {
    Reboot {
        policy,
        methods: vec![RebootMethod::Ordinary],
        windows: windows.iter().map(|text| (*text).to_owned()).collect(),
        attempts: 1,
        delay_s: 300,
        jitter_s: 0,
        inhibitor_wait_s: 3600,
        busy_devices: true,
        idle_holders: Vec::new(),
        busy_command: Vec::new(),
        command: Vec::new(),
        rtc_wakes: false,
        rehearse: false,
        fleetlock: Some(FleetLock { url: "http://lock/".into(), group: "default".into() }),
    }
}

fn now() -> Timestamp {
    "2026-03-03T03:00:00Z".parse().unwrap()
}

fn tried(plan: &str, boot: &str) -> Attempt {
    let (plan, boot_id) = (plan.into(), boot.into());
    Attempt {
        plan,
        boot_id,
        at: now(),
        due: None,
        method: RebootMethod::Ordinary,
        rehearsal: false,
        passthrough: true,
        followed: false,
    }
}

/// A host that may be rebooted.
fn free<'a>(settings: &'a Reboot, record: &'a Record) -> Situation<'a> {
    Situation {
        need: RebootNeed::Cold,
        plan: "p",
        unfinished: false,
        refused: false,
        boot_id: BOOT,
        now: now(),
        settings,
        record: Ok(record),
        vetoes: &[],
        called_off: false,
        inhibitors: &[],
        inhibited_for: SignedDuration::ZERO,
        scheduled: Scheduled::Nothing,
        locked: Some(true),
    }
}

/// All that can be, combined: what must never happen does not, and each decision is reached.
#[test]
fn every_combination() {
    let vetoes = vec![Reason::new(WaitsFor::Devices, "busy")];
    let inhibitors = vec!["backup".to_owned()];
    let foreign = Scheduled::Foreign { kind: "poweroff".into(), at: now() };
    let ours = Scheduled::Ours(now());
    let underway = Scheduled::Underway(now());
    let mut seen = std::collections::BTreeMap::new();
    for policy in [RebootPolicy::Never, RebootPolicy::Mark, RebootPolicy::Schedule] {
        for windows in [&[][..], &["02:00-05:00 UTC"], &["02:00-03:00 UTC"]] {
            let settings = settings(policy, windows);
            for history in 0..4 {
                for requested in [false, true] {
                    let mut record = Record::default();
                    match history {
                        1 => record.attempt(tried("p", "b-1")),
                        2 => ["1", "2", "3"]
                            .iter()
                            .for_each(|boot| record.attempt(tried("other", boot))),
                        3 => record.attempt(tried("p", BOOT)),
                        _ => {}
                    }
                    record.asked = requested.then(|| Asked {
                        why: "me".into(),
                        boot_id: BOOT.into(),
                        at: now(),
                        waited: false,
                    });
                    for number in 0..(3 * 2 * 2 * 2 * 4 * 3 * 2 * 2 * 2) {
                        let mut digits = number;
                        let mut digit = |base: usize| {
                            let digit = digits % base;
                            digits /= base;
                            digit
                        };
                        let need =
                            [RebootNeed::None, RebootNeed::Reboot, RebootNeed::Cold][digit(3)];
                        let unfinished = digit(2) == 1;
                        let vetoed = digit(2) == 1;
                        let inhibited = digit(2) == 1;
                        let scheduled =
                            [Scheduled::Nothing, ours.clone(), foreign.clone(), underway.clone()]
                                [digit(4)]
                            .clone();
                        let locked = [None, Some(false), Some(true)][digit(3)];
                        let readable = digit(2) == 0;
                        let refused = digit(2) == 1;
                        // What is scheduled was not called off.
                        let called_off = digit(2) == 1
                            && (scheduled == Scheduled::Nothing || scheduled == foreign);
                        let situation = Situation {
                            need,
                            unfinished,
                            refused,
                            called_off,
                            vetoes: if vetoed { &vetoes } else { &[] },
                            inhibitors: if inhibited { &inhibitors } else { &[] },
                            scheduled: scheduled.clone(),
                            locked,
                            record: if readable { Ok(&record) } else { Err("damaged") },
                            ..free(&settings, &record)
                        };
                        let decision = decide(&situation);
                        *seen.entry(decision.name()).or_insert(0) += 1;
                        // Whatever state may have led to this moment.
                        for before in NAMES.into_iter().filter(|before| match *before {
                            "announced" => scheduled == ours || scheduled == underway || called_off,
                            "under-way" => scheduled == underway || called_off,
                            // The caller does these at once, and decides again with what came of it.
                            "announcing" | "taking-lock" | "calling-off" => false,
                            "unknown" => true,
                            _ => scheduled == Scheduled::Nothing || scheduled == foreign,
                        }) {
                            // An operator may ask before bedplate has seen that it was called off.
                            let asked_again = called_off && requested;
                            assert!(
                                asked_again || may_follow(before, decision.name()),
                                "{before} → {}: {situation:?}",
                                decision.name()
                            );
                        }
                        if scheduled == underway {
                            assert_eq!(
                                decision,
                                RebootState::UnderWay { at: now() },
                                "{situation:?}"
                            );
                            continue;
                        }
                        let allowed = readable
                            && !vetoed
                            && !inhibited
                            && scheduled != foreign
                            && (requested
                                || (need != RebootNeed::None
                                    && policy == RebootPolicy::Schedule
                                    && windows != ["02:00-03:00 UTC"]
                                    && !unfinished
                                    && !called_off
                                    && history != 1
                                    && history != 2));
                        let context = format!("{situation:?}: {decision:?}");
                        match &decision {
                            RebootState::Unknown { .. } | RebootState::UnderWay { .. } => {
                                panic!("not of what was seen: {context}")
                            }
                            RebootState::CalledOff { .. } => {
                                assert!(called_off && !requested && !allowed, "{context}")
                            }
                            RebootState::Converging => {
                                assert!(unfinished && !requested && !allowed, "{context}")
                            }
                            RebootState::Announcing { .. } => {
                                assert!(allowed && locked != Some(false), "{context}");
                                assert_eq!(scheduled, Scheduled::Nothing, "{context}");
                            }
                            RebootState::TakingLock => {
                                assert!(allowed && locked == Some(false), "{context}")
                            }
                            RebootState::Announced { .. } => {
                                assert!(allowed && scheduled == ours, "{context}")
                            }
                            RebootState::CallingOff { why } => {
                                assert!(
                                    !allowed && scheduled == ours && !why.is_empty(),
                                    "{context}"
                                );
                            }
                            RebootState::Waiting { why, .. } => {
                                assert!(!allowed && !why.is_empty(), "{context}")
                            }
                            RebootState::Stuck { .. } => {
                                assert!(!requested && (history == 1 || history == 2), "{context}")
                            }
                            // What was rebooted for and refused must not be taken for done.
                            RebootState::Idle => {
                                let tried = history == 1 || history == 2;
                                assert!(
                                    need == RebootNeed::None && !requested && !(refused && tried),
                                    "{context}"
                                );
                            }
                            RebootState::LeftToPeople => {
                                assert!(policy == RebootPolicy::Never && !requested, "{context}")
                            }
                            RebootState::LeftToOthers => {
                                assert!(policy == RebootPolicy::Mark && !requested, "{context}")
                            }
                        }
                        // Nothing of ours stays announced once it is not allowed, and nothing allowed is left undone.
                        if !allowed && scheduled == ours {
                            assert!(
                                matches!(decision, RebootState::CallingOff { .. }),
                                "{context}"
                            );
                        }
                        if allowed {
                            let acts = matches!(
                                decision,
                                RebootState::Announcing { .. }
                                    | RebootState::TakingLock
                                    | RebootState::Announced { .. }
                            );
                            assert!(acts, "{context}");
                        }
                    }
                }
            }
        }
    }
    assert_eq!(seen.len(), NAMES.len() - 1, "all but `unknown`: {seen:?}");
}

#[test]
fn the_time_is_after_the_delay_and_inside_the_window() {
    let record = Record::default();
    let mut settings = settings(RebootPolicy::Schedule, &["02:00-05:00 UTC"]);
    let at = |text: &str| RebootState::Announcing { at: text.parse().unwrap() };
    assert_eq!(decide(&free(&settings, &record)), at("2026-03-03T03:05:00Z"));
    // More jitter than the window has room for: the delay alone.
    settings.jitter_s = 86_400 * 365;
    assert_eq!(decide(&free(&settings, &record)), at("2026-03-03T03:05:00Z"));
    settings.jitter_s = 600;
    let RebootState::Announcing { at: jittered } = decide(&free(&settings, &record)) else {
        panic!()
    };
    let RebootState::Announcing { at: other } =
        decide(&Situation { boot_id: "b-other", ..free(&settings, &record) })
    else {
        panic!()
    };
    let late = |time: Timestamp| time.duration_since(now()).as_secs();
    assert!((300..=900).contains(&late(jittered)) && jittered != other, "{jittered} {other}");
    // Not even room for the delay.
    let late =
        Situation { now: "2026-03-03T04:58:00Z".parse().unwrap(), ..free(&settings, &record) };
    assert!(matches!(decide(&late), RebootState::Waiting { until: None, .. }));
}

#[test]
fn a_closed_window_says_when_the_next_one_opens() {
    let record = Record::default();
    let settings =
        settings(RebootPolicy::Schedule, &["Sun 02:00-05:00 UTC", "Fri 02:00-05:00 UTC"]);
    let RebootState::Waiting { why, until, .. } = decide(&free(&settings, &record)) else {
        panic!()
    };
    assert_eq!(
        why,
        [Reason::new(WaitsFor::Window, "the window `Fri 02:00-05:00 UTC` is not open")]
    );
    assert_eq!(until, Some("2026-03-06T02:00:00Z".parse().unwrap()));
}

/// The clock is set to another day while a reboot is announced: it would now fall outside the window.
#[test]
fn a_clock_that_jumps_takes_the_announcement_back() {
    let record = Record::default();
    let settings = settings(RebootPolicy::Schedule, &["Tue 02:00-05:00 UTC"]);
    let ours = Situation { scheduled: Scheduled::Ours(now()), ..free(&settings, &record) };
    assert!(matches!(decide(&ours), RebootState::Announced { .. }));
    let jumped = Situation { now: "2027-01-01T03:00:00Z".parse().unwrap(), ..ours };
    assert!(matches!(decide(&jumped), RebootState::CallingOff { .. }));
}

/// Boots are counted by their ids: no clock, however wrong, gives a second attempt.
#[test]
fn no_clock_makes_a_second_attempt() {
    let mut record = Record::default();
    record.attempt(tried("p", "b-1"));
    let settings = settings(RebootPolicy::Schedule, &[]);
    for year in ["1970-01-01", "2000-01-01", "2026-03-03", "2100-01-01"] {
        let now = format!("{year}T03:00:00Z").parse().unwrap();
        let stuck = decide(&Situation { now, ..free(&settings, &record) });
        assert!(matches!(stuck, RebootState::Stuck { .. }), "{year}: {stuck:?}");
    }
}

#[test]
fn an_inhibitor_that_stays_is_reported_and_not_forced() {
    let record = Record::default();
    let settings = settings(RebootPolicy::Schedule, &[]);
    let inhibitors = vec!["apt (1234): upgrading".to_owned()];
    let waits = |seconds| {
        let inhibited_for = SignedDuration::from_secs(seconds);
        match decide(&Situation {
            inhibitors: &inhibitors,
            inhibited_for,
            ..free(&settings, &record)
        }) {
            RebootState::Waiting { overdue, .. } => overdue,
            other => panic!("{other:?}"),
        }
    };
    assert!(!waits(3599) && waits(3600) && waits(1_000_000));
}

/// A request of an earlier boot was fulfilled by this one.
#[test]
fn a_request_is_for_one_boot() {
    let asked = Asked { why: "me".into(), boot_id: "b-1".into(), at: now(), waited: false };
    let record = Record { asked: Some(asked), ..Record::default() };
    let settings = settings(RebootPolicy::Never, &[]);
    assert_eq!(decide(&free(&settings, &record)), RebootState::LeftToPeople);
}

/// A request for now, and one that had to wait: nobody expects the machine to go down when a hold ends.
#[test]
fn a_request_that_waited_is_announced_with_the_whole_delay() {
    let settings = Reboot { delay_s: 900, ..settings(RebootPolicy::Never, &[]) };
    let mut record = Record::default();
    for (waited, hours, after) in [(false, 0, 0), (true, 0, 900), (false, 4, 900)] {
        let at = now() - SignedDuration::from_hours(hours);
        record.asked = Some(Asked { why: "me".into(), boot_id: BOOT.into(), at, waited });
        assert_eq!(
            decide(&free(&settings, &record)),
            RebootState::Announcing { at: now() + SignedDuration::from_secs(after) }
        );
    }
}

/// A window that is still to be chosen: nothing goes down at an hour that nobody has set, unless an operator asks.
#[test]
fn a_window_that_is_not_chosen_never_opens() {
    let record = Record::default();
    let settings = settings(RebootPolicy::Schedule, &["never"]);
    let RebootState::Waiting { why, until: None, .. } = decide(&free(&settings, &record)) else {
        panic!("no wait")
    };
    assert!(why[0].text.contains("write one in [reboot] `windows`"), "{why:?}");
    let asked = Asked { why: "w".into(), boot_id: BOOT.into(), at: now(), waited: false };
    let record = Record { asked: Some(asked), ..Record::default() };
    assert_eq!(decide(&free(&settings, &record)), RebootState::Announcing { at: now() });
}
