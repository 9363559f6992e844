//! The daemon on a private bus: its actions on drift and reboots, and its reports.

mod absent;
mod armed;
mod boot;
mod bus;
mod by_itself;
mod cancelled;
mod checks;
mod commands;
mod entry;
mod flood;
mod flooder;
mod foreign_links;
mod heard;
mod held;
mod last_boot;
mod last_verdict;
mod lints;
mod lock;
mod logind;
mod node;
mod offline;
mod planted;
mod policy;
mod quiet;
mod ready_target;
mod reboot_methods;
mod reboots;
mod replaced;
mod rig;
mod secrets;
mod sockets;
mod steps;
mod tls;
mod truth;

use std::time::Duration;

use bedplate_daemon::status::{State, Verdict};
use bedplate_tests::program;
use rig::{Rig, drifted, failed, fixed, right, until};
use serde_json::json;

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn drift_is_remediated_and_reported() {
    let mut rig = Rig::new();
    rig.look(&drifted(&rig));
    rig.after(&fixed(&rig));
    rig.start();
    let status = rig.until("converged", |status| status.state == State::Converged);
    assert_eq!(status.verdict, Verdict::Ready);
    assert_eq!(rig.calls()[..2], ["worker", &format!("worker --only={}", rig::KEY)]);
    assert!(rig.logged("drifted: port 0000:22:00.0 ACS control: 001d → 0011"));
    assert!(rig.logged("done: port 0000:22:00.0"));
    // The files have the same state, for programs without a bus.
    assert!(rig.read("run/bedplate/bedplate.prom").contains("bedplate_ready 1\n"));
    let file: serde_json::Value =
        serde_json::from_str(&rig.read("run/bedplate/status.json")).expect("JSON");
    assert_eq!(file["state"], "converged");
}

/// The host is converged but bedplate's own files are not: a later revert will lack an entry, and no operator is present.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn lost_history_entry_is_reported() {
    let mut rig = Rig::new();
    let mut seen = fixed(&rig);
    seen["warnings"] = json!(["cannot write the history: No space left on device"]);
    rig.look(&drifted(&rig));
    rig.after(&seen);
    rig.start();
    rig.until("converged", |status| status.state == State::Converged);
    assert!(rig.logged("cannot write the history: No space left on device"));
}

/// An unreadable item makes the host not ready, and the profile is not logged as converged at the same time.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn unreadable_item_is_not_reported_as_converged() {
    let mut rig = Rig::new();
    let mut seen = right(&rig);
    seen["unknowns"] =
        json!([{ "kind": "acs", "subject": "port 0000:22:00.0", "reason": "no config space" }]);
    rig.look(&seen);
    rig.start();
    let status = rig.until("looked at", |status| status.state == State::Converged);
    assert_eq!((status.verdict, status.last_converged), (Verdict::CannotTell, None));
    assert!(rig.logged("cannot read acs port 0000:22:00.0: no config space"));
    assert!(!rig.logged("converged on profile"), "{}", rig.read("log"));
    rig.look(&right(&rig));
    rig.touch();
    rig.until("ready", |status| {
        status.verdict == Verdict::Ready && status.last_converged.is_some()
    });
    assert!(rig.logged("converged on profile test"));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn observe_mode_never_applies() {
    let mut rig = Rig::new();
    let mut seen = drifted(&rig);
    seen["agent"]["mode"] = json!("observe");
    rig.look(&seen);
    rig.start();
    let status = rig.until("drifted", |status| status.state == State::Drifted);
    assert_eq!(status.verdict, Verdict::NotReady);
    rig.touch();
    rig.settle();
    assert!(
        rig.calls().len() >= 2 && rig.calls().iter().all(|call| call == "worker"),
        "{:?}",
        rig.calls()
    );
}

