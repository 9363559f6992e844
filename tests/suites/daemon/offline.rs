//! Holds, cancellations and releases: they work without a daemon, ask logind themselves, and return when it has answered.

use std::time::Duration;

use bedplate_daemon::logind;
use bedplate_daemon::reboot::state::RebootState;
use bedplate_tests::program;
use serde_json::json;

use super::reboots::{scheduled, schedules};
use super::rig::{RECORD, Rig, right, until, waiting};

const WHY: [&str; 2] = ["--why", "training run 7"];

impl Rig {
    /// Runs `bedplate reboot …` on this host.
    fn reboot_command(&self, args: &[&str]) -> (Option<i32>, String) {
        let root = format!("--state-root={}", self.dir.path().display());
        self.run(&[&["reboot"], args, &[root.as_str()]].concat())
    }

    fn has_schedule(&self) -> bool {
        self.login.lock().expect("not poisoned").scheduled.is_some()
    }
}

/// A host with a scheduled reboot, and no daemon.
fn left_behind() -> Rig {
    let mut rig = Rig::new();
    rig.look(&waiting(&rig));
    rig.start();
    until("scheduled", || scheduled(&rig));
    rig.stop();
    assert!(rig.has_schedule(), "an upgrade restarts the daemon");
    rig
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn reboot_of_a_stopped_daemon_is_reported() {
    let rig = left_behind();
    assert!(rig.logged("systemd-logind keeps the reboot scheduled for 20"), "{}", rig.read("log"));
    assert!(rig.logged("or `shutdown -c`"), "{}", rig.read("log"));
    let (code, said) = rig.reboot_command(&["status"]);
    assert!(code == Some(3) && said.contains("scheduled for 20"), "{said}");
    let (code, said) = rig.reboot_command(&["status", "--json"]);
    assert!(code == Some(3) && said.contains("\"state\": \"scheduled\""), "{said}");
    let root = format!("--state-root={}", rig.dir.path().display());
    let (_, said) = rig.run(&["status", &root]);
    assert!(said.contains("reboot: scheduled for 20"), "{said}");
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn hold_without_daemon_cancels_at_logind() {
    let mut rig = left_behind();
    let (code, said) = rig.reboot_command(&[&["hold"][..], &WHY].concat());
    assert!(code == Some(0) && said.contains("cancelled the reboot scheduled for 20"), "{said}");
    assert!(!rig.has_schedule());
    assert_eq!(rig.phase(), "rest");
    // The next daemon does not take it for a cancellation by an operator.
    rig.start();
    rig.until("waits", |status| matches!(status.reboot.state, RebootState::Waiting { .. }));
    let (code, said) = rig.reboot_command(&["release"]);
    assert!(code == Some(0) && said.contains("released"), "{said}");
    assert!(scheduled(&rig), "published before the command returns");
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn cancel_without_daemon_cancels_at_logind() {
    let mut rig = left_behind();
    let (code, said) = rig.reboot_command(&["cancel"]);
    assert!(code == Some(0) && said.contains("cancelled the reboot scheduled for 20"), "{said}");
    assert!(!rig.has_schedule());
    rig.start();
    rig.until("called off", |status| matches!(status.reboot.state, RebootState::Cancelled { .. }));
    rig.settle();
    assert_eq!(schedules(&rig), 1, "{:?}", rig.asked_of_logind());
}

/// Exit status 0 means that logind no longer has the reboot scheduled.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn hold_fails_when_logind_may_keep_the_reboot() {
    for bus in [true, false] {
        let mut rig = left_behind();
        match bus {
            true => rig.login.lock().expect("not poisoned").keeps = true,
            false => rig.stop_bus(),
        }
        for args in [&[&["hold"][..], &WHY].concat()[..], &["cancel"], &["release"]] {
            let (code, said) = rig.reboot_command(args);
            assert!(code == Some(1) && said.contains("shutdown -c"), "{args:?}: {said}");
        }
        assert!(rig.path("var/lib/bedplate/hold.json").exists(), "it holds for the next daemon");
    }
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn hold_fails_during_a_shutdown() {
    for daemon in [true, false] {
        let mut rig = left_behind();
        rig.login.lock().expect("not poisoned").preparing = true;
        if daemon {
            rig.start();
        }
        let (code, said) = rig.reboot_command(&[&["hold"][..], &WHY].concat());
        assert!(code == Some(1) && said.contains("already going down"), "{said}");
        assert_eq!(rig.record()["attempts"][0]["boot_id"], "boot-1", "it counts");
    }
}

/// The daemon has already checked for a hold, and logind answers its request after seconds.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn hold_waits_for_the_daemons_request_to_logind() {
    let mut rig = Rig::new();
    rig.login.lock().expect("not poisoned").slow_schedule = Duration::from_secs(2);
    rig.look(&waiting(&rig));
    rig.start_blindly();
    until("logind is asked", || schedules(&rig) == 1);
    let (code, said) = rig.reboot_command(&[&["hold"][..], &WHY].concat());
    assert_eq!(code, Some(0), "{said}");
    assert!(!rig.has_schedule(), "{:?}\n{}", rig.asked_of_logind(), rig.read("log"));
    rig.settle();
    assert!(!rig.has_schedule(), "{:?}\n{}", rig.asked_of_logind(), rig.read("log"));
    assert_eq!(rig.phase(), "rest");
    rig.until("waits", |status| matches!(status.reboot.state, RebootState::Waiting { .. }));
}

/// The same without a daemon that would notice, because it died after its request to logind or is still waiting. The
/// command reads logind's schedule once it has the lock, however long that takes.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn commands_read_logind_under_the_record_lock() {
    for args in [&[&["hold"][..], &WHY].concat()[..], &["cancel"], &["release"]] {
        let rig = Rig::new();
        let usec = logind::usec(jiff::Timestamp::now()) + 600_000_000;
        let arranged = json!({ "boot_id": "boot-1", "kind": "reboot", "usec": usec, "plan": "p", "method": "ordinary",
            "request": null, "userspace": null, "prepared": null });
        let attempt = json!({ "plan": "p", "boot_id": "boot-1", "at": "2026-03-03T03:00:00Z", "method": "ordinary",
            "subject": "", "dry_run": false, "passthrough": false, "followed": false });
        let record = json!({ "version": 3, "attempts": [attempt],
            "phase": { "phase": "scheduling", "arranged": arranged } });
        rig.write(RECORD, &record.to_string());
        if args == ["release"] {
            rig.write(
                "var/lib/bedplate/hold.json",
                "{\"version\":1,\"until\":null,\"why\":\"w\",\"by\":\"ada\"}",
            );
        }
        let lock = std::fs::File::open(rig.path("var/lib/bedplate/daemon")).expect("ours");
        lock.lock().expect("nobody else has it");
        let (code, said) = std::thread::scope(|scope| {
            let command = scope.spawn(|| rig.reboot_command(args));
            std::thread::sleep(Duration::from_secs(1));
            let scheduled = Some(("reboot".to_owned(), usec));
            rig.login.lock().expect("not poisoned").scheduled = scheduled;
            drop(lock);
            command.join().expect("it ends")
        });
        assert_eq!((code, rig.has_schedule()), (Some(0), false), "{args:?}: {said}");
        assert_eq!(rig.record()["attempts"], json!([]), "{args:?}: {said}");
    }
}

/// Another process may schedule the reboot while a command decides, so only logind's own answer counts.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn cancel_just_before_the_request_to_logind_is_kept() {
    let mut rig = Rig::new();
    rig.login.lock().expect("not poisoned").slow = Duration::from_secs(2);
    rig.look(&waiting(&rig));
    rig.start_blindly();
    until("it is about to be asked", || {
        rig.asked_of_logind().iter().any(|one| one.starts_with("wall"))
    });
    let (code, said) = rig.reboot_command(&["cancel"]);
    assert_eq!(code, Some(0), "{said}");
    rig.settle();
    assert!(!rig.has_schedule(), "{:?}\n{}", rig.asked_of_logind(), rig.read("log"));
}

