//! A different build of the program at the other end of the sockets: after an upgrade, and permanently.

use std::os::unix::fs::symlink;

use bedplate_daemon::launch::REPLACED;
use bedplate_daemon::reboot::state::RebootState;
use bedplate_daemon::status::State;
use bedplate_tests::program;
use serde_json::json;

use super::super::rig::{Rig, drifted, right, until, waiting};
use super::{ALL, asked, rig, serve};

/// Puts another file with the same program there.
fn copy(rig: &Rig, path: &str) {
    std::fs::copy(program::path(), rig.path("copy")).expect("ours");
    std::fs::rename(rig.path("copy"), rig.path(path)).expect("ours");
}

/// Checks that the daemon ends by itself with the status that systemd takes for a restart, not a failure.
fn ends_as_replaced(rig: &mut Rig) {
    until("it ends by itself", || rig.logged("replaced by another build"));
    let mut daemon = rig.daemon.take().expect("it was started");
    let ended = daemon.wait().expect("it can be waited for");
    assert_eq!(ended.code(), Some(REPLACED), "{}", rig.read("log"));
    assert!(!rig.logged("ERROR"), "{}", rig.read("log"));
}

/// A package replaces the program while a reboot is scheduled: the next daemon keeps the schedule.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn upgrade_keeps_the_scheduled_reboot() {
    let mut rig = rig();
    let program = rig.path("program");
    symlink(program::path(), &program).expect("ours");
    ALL.iter().for_each(|name| serve(&rig, name, &program));
    let mut seen = waiting(&rig);
    rig.program("check", "#!/bin/sh\nexit 0\n");
    seen["reboot"]["busy_command"] = json!([rig.path("check")]);
    rig.look(&seen);
    rig.start();
    rig.until("scheduled", |status| matches!(status.reboot.state, RebootState::Scheduled { .. }));
    copy(&rig, "program");
    rig.touch();
    ends_as_replaced(&mut rig);
    assert!(!rig.asked_of_logind().contains(&"cancel".to_owned()), "{}", rig.read("log"));
    assert_eq!(rig.phase(), "scheduled");
}

/// The program is replaced before the daemon's first observation.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn answer_of_another_build_is_not_used() {
    let mut rig = rig();
    copy(&rig, "own");
    rig.program = rig.path("own");
    let own = rig.program.display();
    let text =
        format!("#!/bin/sh\nwhile [ ! -e {own}.new ]; do sleep 0.02; done\nexec {own} \"$@\"\n");
    rig.program("relay", &text);
    serve(&rig, "observer", &rig.path("relay"));
    rig.look(&drifted(&rig));
    rig.start_blindly();
    until("it looks", || asked(&rig, "observer") > 0);
    copy(&rig, "own");
    rig.write("own.new", "");
    ends_as_replaced(&mut rig);
    assert_eq!(rig.calls(), [""; 0], "its answer would not have been understood");
}

/// A drop-in makes a unit run another file permanently: a restart would bring the same two builds together.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn permanent_build_mismatch_is_reported_without_a_restart() {
    let mut rig = rig();
    copy(&rig, "other");
    symlink(rig.path("other"), rig.path("program")).expect("ours");
    serve(&rig, "observer", &rig.path("program"));
    rig.look(&right(&rig));
    rig.start();
    for _ in 0..2 {
        let status = rig.until("said", |status| status.state == State::Error);
        let other = rig.path("other").display().to_string();
        let own = program::path().to_owned();
        for part in
            [&*other, &*own.to_string_lossy(), "`systemctl cat bedplate bedplate-observer@`"]
        {
            assert!(status.reason.contains(part), "{part} is not in {}", status.reason);
        }
        rig.touch();
        rig.settle();
    }
    assert_eq!(rig.read("log").matches("bedplate-observer@`").count(), 1, "{}", rig.read("log"));
    assert_eq!(rig.calls(), [""; 0], "its answer would not have been understood");
    // The drop-in is removed.
    symlink(program::path(), rig.path("link")).expect("ours");
    std::fs::rename(rig.path("link"), rig.path("program")).expect("ours");
    rig.touch();
    rig.until("converged", |status| status.state == State::Converged);
    // From now on a different file is a replacement.
    copy(&rig, "program");
    rig.touch();
    until("it ends by itself", || rig.logged("replaced by another build"));
    let ended = rig.daemon.take().expect("it was started").wait().expect("it can be waited for");
    assert_eq!(ended.code(), Some(REPLACED), "{}", rig.read("log"));
}

/// A drop-in makes one unit run another file: the daemon continues, and the task of that unit waits.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn build_mismatch_of_one_unit_causes_no_restart() {
    let mut rig = rig();
    copy(&rig, "other");
    for name in ALL {
        let relay = if name == "check" { rig.path("other") } else { program::path() };
        serve(&rig, name, &relay);
    }
    let mut seen = waiting(&rig);
    seen["reboot"]["busy_command"] = json!(["/bin/sh", "-c", "exit 0"]);
    rig.look(&seen);
    rig.start();
    let waits = |rig: &Rig| {
        rig.until("waits", |status| {
            let named = |veto: &String| veto.contains("`systemctl cat bedplate bedplate-check@`");
            status.reboot.vetoes.iter().any(named)
        })
    };
    let status = waits(&rig);
    assert_eq!(status.state, State::WaitingForBoot, "{status:#?}");
    rig.touch();
    rig.settle();
    waits(&rig);
    assert!(!rig.logged("replaced by another build"), "{}", rig.read("log"));
    assert_eq!(rig.asked_of_logind(), [""; 0]);
}
