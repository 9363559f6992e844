//! No reboot into a boot entry that is not known to be sound; reboots that are moved, lost, or blocked late.

use bedplate_daemon::reboot::state::{RebootState, WaitsFor};
use serde_json::{Value, json};

use super::reboots::{scheduled, schedules};
use super::rig::{Rig, failed, right, until, waiting};

fn empty() -> Value {
    json!({ "state": "unknown", "reasons": ["the menu has no entry"] })
}

/// The observation of a host whose menu is empty.
fn without_entry(mut seen: Value) -> Value {
    seen["next_boot"] = empty();
    seen
}

/// Sets the next observation without an event.
fn quietly(rig: &Rig, seen: &Value) {
    rig.write("look.json", &seen.to_string());
}

fn waits_for_entry(rig: &Rig) {
    let status = rig.until("waits", |status| {
        matches!(&status.reboot.state, RebootState::Waiting { why, .. }
            if why.iter().any(|why| why.waits_for == WaitsFor::BootEntry))
    });
    let text = status.reboot.state.to_string();
    assert!(text.contains("the menu has no entry"), "{text}");
}

fn asks(rig: &Rig, args: &[&str]) -> (Option<i32>, String) {
    rig.run(&[&["reboot", "schedule", "--in", "1h"], args].concat())
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn unsound_entry_forbids_policy_and_request_unless_forced() {
    let mut rig = Rig::new();
    rig.look(&without_entry(waiting(&rig)));
    rig.start();
    waits_for_entry(&rig);
    let (code, said) = asks(&rig, &[]);
    assert!(code == Some(4) && said.contains("the menu has no entry"), "{said}");
    assert_eq!(rig.asked_of_logind(), [""; 0]);
    let (code, said) = asks(&rig, &["--force"]);
    assert!(code == Some(0) && said.contains("may not boot again"), "{said}");
    assert_eq!(rig.record()["asked"]["force"], true);
    // `--force` applies to that request only.
    let (code, said) = rig.run(&["reboot", "cancel"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = asks(&rig, &[]);
    assert_eq!((code, schedules(&rig)), (Some(4), 1), "{said}");
    let (_, said) = rig.run(&["reboot", "status"]);
    assert!(said.contains("next boot the next boot entry is not known to be sound"), "{said}");
}

/// The menu is emptied after the last observation, without an event.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn entry_is_read_again_before_scheduling() {
    let mut rig = Rig::new();
    rig.inhibit(&["backup"]);
    rig.look(&waiting(&rig));
    rig.start();
    rig.until("waits", |status| matches!(status.reboot.state, RebootState::Waiting { .. }));
    quietly(&rig, &without_entry(waiting(&rig)));
    rig.inhibit(&[]);
    waits_for_entry(&rig);
    assert_eq!(rig.asked_of_logind(), [""; 0]);
    quietly(&rig, &waiting(&rig));
    rig.touch();
    until("scheduled", || scheduled(&rig));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn reboot_is_cancelled_when_its_entry_is_lost() {
    let mut rig = Rig::new();
    rig.look(&waiting(&rig));
    rig.start();
    until("scheduled", || scheduled(&rig));
    rig.look(&without_entry(waiting(&rig)));
    rig.touch();
    until("cancelled", || rig.login.lock().expect("not poisoned").scheduled.is_none());
    waits_for_entry(&rig);
}

/// Schedules a reboot that is due in 18 s. Returns the observation.
fn due_soon(rig: &mut Rig) -> Value {
    let mut seen = waiting(rig);
    seen["reboot"]["delay_s"] = json!(18);
    rig.look(&seen);
    rig.start();
    until("scheduled", || scheduled(rig));
    seen
}

/// Adds a due change whose tool runs until the file `at` is removed.
fn change_without_end(rig: &Rig, mut seen: Value) {
    rig.after(&seen);
    rig.write("at", "at update-grub\n");
    seen["changes"] = json!([super::rig::difference()]);
    rig.look(&seen);
    rig.touch();
}

fn cancelled_within(rig: &Rig, seconds: u64) {
    let due = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    until("cancelled", || rig.login.lock().expect("not poisoned").scheduled.is_none());
    assert!(std::time::Instant::now() < due, "{}", rig.read("log"));
}

/// A reboot that is due in seconds is checked once more, with or without an event.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn last_seconds_find_a_lost_entry_and_a_kexec_kernel() {
    for kexec in [false, true] {
        let mut rig = Rig::new();
        let seen = due_soon(&mut rig);
        match kexec {
            true => std::fs::write(rig.path("sys/kernel/kexec_loaded"), "1\n").expect("ours"),
            false => quietly(&rig, &without_entry(seen)),
        }
        cancelled_within(&rig, 16);
    }
}

/// The menu is emptied in the last seconds, and the busy command needs more time than remains.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn slow_busy_command_does_not_delay_the_final_check() {
    let mut rig = Rig::new();
    let mut seen = waiting(&rig);
    seen["reboot"]["delay_s"] = json!(18);
    seen["reboot"]["busy_command"] = json!(["/bin/sh", "-c", "sleep 8"]);
    rig.look(&seen);
    rig.start_blindly();
    until("scheduled", || scheduled(&rig));
    quietly(&rig, &without_entry(seen));
    cancelled_within(&rig, 14);
    waits_for_entry(&rig);
}

/// The observation hangs: the entry is neither known to be sound nor known to be broken.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn reboot_is_cancelled_when_its_entry_is_not_read_in_time() {
    let mut rig = Rig::new();
    due_soon(&mut rig);
    rig.write("wait", "");
    cancelled_within(&rig, 17);
    rig.until("waits", |status| {
        matches!(&status.reboot.state, RebootState::Waiting { why, .. }
            if why.iter().any(|why| why.waits_for == WaitsFor::BootEntry))
    });
    std::fs::remove_file(rig.path("wait")).expect("ours");
    rig.touch();
    until("scheduled again", || scheduled(&rig));
}

