use super::*;
use crate::reboot::state::{may_follow, names};
use bedplate_core::profile::model::{FleetLock, RebootMethod};
use bedplate_core::reboot_record::RebootRequest;
use bedplate_core::reboot_record::attempt::Attempt;

mod entry;
mod window;

const BOOT: &str = "b-now";

fn settings(policy: RebootPolicy, windows: &[&str]) -> Reboot {
    let fleetlock = Some(FleetLock { url: "http://lock/".into(), group: "default".into() });
    let windows = windows.iter().map(|&text| text.to_owned()).collect();
    Reboot { policy, windows, fleetlock, ..crate::reboot::tests::settings("") }
}

fn now() -> Timestamp {
    "2026-03-03T03:00:00Z".parse().unwrap()
}

/// A request of this boot, for now.
fn request() -> RebootRequest {
    let (why, boot_id) = ("me".into(), BOOT.into());
    RebootRequest { why, boot_id, since: now(), at: now(), force: false, waited: false }
}

fn tried(plan: &str, boot: &str) -> Attempt {
    let (plan, boot_id) = (plan.into(), boot.into());
    Attempt {
        plan,
        boot_id,
        at: now(),
        due: None,
        method: RebootMethod::Ordinary,
        dry_run: false,
        passthrough: true,
        followed: false,
        subject: String::new(),
    }
}

/// A host that may be rebooted.
fn free<'a>(settings: &'a Reboot, record: &'a Record) -> Situation<'a> {
    Situation {
        need: RebootNeed::Cold,
        plan: "p",
        unfinished: false,
        planned: false,
        refused: false,
        boot_id: BOOT,
        now: now(),
        settings,
        record,
        vetoes: &[],
        pause: None,
        entry: &NextBoot::Sound,
        method: Some(RebootMethod::Ordinary),
        needs_operator: false,
        inhibitors: &[],
        inhibited_for: SignedDuration::ZERO,
        scheduled: ScheduledShutdown::Nothing,
        locked: Some(true),
    }
}

/// A window that is open now and too short for the delay.
const TOO_SHORT: &str = "02:00-03:00 UTC";

/// Conditions shared by all moments of a case.
struct Given<'a> {
    settings: &'a Reboot,
    record: &'a Record,
    requested: bool,
    /// Whether earlier boots did not help.
    tried: bool,
}

/// One combination of conditions.
struct Moment {
    need: RebootNeed,
    unfinished: bool,
    vetoed: bool,
    inhibited: bool,
    scheduled: ScheduledShutdown,
    locked: Option<bool>,
    refused: bool,
    needs_operator: bool,
    unsound: bool,
}

impl Moment {
    const ALL: std::ops::Range<usize> = 0..(3 * 2 * 2 * 2 * 4 * 3 * 2 * 2 * 2);

    fn number(number: usize) -> Moment {
        let mut digits = number;
        let mut digit = |base: usize| {
            let digit = digits % base;
            digits /= base;
            digit
        };
        let mut moment = Moment {
            need: [RebootNeed::None, RebootNeed::Reboot, RebootNeed::Cold][digit(3)],
            unfinished: digit(2) == 1,
            vetoed: digit(2) == 1,
            inhibited: digit(2) == 1,
            scheduled: match digit(4) {
                0 => ScheduledShutdown::Nothing,
                1 => ScheduledShutdown::Ours { at: now(), request: None },
                2 => ScheduledShutdown::Foreign { kind: "poweroff".into(), at: now() },
                _ => ScheduledShutdown::Underway(now()),
            },
            locked: [None, Some(false), Some(true)][digit(3)],
            refused: digit(2) == 1,
            needs_operator: digit(2) == 1,
            unsound: digit(2) == 1,
        };
        // A scheduled reboot was not cancelled.
        moment.needs_operator &= !moment.is_ours() && !moment.is_underway();
        moment
    }

    fn is_ours(&self) -> bool {
        matches!(self.scheduled, ScheduledShutdown::Ours { .. })
    }

    fn is_underway(&self) -> bool {
        matches!(self.scheduled, ScheduledShutdown::Underway(_))
    }

    fn is_foreign(&self) -> bool {
        matches!(self.scheduled, ScheduledShutdown::Foreign { .. })
    }

    /// Whether a reboot may be scheduled, or stay so.
    fn allows(&self, given: &Given<'_>) -> bool {
        let sound = !self.unsound;
        let free = !self.vetoed && !self.inhibited && !self.is_foreign() && sound;
        let by_itself = self.need != RebootNeed::None
            && given.settings.policy == RebootPolicy::Schedule
            && given.settings.windows != [TOO_SHORT]
            && !self.unfinished
            && !self.needs_operator
            && !given.tried;
        free && (given.requested || by_itself)
    }