/// Another bedplate process is running: the host's state is known nevertheless, and the change is retried.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn worker_that_cannot_start_is_a_failed_change() {
    let mut rig = Rig::new();
    rig.look(&drifted(&rig));
    rig.after(&fixed(&rig));
    let worker = rig.read("worker");
    let locked = "*--only*) if [ -e locked ]; then cat locked >&2; exit 1; fi;";
    rig.program("worker", &worker.replace("*--only*)", locked));
    rig.write("locked", "another bedplate process is running\n");
    rig.start();
    let status = rig.until("failed", |status| status.state == State::Failed);
    assert!(status.reason.contains("another bedplate process is running"), "{}", status.reason);
    assert_eq!(status.changes.len(), 1, "what differs is known");
    std::fs::remove_file(rig.path("locked")).expect("ours");
    rig.until("tried again", |status| status.state == State::Converged);
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn burst_of_events_causes_one_observation() {
    let mut rig = Rig::new();
    std::fs::create_dir(rig.path("watched")).expect("ours");
    rig.look(&right(&rig));
    rig.start();
    rig.until("converged", |status| status.state == State::Converged);
    let before = rig.calls().len();
    for number in 0..1000 {
        std::fs::write(rig.path(&format!("watched/{number}")), "").expect("ours");
    }
    until("it has looked", || rig.calls().len() > before);
    rig.settle();
    assert_eq!(rig.calls().len(), before + 1, "{:?}", rig.calls());
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn three_reverts_make_a_conflict() {
    let mut rig = Rig::new();
    rig.after(&fixed(&rig));
    rig.look(&right(&rig));
    std::fs::create_dir_all(rig.path("watched")).expect("ours");
    rig.start();
    rig.until("converged", |status| status.state == State::Converged);
    let applied = |rig: &Rig| rig.calls().iter().filter(|call| call.contains("--only")).count();
    for times in 1..=3 {
        rig.look(&drifted(&rig));
        std::fs::write(rig.path("watched/x"), times.to_string()).expect("ours");
        // Logged when the worker has ended.
        until("it is put back", || rig.read("log").matches("done: port").count() == times);
        rig.until("converged", |status| status.state == State::Converged);
    }
    rig.look(&drifted(&rig));
    std::fs::write(rig.path("watched/x"), "again").expect("ours");
    let status = rig.until("conflicts", |status| status.state == State::Conflict);
    assert_eq!((status.verdict, applied(&rig)), (Verdict::NotReady, 3));
    assert!(rig.logged("was reverted 3 times and is left alone; last value: ACS control: 001d"));
    let (_, said) = rig.run(&["status"]);
    assert!(said.contains("`bedplate reconcile` retries now"), "{said}");
    // An operator who has fixed the cause.
    let answered = rig.runtime.block_on(async { rig.agent().await?.reconcile().await });
    assert_eq!(answered.expect("root may"), "converged");
    assert_eq!(applied(&rig), 4);
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn failed_change_is_retried_later() {
    let mut rig = Rig::new();
    let failed = failed(&rig);
    rig.look(&drifted(&rig));
    rig.after(&failed);
    rig.start();
    let status = rig.until("failed", |status| status.state == State::Failed);
    assert!(status.reason.contains("no such port"), "{}", status.reason);
    let applied = |rig: &Rig| rig.calls().iter().filter(|call| call.contains("--only")).count();
    // Events do not trigger the retry; time does.
    rig.touch_watched();
    assert_eq!(applied(&rig), 1);
    // The observation without a change keeps the reason.
    let (_, said) = rig.run(&["status"]);
    for part in
        ["not ready: port 0000:22:00.0: no such port", "failed\n  port 0000:22:00.0: no such port"]
    {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
    rig.after(&fixed(&rig));
    until("it is tried again", || applied(&rig) == 2);
    rig.until("converged", |status| status.state == State::Converged);
}

impl Rig {
    fn touch_watched(&self) {
        std::fs::create_dir_all(self.path("watched")).expect("ours");
        std::fs::write(self.path("watched/y"), "").expect("ours");
        self.settle();
    }
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn unusable_profile_is_reported_and_changes_nothing() {
    let mut rig = Rig::new();
    rig.look(&right(&rig));
    rig.start();
    rig.write("fails", "error: expected a table\n  --> /etc/bedplate/profile.toml:3:1");
    rig.touch();
    let status = rig.until("error", |status| status.state == State::Error);
    assert_eq!(status.verdict, Verdict::CannotTell);
    assert!(status.reason.contains("profile.toml:3:1"), "{}", status.reason);
    std::fs::remove_file(rig.path("fails")).expect("ours");
    rig.touch();
    rig.until("converged", |status| status.state == State::Converged);
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn second_daemon_does_not_start() {
    let mut rig = Rig::new();
    rig.look(&right(&rig));
    rig.start();
    let second =
        program::bedplate(&["daemon", "--state-root", &rig.dir.path().display().to_string()])
            .env("DBUS_SYSTEM_BUS_ADDRESS", rig.address())
            .output()
            .expect("it starts");
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("is a second daemon running?"), "{said}");
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn drift_is_remediated_without_a_bus() {
    let rig = Rig::new();
    rig.look(&drifted(&rig));
    rig.after(&fixed(&rig));
    let mut daemon =
        program::bedplate(&["daemon", "--state-root", &rig.dir.path().display().to_string()])
            .arg(format!("--worker={}", rig.path("worker").display()))
            .env("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nowhere/at/all")
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("it starts");
    until("the file says so", || {
        rig.read("run/bedplate/status.json").contains("\"state\": \"converged\"")
    });
    let _ = daemon.kill();
    let _ = daemon.wait();
}

/// After a kill at any moment the next daemon continues.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn daemon_killed_at_any_moment_continues() {
    let mut rig = Rig::new();
    rig.after(&fixed(&rig));
    for number in 0..12 {
        rig.look(&drifted(&rig));
        rig.write("slow", "0.1");
        rig.start_blindly();
        std::thread::sleep(Duration::from_millis(number * 40));
        rig.kill();
    }
    std::fs::remove_file(rig.path("slow")).expect("ours");
    rig.look(&drifted(&rig));
    rig.start();
    rig.until("converged", |status| status.state == State::Converged);
}