/// An observation hangs, and then the final check of the entry does.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn hanging_observation_does_not_delay_the_final_check() {
    let mut rig = Rig::new();
    due_soon(&mut rig);
    rig.write("wait", "");
    rig.touch();
    cancelled_within(&rig, 17);
}

/// The daemon is restarted shortly before a reboot, and its first observation hangs.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn restarted_daemon_with_hanging_worker_cancels_a_reboot() {
    let mut rig = Rig::new();
    due_soon(&mut rig);
    rig.kill();
    rig.write("wait", "");
    rig.start_blindly();
    cancelled_within(&rig, 17);
}

/// Changes that are running in the last seconds may be changing the boot entry.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn running_change_cancels_the_reboot() {
    let mut rig = Rig::new();
    let seen = due_soon(&mut rig);
    change_without_end(&rig, seen);
    until("changing", || rig.calls().iter().any(|call| call.contains("--only")));
    cancelled_within(&rig, 16);
    std::fs::remove_file(rig.path("at")).expect("ours");
    until("scheduled again", || scheduled(&rig));
}

/// logind ignores the first cancellation.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn cancellation_is_retried_while_a_change_runs() {
    let mut rig = Rig::new();
    let seen = due_soon(&mut rig);
    rig.login.lock().expect("not poisoned").keeps = true;
    change_without_end(&rig, seen);
    until("refused", || rig.asked_of_logind().iter().any(|call| call == "cancel"));
    rig.login.lock().expect("not poisoned").keeps = false;
    cancelled_within(&rig, 5);
    std::fs::remove_file(rig.path("at")).expect("ours");
}