    /// Whether `before` may be the state before this moment.
    fn follows(&self, before: &str) -> bool {
        match before {
            "scheduled" => self.is_ours() || self.is_underway() || self.needs_operator,
            "under-way" => self.is_underway() || self.needs_operator,
            // The caller acts on these at once, and decides again with the result.
            "scheduling" | "taking-lock" | "cancelling" => false,
            "unknown" => true,
            _ => !self.is_ours() && !self.is_underway(),
        }
    }

    /// Whether the state is allowed as the decision for this moment.
    fn allows_state(&self, given: &Given<'_>, decision: &RebootState) -> bool {
        let (allowed, requested) = (self.allows(given), given.requested);
        match decision {
            RebootState::Unknown { .. } | RebootState::UnderWay { .. } => false,
            RebootState::Cancelled { .. } => self.needs_operator && !requested && !allowed,
            RebootState::WaitingForChanges => self.unfinished && !requested && !allowed,
            RebootState::Scheduling { .. } => {
                allowed
                    && self.locked != Some(false)
                    && self.scheduled == ScheduledShutdown::Nothing
            }
            RebootState::TakingLock => allowed && self.locked == Some(false),
            RebootState::Scheduled { .. } => allowed && self.is_ours(),
            RebootState::Cancelling { why } => !allowed && self.is_ours() && !why.is_empty(),
            RebootState::Waiting { why, .. } => !allowed && !why.is_empty(),
            RebootState::AttemptsExhausted { .. } => !requested && given.tried,
            // A change that a reboot did not bring into effect must not be taken for done.
            RebootState::Idle => {
                self.need == RebootNeed::None && !requested && !(self.refused && given.tried)
            }
            RebootState::Manual => given.settings.policy == RebootPolicy::Never && !requested,
            RebootState::External => given.settings.policy == RebootPolicy::Mark && !requested,
        }
    }
}

/// Makes the decision for a moment and checks it.
fn checked(given: &Given<'_>, moment: &Moment) -> RebootState {
    let vetoes = [Veto::new(WaitsFor::Devices, "busy")];
    let inhibitors = ["backup".to_owned()];
    let scheduled = match &moment.scheduled {
        ScheduledShutdown::Ours { at, .. } => {
            ScheduledShutdown::Ours { at: *at, request: given.requested.then(|| request().since) }
        }
        other => other.clone(),
    };
    let entry = NextBoot::Unknown { reasons: vec!["empty".into()] };
    let situation = Situation {
        entry: if moment.unsound { &entry } else { &NextBoot::Sound },
        need: moment.need,
        unfinished: moment.unfinished,
        refused: moment.refused,
        needs_operator: moment.needs_operator,
        vetoes: if moment.vetoed { &vetoes } else { &[] },
        inhibitors: if moment.inhibited { &inhibitors } else { &[] },
        scheduled,
        locked: moment.locked,
        ..free(given.settings, given.record)
    };
    let decision = decide(&situation);
    for before in names().into_iter().filter(|before| moment.follows(before)) {
        // An operator may request a reboot before bedplate has noticed the cancellation.
        let asked_again = moment.needs_operator && given.requested;
        let next = decision.name();
        assert!(asked_again || may_follow(before, next), "{before} → {next}: {situation:?}");
    }
    if moment.is_underway() {
        assert_eq!(decision, RebootState::UnderWay { at: now() }, "{situation:?}");
        return decision;
    }
    assert!(moment.allows_state(given, &decision), "{situation:?}: {decision:?}");
    // A reboot that is not allowed does not stay scheduled, and an allowed one is not omitted.
    let acts = match moment.allows(given) {
        true => matches!(decision.name(), "scheduling" | "taking-lock" | "scheduled"),
        false => !moment.is_ours() || matches!(decision, RebootState::Cancelling { .. }),
    };
    assert!(acts, "{situation:?}: {decision:?}");
    decision
}

/// One of four histories: nothing tried, this plan, three other plans, this plan in this boot.
fn past(number: usize, requested: bool) -> Record {
    let mut record = Record::default();
    match number {
        1 => record.attempt(tried("p", "b-1")),
        2 => ["1", "2", "3"].iter().for_each(|boot| record.attempt(tried("other", boot))),
        3 => record.attempt(tried("p", BOOT)),
        _ => {}
    }
    record.asked = requested.then(request);
    record
}

/// All combinations of conditions: no forbidden decision is made, and each decision is reached.
#[test]
fn every_combination_gets_an_allowed_decision() {
    let mut seen = std::collections::BTreeSet::new();
    for policy in [RebootPolicy::Never, RebootPolicy::Mark, RebootPolicy::Schedule] {
        for windows in [&[][..], &["02:00-05:00 UTC"], &[TOO_SHORT]] {
            let settings = settings(policy, windows);
            for (number, requested) in (0..4).flat_map(|past| [(past, false), (past, true)]) {
                let record = past(number, requested);
                let tried = number == 1 || number == 2;
                let given = Given { settings: &settings, record: &record, requested, tried };
                let moments = Moment::ALL.map(Moment::number);
                seen.extend(moments.map(|moment| checked(&given, &moment).name()));
            }
        }
    }
    assert_eq!(seen.len(), names().len() - 1, "all but `unknown`: {seen:?}");
}

