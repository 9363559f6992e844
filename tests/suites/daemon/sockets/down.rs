//! Consequences of each socket that is missing while the others work, as listed in docs/daemon.md.

use bedplate_daemon::reboot::state::RebootState;
use bedplate_daemon::status::{State, Status, Verdict};
use bedplate_tests::program;
use serde_json::{Value, json};

use super::super::rig::{Rig, drifted, fixed, right, waiting};
use super::{ALL, rig, serve};

/// Starts the daemon with every socket but `down` and with the observation `seen`, and waits until its status is `good`.
fn without(down: &str, seen: impl FnOnce(&Rig) -> Value, good: impl Fn(&Status) -> bool) {
    let mut rig = rig();
    let others = ALL.iter().filter(|name| **name != down);
    others.for_each(|name| serve(&rig, name, program::path().as_ref()));
    let seen = seen(&rig);
    rig.look(&seen);
    rig.after(&fixed(&rig));
    rig.start();
    rig.until(&format!("as docs/daemon.md has it without {down}"), good);
    assert_eq!(rig.asked_of_logind(), [""; 0], "a reboot was asked for without {down}");
    let said = rig.run(&["status"]).1 + &rig.run(&["reboot", "status"]).1;
    assert!(said.contains(&format!("bedplate-{down}.socket")), "{said}");
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn observer_is_down() {
    without("observer", right, |status| {
        status.state == State::Error && status.verdict != Verdict::Ready
    });
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn worker_is_down() {
    without("worker", drifted, |status| status.state == State::Failed && !status.failed.is_empty());
    without("worker", waiting, |status| {
        matches!(status.reboot.state, RebootState::Waiting { .. })
            && status.reboot.methods.iter().any(|why| why.contains("bedplate-worker.socket"))
    });
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn loader_is_down() {
    let loads = |rig: &Rig| {
        let mut seen = drifted(rig);
        seen["changes"][0]["modules"] = json!(true);
        seen
    };
    without("loader", loads, |status| status.state == State::Failed && !status.failed.is_empty());
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn holders_or_check_is_down() {
    for (down, asks) in [("holders", "busy_devices"), ("check", "busy_command")] {
        let seen = |rig: &Rig| {
            let mut seen = waiting(rig);
            seen["reboot"][asks] = match asks {
                "busy_devices" => json!(true),
                _ => json!(["/bin/true"]),
            };
            seen
        };
        without(down, seen, |status| {
            let socket = format!("bedplate-{down}.socket");
            status.reboot.vetoes.iter().any(|veto| veto.contains(&socket))
        });
    }
}
