//! Reboots: scheduled once, cancelled by every obstacle, counted by boot, never in a loop.

use bedplate_daemon::reboot::state::{RebootState, WaitsFor};
use bedplate_daemon::status::State;
use serde_json::json;

use super::rig::{Rig, right, until, waiting};

pub fn scheduled(rig: &Rig) -> bool {
    rig.status().is_some_and(|status| matches!(status.reboot.state, RebootState::Scheduled { .. }))
}

pub fn schedules(rig: &Rig) -> usize {
    rig.asked_of_logind().iter().filter(|call| call.starts_with("schedule")).count()
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn reboot_is_scheduled_once_despite_daemon_restarts() {
    let mut rig = Rig::new();
    rig.look(&waiting(&rig));
    rig.start();
    until("scheduled", || scheduled(&rig));
    let calls = rig.asked_of_logind();
    assert_eq!(calls.last().map(String::as_str), Some("schedule reboot"), "{calls:?}");
    assert!(calls[0].starts_with("wall true bedplate reboots this host at 20"), "{calls:?}");
    assert!(calls[0].contains("iommu=pt of profile test"), "{calls:?}");
    // Recorded before the request to logind.
    let record: serde_json::Value =
        serde_json::from_str(&rig.read("var/lib/bedplate/daemon/reboot.json")).expect("JSON");
    assert_eq!(
        (&record["attempts"][0]["plan"], &record["attempts"][0]["boot_id"]),
        (&json!("waits"), &json!("boot-1"))
    );
    for _ in 0..3 {
        rig.kill();
        rig.start();
        until("scheduled", || scheduled(&rig));
    }
    rig.touch();
    rig.settle();
    assert_eq!(schedules(&rig), 1, "{:?}", rig.asked_of_logind());
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn ineffective_reboot_is_stuck_until_the_host_converges() {
    let mut rig = Rig::new();
    rig.look(&waiting(&rig));
    rig.start();
    until("scheduled", || scheduled(&rig));
    // Three boots have no effect: no further reboot is requested.
    for boot in ["boot-2", "boot-3", "boot-4"] {
        rig.reboot(boot);
        let status =
            rig.until("attempts exhausted", |status| status.state == State::AttemptsExhausted);
        assert!(status.reason.contains("another entry was chosen"), "{}", status.reason);
        assert_eq!(schedules(&rig), 0, "{boot}: {:?}", rig.asked_of_logind());
    }
    assert!(
        rig.logged("rebooted, but the change is still not in effect: the default entry has it")
    );
    assert!(
        rig.read("run/bedplate/bedplate.prom")
            .contains("bedplate_state{state=\"attempts-exhausted\"} 1")
    );
    // An operator fixes the cause.
    rig.look(&right(&rig));
    rig.reboot("boot-5");
    let status = rig.until("converged", |status| status.state == State::Converged);
    assert_eq!(status.reboot.attempts, 0);
    // The same change later starts a new attempt.
    rig.look(&waiting(&rig));
    rig.touch();
    until("scheduled", || scheduled(&rig));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn stuck_host_fixed_without_a_boot_is_converged() {
    let mut rig = Rig::new();
    rig.look(&waiting(&rig));
    rig.start();
    until("scheduled", || scheduled(&rig));
    rig.reboot("boot-2");
    rig.until("attempts exhausted", |status| status.state == State::AttemptsExhausted);
    rig.look(&right(&rig));
    rig.touch();
    rig.until("converged", |status| {
        status.state == State::Converged && status.last_converged.is_some()
    });
    assert!(rig.read("var/lib/bedplate/daemon/reboot.json").contains("\"attempts\": []"));
    assert!(rig.logged("converged on profile test"));
}

/// Power fails after the attempt is recorded and before the reboot is scheduled: the attempt counts.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn power_cut_before_scheduling_counts_as_the_attempt() {
    let mut rig = Rig::new();
    rig.login.lock().expect("not poisoned").refuses = false;
    rig.look(&waiting(&rig));
    rig.start();
    until("scheduled", || scheduled(&rig));
    rig.reboot("boot-2");
    rig.until("attempts exhausted", |status| status.state == State::AttemptsExhausted);
    assert_eq!(schedules(&rig), 0);
}

/// The host is going down: logind has nothing scheduled and accepts no schedule. The attempt stays counted, otherwise the
/// next boot would not know of it.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn event_during_shutdown_keeps_the_attempt() {
    let mut rig = Rig::new();
    let mut seen = waiting(&rig);
    seen["reboot"]["delay_s"] = json!(0);
    rig.look(&seen);
    rig.start();
    until("scheduled", || schedules(&rig) == 1);
    {
        let mut login = rig.login.lock().expect("not poisoned");
        (login.scheduled, login.refuses) = (None, true);
    }
    rig.touch();
    rig.settle();
    rig.inhibit(&["late"]);
    rig.settle();
    assert_eq!(schedules(&rig), 1, "{:?}", rig.asked_of_logind());
    assert_eq!(rig.record()["attempts"][0]["boot_id"], "boot-1");
    rig.inhibit(&[]);
    rig.reboot("boot-2");
    rig.until("attempts exhausted", |status| status.state == State::AttemptsExhausted);
}

/// logind's job is cancelled after the shutdown has started: logind keeps its schedule, and the host stays up.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn abandoned_shutdown_is_reported() {
    let mut rig = Rig::new();
    rig.look(&waiting(&rig));
    rig.start();
    until("scheduled", || scheduled(&rig));
    rig.kill();
    let usec = bedplate_daemon::logind::usec(jiff::Timestamp::now()) - 16 * 60 * 1_000_000;
    rig.edit_record(|record| record["phase"]["arranged"]["usec"] = json!(usec));
    {
        let mut login = rig.login.lock().expect("not poisoned");
        login.scheduled = Some(("reboot".into(), usec));
        login.preparing = true;
    }
    rig.start();
    let under_way = |rig: &Rig| {
        rig.until("under way", |status| {
            matches!(status.reboot.state, RebootState::UnderWay { .. })
        });
    };
    under_way(&rig);
    {
        let mut login = rig.login.lock().expect("not poisoned");
        (login.preparing, login.stops) = (false, true);
    }
    rig.inhibit(&[]);
    rig.settle();
    under_way(&rig);
    rig.login.lock().expect("not poisoned").stops = false;
    rig.inhibit(&[]);
    let status =
        rig.until("ended", |status| matches!(status.reboot.state, RebootState::Cancelled { .. }));
    let said = status.reboot.cancelled_by.unwrap_or_default();
    assert!(said.contains("the machine did not go down"), "{said}");
    assert!(rig.logged("the scheduled reboot did not happen"), "{}", rig.read("log"));
    assert_eq!(rig.record()["attempts"][0]["boot_id"], "boot-1");
    assert_eq!(schedules(&rig), 1, "{:?}", rig.asked_of_logind());
    // The schedule that logind has kept is not attributed to another program.
    let asked = async { rig.agent().await?.schedule_reboot("an operator", 0).await };
    assert_eq!(rig.runtime.block_on(asked).expect("root may").0, "scheduled");
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn refusal_by_logind_counts_no_attempt() {
    let mut rig = Rig::new();
    rig.login.lock().expect("not poisoned").refuses = true;
    rig.look(&waiting(&rig));
    rig.start();
    rig.until("waits", |status| matches!(status.reboot.state, RebootState::Waiting { .. }));
    assert!(rig.read("var/lib/bedplate/daemon/reboot.json").contains("\"attempts\": []"));
    assert!(rig.logged("logind refused to schedule the reboot: "));
    rig.login.lock().expect("not poisoned").refuses = false;
    rig.touch();
    until("scheduled", || scheduled(&rig));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn foreign_schedule_is_left_alone() {
    let mut rig = Rig::new();
    rig.login.lock().expect("not poisoned").scheduled =
        Some(("poweroff".into(), 4_000_000_000_000_000));
    rig.look(&waiting(&rig));
    rig.start();
    let status =
        rig.until("waits", |status| matches!(status.reboot.state, RebootState::Waiting { .. }));
    let RebootState::Waiting { why, .. } = status.reboot.state else { unreachable!() };
    assert_eq!(why[0].waits_for, WaitsFor::OtherShutdown);
    assert!(why[0].text.contains("has scheduled a shutdown: poweroff at 2096-10-02"), "{why:?}");
    assert_eq!(rig.asked_of_logind(), [""; 0]);
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn cancellation_at_logind_is_respected() {
    let mut rig = Rig::new();
    rig.look(&waiting(&rig));
    rig.start();
    until("scheduled", || scheduled(&rig));
    assert!(
        !rig.path("run/reboot-required").exists(),
        "kured would reboot outside of hold and window"
    );
    // `shutdown -c`
    rig.login.lock().expect("not poisoned").scheduled = None;
    rig.touch();
    rig.until("called off", |status| matches!(status.reboot.state, RebootState::Cancelled { .. }));
    rig.kill();
    rig.start();
    rig.settle();
    assert_eq!(schedules(&rig), 1, "{:?}", rig.asked_of_logind());
    // Until an operator requests it.
    let said =
        rig.runtime.block_on(async { rig.agent().await?.schedule_reboot("an operator", 0).await });
    assert_eq!(said.expect("root may").0, "scheduled");
    assert_eq!(schedules(&rig), 2);
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn released_inhibitor_signal_schedules_the_reboot() {
    let mut rig = Rig::new();
    rig.inhibit(&["backup"]);
    rig.look(&waiting(&rig));
    rig.start();
    let status =
        rig.until("waits", |status| matches!(status.reboot.state, RebootState::Waiting { .. }));
    assert_eq!(status.reboot.vetoes, ["backup (process 42): a job"]);
    assert_eq!(schedules(&rig), 0);
    let begun = std::time::Instant::now();
    rig.inhibit(&[]);
    until("scheduled", || scheduled(&rig));
    // The daemon checks inhibitors on its own only every half minute.
    assert!(begun.elapsed().as_secs() < 15, "not by the signal: {:?}", begun.elapsed());
    rig.inhibit(&["apt"]);
    until("taken back", || !scheduled(&rig));
    assert_eq!(rig.login.lock().expect("not poisoned").scheduled, None);
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn hold_cancels_and_its_release_reschedules() {
    let mut rig = Rig::new();
    std::fs::create_dir_all(rig.path("var/lib/bedplate")).expect("ours");
    rig.look(&waiting(&rig));
    rig.start();
    until("scheduled", || scheduled(&rig));
    rig.write(
        "var/lib/bedplate/hold.json",
        "{\"version\":1,\"until\":null,\"why\":\"a demo\",\"by\":\"ops\"}",
    );
    until("taken back", || !scheduled(&rig));
    let status =
        rig.until("waits", |status| matches!(status.reboot.state, RebootState::Waiting { .. }));
    assert!(
        status.reboot.vetoes.iter().any(|veto| veto.contains("a demo")),
        "{:?}",
        status.reboot.vetoes
    );
    std::fs::remove_file(rig.path("var/lib/bedplate/hold.json")).expect("ours");
    until("scheduled again", || scheduled(&rig));
    // An unreadable hold counts as a hold.
    rig.write("var/lib/bedplate/hold.json", "{");
    until("taken back", || !scheduled(&rig));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn loaded_kexec_kernel_and_busy_command_block_the_reboot() {
    let mut rig = Rig::new();
    rig.write("sys/kernel/kexec_loaded", "1\n");
    let mut seen = waiting(&rig);
    seen["reboot"]["busy_command"] = json!(["/bin/sh", "-c", "echo 3 jobs; exit 1"]);
    rig.look(&seen);
    rig.start();
    let status =
        rig.until("waits", |status| matches!(status.reboot.state, RebootState::Waiting { .. }));
    assert!(status.reboot.vetoes[0].contains("kexec --unload"), "{:?}", status.reboot.vetoes);
    assert_eq!(status.reboot.vetoes[1], "busy command: 3 jobs");
    assert_eq!(schedules(&rig), 0);
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn reboot_waits_for_its_window() {
    let mut rig = Rig::new();
    let mut seen = waiting(&rig);
    let now = jiff::Zoned::now().with_time_zone(jiff::tz::TimeZone::UTC);
    let later = now.checked_add(jiff::SignedDuration::from_hours(3)).expect("a time");
    let window = format!("{:02}:00-{:02}:30 UTC", later.hour(), later.hour());
    seen["reboot"]["windows"] = json!([window]);
    rig.look(&seen);
    rig.start();
    let status =
        rig.until("waits", |status| matches!(status.reboot.state, RebootState::Waiting { .. }));
    let RebootState::Waiting { until, .. } = status.reboot.state else { unreachable!() };
    assert!(until.is_some());
    assert_eq!(rig.asked_of_logind(), [""; 0]);
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn unreadable_record_blocks_the_reboot() {
    let mut rig = Rig::new();
    rig.write("var/lib/bedplate/daemon/reboot.json", "{");
    rig.look(&waiting(&rig));
    rig.start();
    let status =
        rig.until("waits", |status| matches!(status.reboot.state, RebootState::Waiting { .. }));
    let RebootState::Waiting { why, .. } = status.reboot.state else { unreachable!() };
    assert_eq!(why[0].waits_for, WaitsFor::Record, "{why:?}");
    assert_eq!(rig.asked_of_logind(), [""; 0]);
}

/// With a damaged record boots cannot be counted: the reboot is cancelled, and the record is kept for the operator.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn damaged_record_is_not_replaced_by_an_empty_one() {
    for fails in [false, true] {
        let mut rig = Rig::new();
        rig.look(&waiting(&rig));
        rig.start();
        until("scheduled", || scheduled(&rig));
        rig.write("var/lib/bedplate/daemon/reboot.json", "{");
        if fails {
            rig.write("fails", "error: broken");
        }
        rig.touch();
        until("taken back", || rig.login.lock().expect("not poisoned").scheduled.is_none());
        rig.settle();
        assert_eq!(rig.read("var/lib/bedplate/daemon/reboot.json"), "{", "{}", rig.read("log"));
        assert_eq!(schedules(&rig), 1, "{}", rig.read("log"));
    }
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn failed_observation_cancels_the_reboot() {
    let mut rig = Rig::new();
    rig.look(&waiting(&rig));
    rig.start();
    until("scheduled", || scheduled(&rig));
    rig.write("fails", "error: broken");
    rig.touch();
    until("taken back", || rig.login.lock().expect("not poisoned").scheduled.is_none());
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn observe_mode_never_reboots() {
    let mut rig = Rig::new();
    let mut seen = waiting(&rig);
    seen["agent"]["mode"] = json!("observe");
    rig.look(&seen);
    rig.start();
    let status = rig.until("waits", |status| status.state == State::WaitingForBoot);
    assert_eq!(status.reboot.state, RebootState::Manual);
    assert_eq!(rig.asked_of_logind(), [""; 0]);
    assert!(!rig.path("run/reboot-required").exists());
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn mark_policy_writes_the_marker_and_schedules_nothing() {
    let mut rig = Rig::new();
    let mut seen = waiting(&rig);
    seen["reboot"]["policy"] = json!("mark");
    rig.look(&seen);
    rig.start();
    assert_eq!(rig.read("run/reboot-required.pkgs"), "bedplate\n");
    assert_eq!(rig.asked_of_logind(), [""; 0]);
    rig.look(&right(&rig));
    rig.touch();
    rig.until("converged", |status| status.state == State::Converged);
    assert!(!rig.path("run/reboot-required").exists());
}

/// The message is shown on every terminal, and contains texts of the host and of operators.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn wall_message_is_one_line_without_control_characters() {
    const EVIL: &str = "x\u{1b}[2J\u{9b}31m\u{202e}\r\nroot: all is well";
    let mut rig = Rig::new();
    let mut round = waiting(&rig);
    round["pending"][0]["subject"] = json!(EVIL);
    rig.look(&round);
    rig.start();
    until("scheduled", || scheduled(&rig));
    let walls: Vec<String> =
        rig.asked_of_logind().into_iter().filter(|call| call.starts_with("wall true")).collect();
    assert!(!walls.is_empty());
    for wall in walls {
        assert!(!wall.contains(bedplate_base::terminal::is_control), "{wall:?}");
        assert!(wall.contains("\\u{1b}[2J") && wall.contains("root: all is well"), "{wall}");
    }
}
