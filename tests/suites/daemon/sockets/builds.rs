//! Another build of the program at the other end of the sockets: by an upgrade, and for good.

use std::os::unix::fs::symlink;

use bedplate_daemon::launch::REPLACED;
use bedplate_daemon::reboot::state::RebootState;
use bedplate_daemon::status::State;
use bedplate_tests::program;
use serde_json::json;

use super::super::rig::{Rig, drifted, right, until, waiting};
use super::{ALL, asked, rig, serve};

/// Another file with the same program.
fn copy(rig: &Rig, path: &str) {
    std::fs::copy(program::path(), rig.path("copy")).expect("ours");
    std::fs::rename(rig.path("copy"), rig.path(path)).expect("ours");
}

/// It ends by itself, to be started again by systemd, which does not take that for a failure.
fn ends_as_replaced(rig: &mut Rig) {
    until("it ends by itself", || rig.logged("replaced by another build"));
    let mut daemon = rig.daemon.take().expect("it was started");
    let ended = daemon.wait().expect("it can be waited for");
    assert_eq!(ended.code(), Some(REPLACED), "{}", rig.read("log"));
    assert!(!rig.logged("ERROR"), "{}", rig.read("log"));
}

/// A package has put another build in the program's place while a reboot is announced: that is the next daemon's to keep.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn another_build_takes_over_what_is_announced() {
    let mut rig = rig();
    let program = rig.path("program");
    symlink(program::path(), &program).expect("ours");
    ALL.iter().for_each(|name| serve(&rig, name, &program));
    let mut seen = waiting(&rig);
    rig.program("check", "#!/bin/sh\nexit 0\n");
    seen["reboot"]["busy_command"] = json!([rig.path("check")]);
    rig.look(&seen);
    rig.start();
    rig.until("announced", |status| matches!(status.reboot.state, RebootState::Announced { .. }));
    copy(&rig, "program");
    rig.touch();
    ends_as_replaced(&mut rig);
    assert!(!rig.asked_of_logind().contains(&"cancel".to_owned()), "{}", rig.read("log"));
    assert_eq!(rig.phase(), "scheduled");
}

/// The program was replaced before the daemon's first look.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn another_build_is_not_mistaken_for_this_one() {
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

/// A drop-in has one of the units run another file: to start again would bring the same two together.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn a_build_that_stays_another_one_is_said_and_no_reason_to_start_again() {
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
    // The drop-in is gone.
    symlink(program::path(), rig.path("link")).expect("ours");
    std::fs::rename(rig.path("link"), rig.path("program")).expect("ours");
    rig.touch();
    rig.until("converged", |status| status.state == State::Converged);
    // And now it is a replacement.
    copy(&rig, "program");
    rig.touch();
    until("it ends by itself", || rig.logged("replaced by another build"));
    let ended = rig.daemon.take().expect("it was started").wait().expect("it can be waited for");
    assert_eq!(ended.code(), Some(REPLACED), "{}", rig.read("log"));
}

/// One unit of several runs another file by a drop-in of its own: the others go on, and what it is for waits.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn one_unit_of_another_build_is_no_reason_to_start_again() {
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
