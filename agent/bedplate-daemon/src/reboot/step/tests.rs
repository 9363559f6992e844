//! Tests of single transitions; [`explore`] tries all of them.

mod explore;
mod world;

use jiff::SignedDuration;

use super::*;
use crate::reboot::state::WaitsFor;
use bedplate_core::plan::{NextBoot, RebootNeed};
use bedplate_core::profile::model::Reboot;
use bedplate_core::reboot_record::preparation::Next;

const BOOT: &str = "b-1";

fn start() -> Timestamp {
    "2026-03-03T03:00:00Z".parse().unwrap()
}

fn after(seconds: i64) -> Timestamp {
    start() + SignedDuration::from_secs(seconds)
}

/// A policy that reboots after a minute.
fn settings(method: RebootMethod) -> Reboot {
    let lines =
        "policy = \"schedule\"\ndelay = \"60s\"\ncommand = [\"/bin/cycle\"]\nrtc_wakes = true";
    Reboot { methods: vec![method], ..crate::reboot::tests::settings(lines) }
}

/// A host without events.
fn seen(now: Timestamp) -> FastFacts {
    FastFacts {
        now,
        boot_id: BOOT.into(),
        schedule: Ok(None),
        goes_down: false,
        userspace: Some(1),
        vetoes: Vec::new(),
        last_ours: None,
        failed: None,
    }
}

/// A change is pending.
fn wanted(settings: &Reboot) -> SlowFacts<'_> {
    SlowFacts {
        need: RebootNeed::Cold,
        plan: "p",
        unfinished: false,
        planned: false,
        refused: false,
        passthrough: false,
        subject: "iommu=pt".into(),
        settings,
        pause: None,
        vetoes: Vec::new(),
        inhibitors: Vec::new(),
        inhibited_for: SignedDuration::ZERO,
        method: settings.methods.first().copied(),
        entry: NextBoot::Sound,
        fresh: true,
        replaced: false,
    }
}

fn prepared(method: RebootMethod) -> Preparation {
    let undo = match method {
        RebootMethod::Firmware => {
            vec![Undo::Write { path: "/sys/kernel/reboot/mode".into(), value: "warm".into() }]
        }
        _ => Vec::new(),
    };
    let next = if method == RebootMethod::Command { Next::RunCommand } else { Next::LogindReboot };
    Preparation { method, next, undo }
}

fn observe(record: &Record, seen: &FastFacts, wanted: &SlowFacts<'_>) -> Step {
    step(record, Event::Observed(seen, Ok(wanted)))
}

/// Returns a record with a scheduled reboot, and logind's schedule.
fn scheduled(method: RebootMethod) -> (Record, (String, u64)) {
    let settings = settings(method);
    let arming = observe(&Record::default(), &seen(start()), &wanted(&settings));
    let armed = step(&arming.record, Event::UndoFound(Ok(prepared(method))));
    let scheduling = step(&armed.record, Event::Armed(Ok(prepared(method))));
    let set = step(&scheduling.record, Event::ScheduleAnswered(Ok(())));
    let arranged = set.record.phase.arranged().unwrap();
    (set.record.clone(), (arranged.kind.name().to_owned(), arranged.usec))
}

#[test]
fn reboot_is_arranged_step_by_step() {
    let settings = settings(RebootMethod::Firmware);
    let stale = SlowFacts { fresh: false, ..wanted(&settings) };
    let first = observe(&Record::default(), &seen(start()), &stale);
    assert_eq!(
        (first.missing, &first.record),
        (Some(MissingInput::FreshEntry), &Record::default())
    );
    let arming = observe(&Record::default(), &seen(start()), &wanted(&settings));
    assert!(matches!(arming.effect, Some(Effect::FindUndo { .. })), "{arming:?}");
    assert_eq!(arming.record.attempts.len(), 1, "counted first");
    let find_undo = step(&arming.record, Event::UndoFound(Ok(prepared(RebootMethod::Firmware))));
    let kept = find_undo.record.phase.arranged().and_then(|one| one.prepared.clone());
    assert_eq!(kept, Some(prepared(RebootMethod::Firmware)), "kept before it is armed");
    let armed = step(&find_undo.record, Event::Armed(Ok(prepared(RebootMethod::Firmware))));
    assert!(matches!(armed.record.phase, Phase::Scheduling { .. }), "{armed:?}");
    let Some(Effect::Schedule { why, .. }) = &armed.effect else { panic!("{armed:?}") };
    assert_eq!(why, "iommu=pt");
    let set = step(&armed.record, Event::ScheduleAnswered(Ok(())));
    assert_eq!(set.shown, Some(RebootState::Scheduled { at: after(60) }));
    // logind refuses: the reboot is cancelled, since logind may have accepted it, and the method is disarmed.
    let why = Veto::new(WaitsFor::Logind, "no");
    let refused = step(&armed.record, Event::ScheduleAnswered(Err(why)));
    assert!(matches!(refused.effect, Some(Effect::Cancel(_))), "{refused:?}");
    let gone = step(&refused.record, Event::CancelAnswered(Ok(CancelResult::Absent)));
    assert!(matches!(gone.effect, Some(Effect::Disarm(_))), "{gone:?}");
    let rest = step(&gone.record, Event::Disarmed(Vec::new()));
    assert_eq!(rest.record, Record::default());
}

