//! While the profile is missing and may return, the daemon makes no decision on it: it does not cancel a scheduled reboot,
//! schedules none, and runs no command.

use bedplate_daemon::reboot::state::RebootState;
use bedplate_daemon::status::State;
use serde_json::json;

use super::rig::{Rig, until, waiting};

const OWN: &str = "etc/bedplate/profile.toml";
/// Logged when the profile is missing for longer than the daemon waits.
const GONE: &str = "there is no profile";
/// On a machine so slow that the two seconds always pass, the test would show nothing, and must fail.
const TRIES: usize = 10;

/// Removes the profile, triggers a signal of logind, and waits until the daemon could have handled it (or `acted`). Returns
/// `false` if the profile was missing for too long, which makes the try invalid.
fn in_the_quiet_seconds(rig: &Rig, speak: impl FnOnce(), acted: impl Fn() -> bool) -> bool {
    rig.write("no-profile", "");
    std::fs::remove_file(rig.path(OWN)).expect("ours");
    rig.until("gone", |status| {
        status.reason.contains("waiting for its return") || rig.logged(GONE)
    });
    speak();
    // The daemon collects events for 200 ms, so only waiting can show that it did not act.
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
fn scheduled_reboot_is_kept_while_the_profile_is_missing() {
    for _ in 0..TRIES {
        let mut rig = Rig::new();
        rig.look(&waiting(&rig));
        rig.start();
        until("scheduled", || asked(&rig, "schedule"));
        let in_time =
            in_the_quiet_seconds(&rig, || rig.inhibit(&["backup"]), || asked(&rig, "cancel"));
        if in_time {
            assert!(!asked(&rig, "cancel"), "{:?}", rig.asked_of_logind());
            profile_is_back(&rig);
            // The signal received in the meantime takes effect now.
            return until("called off", || asked(&rig, "cancel"));
        }
    }
    panic!("the profile was never back in time");
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn no_reboot_is_scheduled_while_the_profile_is_missing() {
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
            return until("scheduled", || asked(&rig, "schedule"));
        }
    }
    panic!("the profile was never back in time");
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn no_command_is_run_while_the_profile_is_missing() {
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
        until("scheduled", || asked(&rig, "schedule dry-reboot"));
        let due = rig.login.lock().expect("not poisoned").scheduled.clone().expect("scheduled").1;
        let its_time_comes = || {
            let passed = || bedplate_daemon::logind::usec(jiff::Timestamp::now()) > due;
            until("its time has come", || passed() || rig.logged(GONE));
            // logind has finished its dry run and reports that no shutdown is under way.
            rig.login.lock().expect("not poisoned").scheduled = None;
            rig.inhibit(&[]);
        };
        // Shortly before the scheduled time, so that the quiet seconds outlast it.
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