/// Attempts are counted by boot id: no clock value allows a second attempt.
#[test]
fn clock_value_never_allows_a_second_attempt() {
    let mut record = Record::default();
    record.attempt(tried("p", "b-1"));
    let settings = settings(RebootPolicy::Schedule, &[]);
    for year in ["1970-01-01", "2000-01-01", "2026-03-03", "2100-01-01"] {
        let now = format!("{year}T03:00:00Z").parse().unwrap();
        let stuck = decide(&Situation { now, ..free(&settings, &record) });
        assert!(matches!(stuck, RebootState::AttemptsExhausted { .. }), "{year}: {stuck:?}");
    }
}

#[test]
fn lasting_inhibitor_is_reported_and_not_overridden() {
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

/// The current boot fulfilled the request of an earlier one.
#[test]
fn request_is_valid_for_one_boot() {
    let asked = RebootRequest { boot_id: "b-1".into(), ..request() };
    let record = Record { asked: Some(asked), ..Record::default() };
    let settings = settings(RebootPolicy::Never, &[]);
    assert_eq!(decide(&free(&settings, &record)), RebootState::Manual);
}

/// A request for now is immediate. One that had to wait gets the full delay, so that operators are warned.
#[test]
fn delayed_request_gets_the_full_delay() {
    let settings = Reboot { delay_s: 900, ..settings(RebootPolicy::Never, &[]) };
    let mut record = Record::default();
    for (waited, hours, after) in [(false, 0, 0), (true, 0, 900), (false, 4, 900)] {
        let at = now() - SignedDuration::from_hours(hours);
        record.asked = Some(RebootRequest { at, waited, ..request() });
        assert_eq!(
            decide(&free(&settings, &record)),
            RebootState::Scheduling { at: now() + SignedDuration::from_secs(after) }
        );
    }
}

/// The daemon was busy until after the requested time. Only a request for now may come without notice.
#[test]
fn overdue_request_gets_the_least_notice() {
    let settings = settings(RebootPolicy::Never, &[]);
    let mut record = Record::default();
    for (delay, late, after) in [(20, -15, 15), (20, -1, 10), (20, 5, 10), (3, 5, 3), (0, 5, 0)] {
        let seconds = SignedDuration::from_secs;
        let at = now() - seconds(late);
        let since = at - seconds(delay);
        record.asked = Some(RebootRequest { since, at, ..request() });
        let state = RebootState::Scheduling { at: now() + seconds(after) };
        assert_eq!(decide(&free(&settings, &record)), state, "{delay} {late}");
    }
}

/// With windows not chosen yet, the host reboots only on an operator's request.
#[test]
fn unchosen_window_never_opens() {
    let record = Record::default();
    let settings = settings(RebootPolicy::Schedule, &["never"]);
    let RebootState::Waiting { why, until: None, .. } = decide(&free(&settings, &record)) else {
        panic!("no wait")
    };
    assert!(why[0].text.contains("set `windows` in [reboot]"), "{why:?}");
    let record = Record { asked: Some(request()), ..Record::default() };
    assert_eq!(decide(&free(&settings, &record)), RebootState::Scheduling { at: now() });
}

/// `schedule --in now` while one is scheduled for later.
#[test]
fn request_moves_scheduled_reboot() {
    let settings = settings(RebootPolicy::Schedule, &[]);
    let record = Record { asked: Some(request()), ..Record::default() };
    for (of, moves) in [(None, true), (Some(Timestamp::UNIX_EPOCH), true), (Some(now()), false)] {
        let scheduled = ScheduledShutdown::Ours { at: now(), request: of };
        let state = decide(&Situation { scheduled, ..free(&settings, &record) });
        let moved = RebootState::Cancelling { why: vec![MOVED.into()] };
        let expected = if moves { moved } else { RebootState::Scheduled { at: now() } };
        assert_eq!(state, expected);
    }
}

/// Changes for a boot must still be written, or are paused.
#[test]
fn unwritten_changes_keep_need_from_idle() {
    let settings = settings(RebootPolicy::Never, &[]);
    let record = Record::default();
    let none = Situation { need: RebootNeed::None, planned: true, ..free(&settings, &record) };
    assert_eq!(decide(&none), RebootState::WaitingForChanges);
    let pause = Veto::new(WaitsFor::Pause, "enforcement is paused");
    let RebootState::Waiting { why, .. } = decide(&Situation { pause: Some(&pause), ..none })
    else {
        panic!("no wait")
    };
    assert_eq!(why, [pause]);
}