/// A command returns when the status shows its result.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn status_after_a_command_shows_its_result() {
    let mut rig = Rig::new();
    rig.look(&waiting(&rig));
    rig.start();
    until("scheduled", || scheduled(&rig));
    for _ in 0..3 {
        let (code, said) = rig.reboot_command(&[&["hold"][..], &WHY].concat());
        assert_eq!(code, Some(0), "{said}");
        assert!(!rig.has_schedule());
        let status = rig.status().expect("it answers");
        assert!(status.reboot.hold.is_some(), "{:?}", status.reboot);
        assert!(matches!(status.reboot.state, RebootState::Waiting { .. }), "{:?}", status.reboot);
        let (code, said) = rig.reboot_command(&["release"]);
        assert_eq!(code, Some(0), "{said}");
        let status = rig.status().expect("it answers");
        assert!(status.reboot.hold.is_none(), "{:?}", status.reboot);
        assert!(scheduled(&rig), "{:?}", status.reboot);
    }
    let (code, said) = rig.reboot_command(&["cancel"]);
    assert_eq!(code, Some(0), "{said}");
    let status = rig.status().expect("it answers");
    assert!(matches!(status.reboot.state, RebootState::Cancelled { .. }), "{:?}", status.reboot);
    let (code, said) = rig.run(&["reboot", "schedule", "--in", "2h"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(scheduled(&rig));
}

/// Without the record the owner of logind's schedule is unknown.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn hold_with_a_damaged_record_does_not_claim_success() {
    let rig = left_behind();
    rig.write(RECORD, "{");
    let (code, said) = rig.reboot_command(&[&["hold"][..], &WHY].concat());
    assert!(code == Some(1) && said.contains("possibly by bedplate"), "{said}");
    rig.login.lock().expect("not poisoned").scheduled = None;
    let (code, said) = rig.reboot_command(&[&["hold"][..], &WHY].concat());
    assert_eq!(code, Some(0), "{said}");
}

/// Another program's schedule is not bedplate's to cancel.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn hold_leaves_another_shutdown_alone() {
    let rig = left_behind();
    let theirs = Some(("poweroff".to_owned(), 4_000_000_000_000_000));
    rig.login.lock().expect("not poisoned").scheduled.clone_from(&theirs);
    let (code, said) = rig.reboot_command(&[&["hold"][..], &WHY].concat());
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(rig.login.lock().expect("not poisoned").scheduled, theirs);
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn times_in_the_past_are_refused() {
    let mut rig = Rig::new();
    rig.look(&right(&rig));
    rig.start();
    let output = program::bedplate(&["reboot", "schedule", "--at", "2026-03-03T03:00Z"])
        .env("DBUS_SYSTEM_BUS_ADDRESS", rig.address())
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("is in the past"), "{said}");
    let past = 1_700_000_000_000_000;
    let asked = async { rig.agent().await?.schedule_reboot("an operator", past).await };
    assert!(rig.runtime.block_on(asked).is_err());
    assert_eq!(rig.asked_of_logind(), [""; 0]);
    assert_eq!(rig.record()["asked"], serde_json::Value::Null);
}
