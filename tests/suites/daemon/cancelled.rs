//! A cancelled reboot stays cancelled, also if the daemon was not running, the disk was full, or the bus silent. The
//! operator's power-cycle command runs once, at its time, or not at all.

use std::time::Duration;

use bedplate_daemon::logind;
use bedplate_daemon::status::State;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::rig::{RECORD, Rig, right, until, waiting};

const HELD: &str = "{\"version\":1,\"until\":null,\"why\":\"a demo\",\"by\":\"ops\"}";

fn schedules(rig: &Rig) -> usize {
    rig.asked_of_logind().iter().filter(|call| call.starts_with("schedule")).count()
}

/// Requests a reboot in this many seconds, as an operator.
fn schedule(rig: &Rig, seconds: i64) {
    let asked = async { rig.agent().await?.schedule_reboot("an operator", later(seconds)).await };
    let (state, said) = rig.runtime.block_on(asked).expect("root may");
    assert_eq!(state, "scheduled", "{said}");
}

fn later(seconds: i64) -> u64 {
    logind::usec(Timestamp::now() + SignedDuration::from_secs(seconds))
}

/// Seconds until the shutdown that logind has scheduled.
fn left(rig: &Rig) -> Option<i64> {
    let scheduled = rig.login.lock().expect("not poisoned").scheduled.clone()?;
    Some(logind::time(scheduled.1).duration_since(Timestamp::now()).as_secs())
}

/// logind has finished its dry run, or an operator ran `shutdown -c`; no event reports it.
fn nothing_scheduled(rig: &Rig) {
    rig.login.lock().expect("not poisoned").scheduled = None;
}

fn converged(rig: &Rig) {
    rig.until("converged", |status| status.state == State::Converged);
}

/// Reboots after three seconds by a command that records its run.
fn by_command(rig: &Rig, mut seen: Value, exit: u8) -> Value {
    // The probe looks for the shell below the root directory.
    rig.program("bin/sh", "");
    seen["reboot"]["methods"] = json!(["command"]);
    seen["reboot"]["delay_s"] = json!(3);
    let script = format!("echo ran >>{}; exit {exit}", rig.path("ran").display());
    seen["reboot"]["command"] = json!(["/bin/sh", "-c", script]);
    seen
}

fn scheduled(rig: &Rig) {
    until("scheduled", || rig.asked_of_logind().contains(&"schedule dry-reboot".to_owned()));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn request_is_rescheduled_later_after_a_broken_profile() {
    let mut rig = Rig::new();
    rig.look(&right(&rig));
    rig.start();
    converged(&rig);
    schedule(&rig, 3);
    rig.write("fails", "the profile is broken");
    rig.touch();
    rig.until("error", |status| status.state == State::Error);
    until("called off", || left(&rig).is_none());
    std::thread::sleep(Duration::from_secs(4));
    std::fs::remove_file(rig.path("fails")).expect("ours");
    rig.touch();
    until("scheduled again", || left(&rig).is_some());
    assert!(left(&rig).is_some_and(|left| left > 3000), "{:?} s", left(&rig));
}

/// `shutdown -c` while the daemon is stopped; the daemon returns after the scheduled time.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn cancellation_without_a_daemon_is_kept() {
    let mut rig = Rig::new();
    rig.look(&right(&rig));
    rig.start();
    converged(&rig);
    schedule(&rig, 600);
    rig.kill();
    nothing_scheduled(&rig);
    // Sixteen minutes after the scheduled time.
    rig.edit_record(|record| {
        record["phase"]["arranged"]["usec"] = json!(later(-16 * 60));
        record["asked"]["at"] =
            json!((Timestamp::now() - SignedDuration::from_secs(16 * 60)).to_string());
    });
    rig.start();
    rig.settle();
    assert_eq!(schedules(&rig), 1, "{:?}\n{}", rig.asked_of_logind(), rig.read("log"));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn full_disk_does_not_revive_a_cancelled_reboot() {
    let mut rig = Rig::new();
    rig.look(&right(&rig));
    rig.start();
    converged(&rig);
    schedule(&rig, 5);
    // The record's temporary file cannot be written.
    std::fs::create_dir(rig.path("var/lib/bedplate/daemon/.reboot.json.tmp")).expect("ours");
    nothing_scheduled(&rig);
    rig.touch();
    rig.settle();
    rig.touch();
    std::thread::sleep(Duration::from_secs(5));
    std::fs::remove_dir(rig.path("var/lib/bedplate/daemon/.reboot.json.tmp")).expect("ours");
    rig.touch();
    rig.settle();
    assert_eq!(schedules(&rig), 1, "{:?}\n{}", rig.asked_of_logind(), rig.read("log"));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn requested_command_runs_once_for_any_exit_status() {
    for exit in [0, 1] {
        let mut rig = Rig::new();
        rig.look(&by_command(&rig, right(&rig), exit));
        rig.start();
        converged(&rig);
        schedule(&rig, 2);
        std::thread::sleep(Duration::from_millis(2300));
        nothing_scheduled(&rig);
        rig.touch();
        until("it runs", || rig.read("ran") == "ran\n");
        for _ in 0..3 {
            nothing_scheduled(&rig);
            rig.touch();
            rig.settle();
        }
        assert_eq!(
            rig.read("ran"),
            "ran\n",
            "{exit}: {:?}\n{}",
            rig.asked_of_logind(),
            rig.read("log")
        );
        assert!(rig.read("var/lib/bedplate/daemon/reboot.json").contains("\"asked\": null"));
    }
}

/// `shutdown -c` seconds before the scheduled time; no event reports it.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn command_cancelled_shortly_before_its_time_does_not_run() {
    let mut rig = Rig::new();
    rig.look(&by_command(&rig, right(&rig), 0));
    rig.start();
    converged(&rig);
    schedule(&rig, 6);
    std::thread::sleep(Duration::from_secs(3));
    nothing_scheduled(&rig);
    std::thread::sleep(Duration::from_secs(5));
    rig.touch();
    rig.settle();
    assert_eq!(rig.read("ran"), "", "{}", rig.read("log"));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn hold_at_the_last_moment_stops_the_command() {
    let mut rig = Rig::new();
    std::fs::create_dir_all(rig.path("var/lib/bedplate")).expect("ours");
    rig.look(&by_command(&rig, waiting(&rig), 0));
    rig.start();
    scheduled(&rig);
    std::thread::sleep(Duration::from_millis(3200));
    rig.write("var/lib/bedplate/hold.json", HELD);
    nothing_scheduled(&rig);
    rig.settle();
    assert_eq!(rig.read("ran"), "", "{}", rig.read("log"));
    let (_, said) = rig.run(&["reboot", "status"]);
    assert!(said.contains("cancelled   when due: held"), "{said}");
}

/// logind has not started its dry run yet. A cancel between the dry run and the command has less than a second, which no
/// test can hit reliably.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn cancel_at_the_last_moment_stops_the_command() {
    let mut rig = Rig::new();
    let mut seen = by_command(&rig, waiting(&rig), 0);
    seen["reboot"]["busy_command"] = json!(["/bin/sh", "-c", "sleep 0.3"]);
    rig.look(&seen);
    rig.start();
    scheduled(&rig);
    std::thread::sleep(Duration::from_millis(3200));
    let (_, said) = rig.run(&["reboot", "cancel"]);
    nothing_scheduled(&rig);
    rig.settle();
    assert_eq!(rig.read("ran"), "", "{said}\n{}", rig.read("log"));
}

/// The daemon is stopped before the scheduled time, everything is cancelled, and the daemon starts after that time.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn daemon_started_after_the_time_runs_no_command() {
    for held in [false, true] {
        let mut rig = Rig::new();
        rig.look(&by_command(&rig, waiting(&rig), 0));
        rig.start();
        scheduled(&rig);
        rig.stop();
        nothing_scheduled(&rig);
        if held {
            rig.write("var/lib/bedplate/hold.json", HELD);
        }
        std::thread::sleep(Duration::from_secs(4));
        rig.start();
        rig.settle();
        assert_eq!(rig.read("ran"), "", "{}", rig.read("log"));
    }
}

