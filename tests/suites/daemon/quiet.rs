//! While the profile is gone and may come back, nothing is decided on it: an announced reboot is not called off, none is
//! announced, and no command is run.

use bedplate_daemon::reboot::state::RebootState;
use bedplate_daemon::status::State;
use serde_json::json;

use super::rig::{Rig, until, waiting};

const OWN: &str = "etc/bedplate/profile.toml";
/// What is logged when the profile stays away for longer than it is waited for.
const GONE: &str = "there is no profile";
/// A machine so slow that the two seconds pass every time shows nothing; that is not silently passed over.
const TRIES: usize = 10;

/// Takes the profile away, has logind speak, and has time pass until it was heard (or `acted`); then the profile comes back.
/// False: it was away for too long, and what then happened is another story.
fn in_the_quiet_seconds(rig: &Rig, speak: impl FnOnce(), acted: impl Fn() -> bool) -> bool {
    rig.write("no-profile", "");
    std::fs::remove_file(rig.path(OWN)).expect("ours");
    rig.until("gone", |status| {
        status.reason.contains("waiting for it to come back") || rig.logged(GONE)
    });
    speak();
    // Events are gathered for 200 ms; that none was acted on can only be seen by waiting.
    for _ in 0..40 {
        if acted() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    !rig.logged(GONE)
}

fn profile_is_back(rig: &Rig) {
    std::fs::remove_file(rig.path("no-profile")).expect("ours");
    rig.touch();
    rig.until("back", |status| status.state == State::WaitingForBoot);
}

fn asked(rig: &Rig, call: &str) -> bool {
    rig.asked_of_logind().iter().any(|asked| asked.starts_with(call))
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn what_is_announced_is_not_called_off_while_the_profile_is_gone() {
    for _ in 0..TRIES {
        let mut rig = Rig::new();
        rig.look(&waiting(&rig));
        rig.start();
        until("announced", || asked(&rig, "schedule"));
        let in_time =
            in_the_quiet_seconds(&rig, || rig.inhibit(&["backup"]), || asked(&rig, "cancel"));
        if in_time {
            assert!(!asked(&rig, "cancel"), "{:?}", rig.asked_of_logind());
            profile_is_back(&rig);
            // What was heard meanwhile counts now.
            return until("called off", || asked(&rig, "cancel"));
        }
    }
    panic!("the profile was never back in time");
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn nothing_is_announced_while_the_profile_is_gone() {
    for _ in 0..TRIES {
        let mut rig = Rig::new();
        rig.look(&waiting(&rig));
        rig.inhibit(&["backup"]);
        rig.start();
        rig.until("waits", |status| matches!(status.reboot.state, RebootState::Waiting { .. }));
        let in_time = in_the_quiet_seconds(&rig, || rig.inhibit(&[]), || asked(&rig, "schedule"));
        assert!(!asked(&rig, "schedule"), "{:?}", rig.asked_of_logind());
        if in_time {
            profile_is_back(&rig);
            return until("announced", || asked(&rig, "schedule"));
        }
    }
    panic!("the profile was never back in time");
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn no_command_is_run_while_the_profile_is_gone() {
    for _ in 0..TRIES {
        let mut rig = Rig::new();
        let mut seen = waiting(&rig);
        rig.program("bin/sh", "");
        let script = format!("echo ran >>{}", rig.path("ran").display());
        seen["reboot"]["methods"] = json!(["command"]);
        seen["reboot"]["command"] = json!(["/bin/sh", "-c", script]);
        seen["reboot"]["delay_s"] = json!(3);
        rig.look(&seen);
        rig.start();
        until("announced", || asked(&rig, "schedule dry-reboot"));
        let due = rig.login.lock().expect("not poisoned").scheduled.clone().expect("announced").1;
        let its_time_comes = || {
            let passed = || bedplate_daemon::logind::usec(jiff::Timestamp::now()) > due;
            until("its time has come", || passed() || rig.logged(GONE));
            // logind has rehearsed, and says that no shutdown is under way.
            rig.login.lock().expect("not poisoned").scheduled = None;
            rig.inhibit(&[]);
        };
        // Close before its time: the quiet seconds are to outlast it.
        let soon = due - 1_000_000;
        until("soon", || bedplate_daemon::logind::usec(jiff::Timestamp::now()) > soon);
        let in_time = in_the_quiet_seconds(&rig, its_time_comes, || rig.path("ran").exists());
        assert!(!rig.path("ran").exists(), "{}", rig.read("log"));
        if in_time {
            return;
        }
    }
    panic!("the profile was never back in time");
}
