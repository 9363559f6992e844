//! A daemon that is stopped in the middle of a step of a reboot completes the step first.

use std::time::Duration;

use bedplate_daemon::reboot::state::RebootState;
use bedplate_tests::program;
use serde_json::{Value, json};

use super::reboots::{scheduled, schedules};
use super::rig::{RECORD, Rig, right, until, waiting};
use super::sockets::{rig, serve};

fn slow(rig: &Rig, seconds: u64) {
    rig.login.lock().expect("not poisoned").slow = Duration::from_secs(seconds);
}

fn called(rig: &Rig, what: &str) -> bool {
    rig.asked_of_logind().iter().any(|call| call.starts_with(what))
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn stopped_daemon_completes_a_schedule() {
    let mut rig = Rig::new();
    slow(&rig, 1);
    rig.look(&waiting(&rig));
    rig.start_blindly();
    until("logind is asked", || called(&rig, "wall"));
    rig.stop();
    assert_eq!(schedules(&rig), 1, "{}", rig.read("log"));
    slow(&rig, 0);
    rig.start();
    until("the next daemon knows it", || scheduled(&rig));
    assert_eq!(schedules(&rig), 1, "{:?}", rig.asked_of_logind());
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn stopped_daemon_completes_a_cancellation() {
    let mut rig = Rig::new();
    rig.look(&waiting(&rig));
    rig.start();
    until("scheduled", || scheduled(&rig));
    slow(&rig, 1);
    rig.inhibit(&["apt"]);
    until("logind is asked", || called(&rig, "cancel"));
    rig.stop();
    assert_eq!(rig.phase(), "rest", "it is not scheduled any more");
    slow(&rig, 0);
    rig.inhibit(&[]);
    rig.start();
    // After a cancellation by an operator it would wait for a request.
    until("scheduled again", || scheduled(&rig));
}

/// Otherwise systemd would kill the daemon in the middle of a later step.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn hanging_step_is_aborted_before_the_stop_timeout() {
    let mut rig = Rig::new();
    slow(&rig, 600);
    rig.look(&waiting(&rig));
    rig.start_blindly();
    until("logind is asked", || called(&rig, "wall"));
    rig.stop();
    assert!(rig.logged("a reboot step did not end"), "{}", rig.read("log"));
    assert!(rig.logged("within 15 s"), "{}", rig.read("log"));
}

/// Reboots after two seconds by a command that records its run.
fn by_command(rig: &Rig, mut seen: Value) -> Value {
    // The probe looks for the shell below the root directory.
    rig.program("bin/sh", "");
    seen["reboot"]["methods"] = json!(["command"]);
    seen["reboot"]["delay_s"] = json!(2);
    let script = format!("echo ran >>{}", rig.path("ran").display());
    seen["reboot"]["command"] = json!(["/bin/sh", "-c", script]);
    seen
}

/// Simulates logind's dry run at the scheduled time.
fn its_time_comes(rig: &Rig) {
    until("scheduled", || rig.login.lock().expect("not poisoned").scheduled.is_some());
    std::thread::sleep(Duration::from_millis(2300));
    rig.login.lock().expect("not poisoned").scheduled = None;
    rig.touch();
}

/// Writes a relay that runs `then` first once the record says that the command was run.
fn relay(rig: &Rig, then: &str) {
    let (kept, program) = (rig.path(RECORD), program::path());
    let (kept, program) = (kept.display(), program.display());
    let text = format!(
        "#!/bin/sh\nif grep -q command-run {kept} 2>/dev/null; then {then}; fi\nexec {program} \"$@\"\n"
    );
    rig.program("relay", &text);
}

/// PID 1 needs a second to start the unit.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn command_recorded_as_run_is_run() {
    let mut rig = rig();
    relay(&rig, "sleep 1");
    ["observer", "worker"].iter().for_each(|unit| serve(&rig, unit, &rig.path("relay")));
    rig.look(&by_command(&rig, waiting(&rig)));
    rig.start();
    its_time_comes(&rig);
    until("it counts as run", || rig.phase() == "command-run");
    rig.stop();
    assert_eq!(rig.read("ran"), "ran\n", "{}", rig.read("log"));
    rig.start();
    rig.settle();
    assert_eq!(rig.read("ran"), "ran\n", "{}", rig.read("log"));
}

/// An upgrade in the last second: the unit of the new build refuses, and the next daemon runs the command.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn command_refused_by_another_build_is_scheduled_again() {
    let mut rig = rig();
    let other = rig.path("other");
    std::fs::copy(program::path(), &other).expect("ours");
    relay(&rig, &format!("exec {} \"$@\"", other.display()));
    ["observer", "worker"].iter().for_each(|unit| serve(&rig, unit, &rig.path("relay")));
    rig.look(&by_command(&rig, right(&rig)));
    rig.start();
    let asked = async { rig.agent().await?.schedule_reboot("an operator", 0).await };
    let (state, said) = rig.runtime.block_on(asked).expect("root may");
    assert_eq!(state, "scheduled", "{said}");
    its_time_comes(&rig);
    until("it ends by itself", || rig.logged("replaced by another build; the daemon must restart"));
    rig.daemon.take().expect("it was started").wait().expect("it can be waited for");
    assert_eq!(rig.read("ran"), "", "{}", rig.read("log"));
    assert!(rig.logged("the reboot is scheduled again"), "{}", rig.read("log"));
    assert_eq!(rig.phase(), "rest");
    let record = rig.record();
    assert_eq!((&record["asked"]["why"], &record["attempts"]), (&json!("an operator"), &json!([])));
    relay(&rig, "true");
    rig.start();
    its_time_comes(&rig);
    until("it runs", || rig.read("ran") == "ran\n");
    rig.touch();
    rig.settle();
    assert_eq!((rig.read("ran"), schedules(&rig)), ("ran\n".into(), 2), "{}", rig.read("log"));
}

/// PID 1 has no socket for the unit: nothing runs, and the record does not count it.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn unstarted_command_does_not_count_as_run() {
    let mut rig = rig();
    ["observer", "worker"].iter().for_each(|unit| serve(&rig, unit, program::path().as_ref()));
    rig.look(&by_command(&rig, right(&rig)));
    rig.start();
    let asked = async { rig.agent().await?.schedule_reboot("an operator", 0).await };
    rig.runtime.block_on(asked).expect("root may");
    std::thread::sleep(Duration::from_millis(2300));
    std::fs::rename(rig.path("helpers"), rig.path("stopped")).expect("ours");
    rig.login.lock().expect("not poisoned").scheduled = None;
    rig.inhibit(&[]);
    until("said", || {
        rig.logged("was not run: the next boot entry is not known to be sound: cannot start")
    });
    std::fs::rename(rig.path("stopped"), rig.path("helpers")).expect("ours");
    rig.until("called off", |status| matches!(status.reboot.state, RebootState::Idle));
    assert!(rig.read(RECORD).contains("called-off"), "{}", rig.read(RECORD));
}