/// No event reports the end of the package manager.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn reboot_waits_for_a_package_manager() {
    let mut rig = Rig::new();
    let mut seen = waiting(&rig);
    seen["packages"] = json!("a package manager is running");
    rig.look(&seen);
    rig.start();
    let status =
        rig.until("waits", |status| matches!(status.reboot.state, RebootState::Waiting { .. }));
    let text = status.reboot.state.to_string();
    assert!(text.contains("a package manager is running"), "{text}");
    assert_eq!(rig.asked_of_logind(), [""; 0]);
    quietly(&rig, &waiting(&rig));
    // The daemon asks every 30 s.
    std::thread::sleep(std::time::Duration::from_secs(25));
    until("scheduled", || scheduled(&rig));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn schedule_moves_a_scheduled_reboot() {
    let mut rig = Rig::new();
    rig.look(&right(&rig));
    rig.start();
    let left = |rig: &Rig| {
        let scheduled = rig.login.lock().expect("not poisoned").scheduled.clone().expect("one");
        let at = bedplate_daemon::logind::time(scheduled.1);
        at.duration_since(jiff::Timestamp::now()).as_secs()
    };
    let (code, said) = rig.run(&["reboot", "schedule", "--in", "30m"]);
    assert!(code == Some(0) && left(&rig) > 1700, "{said}");
    let (code, said) = rig.run(&["reboot", "schedule", "--in", "1m"]);
    assert!(code == Some(0) && left(&rig) < 61, "{said}");
}

/// A soft-reboot discards logind's schedule; that is not a cancellation.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn soft_reboot_schedules_again() {
    let mut rig = Rig::new();
    rig.look(&right(&rig));
    rig.start();
    let (code, said) = rig.run(&["reboot", "schedule", "--in", "30m"]);
    assert_eq!(code, Some(0), "{said}");
    rig.stop();
    {
        let mut login = rig.login.lock().expect("not poisoned");
        (login.scheduled, login.soft_reboots) = (None, 1);
    }
    rig.start();
    until("scheduled again", || scheduled(&rig));
    assert!(!rig.logged("was cancelled"), "{}", rig.read("log"));
    assert!(rig.logged("a soft-reboot discarded it"), "{}", rig.read("log"));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn failing_changes_and_hold_are_named_before_a_reboot_is_due() {
    let mut rig = Rig::new();
    let mut seen = failed(&rig);
    seen["changes"][0]["effect"] = json!("cold-boot");
    seen["done"] = json!([]);
    rig.look(&seen);
    rig.after(&seen);
    // The unit's StateDirectory=.
    rig.write("var/lib/bedplate/README", "");
    rig.start();
    rig.until("waiting for changes", |status| {
        status.reboot.state == RebootState::WaitingForChanges
    });
    let (code, said) = rig.run(&["reboot", "status"]);
    assert!(code == Some(3) && said.contains("not needed yet"), "{said}");
    rig.write(
        "var/lib/bedplate/enforce-hold.json",
        r#"{"version":1,"since":"2026-03-01T12:00:00Z","why":"broken NIC","by":"ada"}"#,
    );
    rig.until("held", |status| matches!(status.reboot.state, RebootState::Waiting { .. }));
    let (_, said) = rig.run(&["reboot", "status"]);
    assert!(said.contains("paused    enforcement paused since"), "{said}");
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn record_of_another_version_is_refused_with_its_fix() {
    let mut rig = Rig::new();
    rig.write("var/lib/bedplate/daemon/reboot.json", "{\"version\":2,\"attempts\":[]}");
    rig.look(&waiting(&rig));
    rig.start();
    let status =
        rig.until("waits", |status| matches!(status.reboot.state, RebootState::Waiting { .. }));
    let text = status.reboot.state.to_string();
    assert!(text.contains("has version 2") && text.contains("remove it"), "{text}");
    assert_eq!(rig.asked_of_logind(), [""; 0]);
    std::fs::remove_file(rig.path("var/lib/bedplate/daemon/reboot.json")).expect("ours");
    rig.touch();
    until("scheduled", || scheduled(&rig));
}