/// Without a bus the daemon cannot find out whether the reboot was cancelled, and the bus may never return.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn command_due_without_a_bus_is_cancelled() {
    let mut rig = Rig::new();
    rig.look(&by_command(&rig, waiting(&rig), 0));
    rig.stop_bus();
    let usec = bedplate_daemon::logind::usec(jiff::Timestamp::now()) - 130_000_000;
    let prepared = json!({ "method": "command", "next": "run-command", "undo": [] });
    let arranged = json!({ "boot_id": "boot-1", "kind": "dry-reboot", "usec": usec, "plan": "waits", "method": "command",
        "request": null, "userspace": null, "prepared": prepared });
    let record = json!({ "version": 3, "phase": { "phase": "scheduled", "arranged": arranged } });
    rig.write(RECORD, &record.to_string());
    rig.start_blindly();
    until("called off", || rig.logged("the power-cycle command was not run"));
    let kept = rig.read(RECORD);
    assert!(
        kept.contains("could not verify that the reboot was not cancelled")
            && rig.read("ran").is_empty(),
        "{kept}"
    );
}

/// The bus is restarted during an observation.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn daemon_reconnects_to_a_bus_restarted_while_observing() {
    let mut rig = Rig::new();
    std::fs::create_dir_all(rig.path("watched")).expect("ours");
    rig.look(&right(&rig));
    rig.start();
    converged(&rig);
    rig.write("slow", "2");
    let looks = rig.calls().len();
    rig.write("watched/x", "1");
    until("it looks", || rig.calls().len() > looks);
    rig.restart_bus(|_| ());
    std::fs::remove_file(rig.path("slow")).expect("ours");
    until("back on the bus", || rig.status().is_some());
}

/// The bus accepts connections and answers nothing.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn silent_bus_does_not_block_observations() {
    let mut rig = Rig::new();
    std::fs::create_dir_all(rig.path("watched")).expect("ours");
    rig.look(&right(&rig));
    rig.start();
    converged(&rig);
    rig.restart_bus(|rig| {
        let silent = std::os::unix::net::UnixListener::bind(rig.path("bus")).expect("ours");
        until("noticed", || rig.logged("system bus lost"));
        let looks = rig.calls().len();
        rig.write("watched/x", "1");
        until("it looks", || rig.calls().len() > looks);
        drop(silent);
        let _ = std::fs::remove_file(rig.path("bus"));
    });
}