#[test]
fn hold_cancels_and_its_end_schedules_again() {
    let (record, schedule) = scheduled(RebootMethod::Ordinary);
    let hold = Veto::new(WaitsFor::Hold, "held by ada");
    let held =
        FastFacts { schedule: Ok(Some(schedule)), vetoes: vec![hold.clone()], ..seen(after(10)) };
    let cancel = step(&record, Event::Polled(&held));
    assert!(matches!(cancel.effect, Some(Effect::Cancel(_))), "{cancel:?}");
    assert_eq!(cancel.record.attempts.len(), 1, "counted until logind confirms");
    let gone = step(&cancel.record, Event::CancelAnswered(Ok(CancelResult::Absent)));
    assert_eq!((&gone.record.phase, gone.record.attempts.len()), (&Phase::Rest, 0));
    // A command has cancelled it at logind before the daemon has seen the hold.
    let gone = step(&record, Event::Polled(&FastFacts { schedule: Ok(None), ..held.clone() }));
    assert_eq!(gone.record.phase, Phase::Rest);
    // Too late.
    let down = step(&cancel.record, Event::CancelAnswered(Ok(CancelResult::GoingDown)));
    assert!(matches!(down.record.phase, Phase::GoingDown { .. }));
    assert_eq!(down.record.attempts.len(), 1);
}

#[test]
fn kexec_kernel_cancels_scheduled_reboot() {
    let (record, schedule) = scheduled(RebootMethod::Ordinary);
    let kexec = Veto::new(WaitsFor::Kexec, "a kernel is loaded for kexec");
    let loaded = FastFacts { schedule: Ok(Some(schedule)), vetoes: vec![kexec], ..seen(after(50)) };
    assert!(matches!(step(&record, Event::Polled(&loaded)).effect, Some(Effect::Cancel(_))));
}

#[test]
fn entry_is_read_afresh_right_before_the_reboot() {
    let settings = settings(RebootMethod::Ordinary);
    let (record, schedule) = scheduled(RebootMethod::Ordinary);
    let stale = SlowFacts { fresh: false, ..wanted(&settings) };
    let at = |seconds| FastFacts { schedule: Ok(Some(schedule.clone())), ..seen(after(seconds)) };
    assert_eq!(observe(&record, &at(30), &stale).missing, None);
    assert_eq!(observe(&record, &at(50), &stale).missing, Some(MissingInput::FreshEntry));
    let reasons = vec!["grub.cfg is empty".into()];
    let empty = SlowFacts { entry: NextBoot::Unknown { reasons }, ..wanted(&settings) };
    assert!(matches!(observe(&record, &at(50), &empty).effect, Some(Effect::Cancel(_))));
}

/// Not an operator's cancellation: it is scheduled again.
#[test]
fn soft_reboot_is_not_a_cancellation() {
    let settings = settings(RebootMethod::Ordinary);
    let (record, _) = scheduled(RebootMethod::Ordinary);
    let other = FastFacts { userspace: Some(2), ..seen(after(20)) };
    let lost = step(&record, Event::Polled(&other));
    assert_eq!(lost.record.phase, Phase::Rest);
    assert!(observe(&lost.record, &other, &wanted(&settings)).effect.is_some());
    // `shutdown -c` in the same userspace is one.
    let cancelled = step(&record, Event::Polled(&seen(after(20))));
    assert!(cancelled.record.phase.needs_operator(), "{cancelled:?}");
    let state = observe(&cancelled.record, &seen(after(20)), &wanted(&settings)).shown;
    assert!(matches!(state, Some(RebootState::Cancelled { .. })));
}

/// `systemctl reboot` before its time: logind drops its schedule, and the attempt must count.
#[test]
fn attempt_counts_when_another_reboot_comes_first() {
    let (record, _) = scheduled(RebootMethod::Firmware);
    for schedule in [None, Some(("reboot".to_owned(), 0))] {
        let down = FastFacts { schedule: Ok(schedule), goes_down: true, ..seen(after(20)) };
        let down = step(&record, Event::Polled(&down));
        assert!(matches!(down.record.phase, Phase::GoingDown { .. }), "{down:?}");
        assert_eq!(down.record.in_a_row("b-2"), 1);
        let boot = FastFacts { boot_id: "b-2".into(), ..seen(after(100)) };
        let booted = step(&down.record, Event::Polled(&boot));
        assert_eq!((&booted.record.phase, booted.record.in_a_row("b-2")), (&Phase::Rest, 1));
    }
}

#[test]
fn missed_reboot_is_ended() {
    let (record, schedule) = scheduled(RebootMethod::Firmware);
    let at = |seconds| FastFacts { schedule: Ok(Some(schedule.clone())), ..seen(after(seconds)) };
    let down = step(&record, Event::Polled(&at(61)));
    assert!(matches!(down.record.phase, Phase::GoingDown { .. }), "{down:?}");
    let still = step(&down.record, Event::Polled(&FastFacts { goes_down: true, ..at(2000) }));
    assert!(matches!(still.record.phase, Phase::GoingDown { .. }), "{still:?}");
    let over = step(&down.record, Event::Polled(&at(2000)));
    assert!(matches!(over.effect, Some(Effect::Cancel(_))), "logind names it still: {over:?}");
    let gone = step(&over.record, Event::CancelAnswered(Ok(CancelResult::Absent)));
    let ended = step(&gone.record, Event::Disarmed(Vec::new()));
    assert_eq!(ended.record.phase.ending(), Some(&Ending::DidNotCome));
    assert_eq!(ended.record.attempts.len(), 1, "it counts");
}

/// A crash leaves its effect undone, done, or half done: the next daemon determines it.
#[test]
fn crash_between_persisting_and_acting_is_recovered() {
    let settings = settings(RebootMethod::Firmware);
    let arming = observe(&Record::default(), &seen(start()), &wanted(&settings));
    let find_undo = step(&arming.record, Event::UndoFound(Ok(prepared(RebootMethod::Firmware))));
    let next = step(&find_undo.record, Event::Polled(&seen(after(5))));
    assert!(matches!(next.effect, Some(Effect::Disarm(_))), "{next:?}");
    let armed = step(&find_undo.record, Event::Armed(Ok(prepared(RebootMethod::Firmware))));
    let arranged = armed.record.phase.arranged().unwrap();
    let schedule = Ok(Some((arranged.kind.name().to_owned(), arranged.usec)));
    let found = step(&armed.record, Event::Polled(&FastFacts { schedule, ..seen(after(5)) }));
    assert!(matches!(found.record.phase, Phase::Scheduled { .. }), "{found:?}");
    let lost = step(&armed.record, Event::Polled(&seen(after(5))));
    assert!(matches!(lost.effect, Some(Effect::Disarm(_))), "{lost:?}");
    assert_eq!(lost.record.attempts, []);
}

#[test]
fn command_runs_once_and_only_when_seen_before_its_time() {
    let settings = settings(RebootMethod::Command);
    let (record, _) = scheduled(RebootMethod::Command);
    let due = FastFacts { last_ours: Some(after(59)), ..seen(after(61)) };
    let runs = observe(&record, &due, &wanted(&settings));
    assert_eq!(runs.effect, Some(Effect::RunCommand));
    let again = observe(&runs.record, &due, &wanted(&settings));
    assert_eq!(again.effect, None, "after a crash it counts as run: {again:?}");
    let unseen = observe(&record, &seen(after(61)), &wanted(&settings));
    assert!(unseen.record.phase.needs_operator() && unseen.effect.is_none(), "{unseen:?}");
    let held = FastFacts { vetoes: vec![Veto::new(WaitsFor::Hold, "held")], ..due.clone() };
    assert_eq!(observe(&record, &held, &wanted(&settings)).effect, None);
    let late = FastFacts { last_ours: Some(after(59)), ..seen(after(200)) };
    assert_eq!(observe(&record, &late, &wanted(&settings)).effect, None);
    // No command was started: another announcement, with the full delay.
    let off = step(&runs.record, Event::CommandEnded(CommandResult::Replaced));
    assert_eq!((&off.record.phase, off.record.attempts.len()), (&Phase::Rest, 0));
}

/// The clock's alarm survives the boot, and would ring in it.
#[test]
fn boot_undoes_only_what_it_does_not_reset() {
    for (method, disarms) in [(RebootMethod::Firmware, false), (RebootMethod::Rtc, true)] {
        let (mut record, _) = scheduled(RebootMethod::Firmware);
        let Phase::Scheduled { arranged } = &mut record.phase else { panic!() };
        arranged.prepared.as_mut().unwrap().method = method;
        let boot = FastFacts { boot_id: "b-2".into(), ..seen(after(100)) };
        let booted = step(&record, Event::Polled(&boot));
        assert_eq!(matches!(booted.effect, Some(Effect::Disarm(_))), disarms, "{booted:?}");
    }
}
