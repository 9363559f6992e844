//! Actions of the daemon without an event: the re-check, retries of failed changes, the reminder, and the hold that it
//! reads again before a decision without an observation.

use bedplate_daemon::reboot::state::RebootState;
use bedplate_daemon::status::{State, Verdict};
use serde_json::json;

use super::rig::{Rig, difference, drifted, failed, fixed, right, until, waiting};

/// Target of the operator's hold link. The daemon does not watch it, so writing it causes no event.
pub const ELSEWHERE: &str = "var/lib/elsewhere";
pub const HOLD: &str =
    r#"{"version":1,"since":"2026-03-01T12:00:00Z","why":"broken NIC","by":"ada"}"#;

/// Makes the operator's hold on enforcement a dangling link.
pub fn with_a_link_for_a_hold(rig: &Rig) {
    rig.write("var/lib/bedplate/README", "");
    let link = rig.path("var/lib/bedplate/enforce-hold.json");
    std::os::unix::fs::symlink(rig.path(ELSEWHERE), link).expect("ours");
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn change_that_appears_during_an_apply_is_applied_next() {
    let mut rig = Rig::new();
    rig.look(&drifted(&rig));
    let mut other = difference();
    other["key"] = json!("another");
    other["id"] = json!("acs/0000:22:01.0");
    let mut seen = fixed(&rig);
    seen["changes"] = json!([other]);
    seen["checks"] = json!(null);
    rig.after(&seen);
    rig.start();
    until("the second apply", || rig.calls().iter().any(|call| call.contains("another")));
}

fn checked_every_second(mut seen: serde_json::Value) -> serde_json::Value {
    seen["agent"]["interval_s"] = json!(1);
    seen
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn decision_without_an_observation_reads_the_hold() {
    let mut rig = Rig::new();
    with_a_link_for_a_hold(&rig);
    rig.look(&waiting(&rig));
    rig.start();
    rig.until("scheduled", |status| matches!(status.reboot.state, RebootState::Scheduled { .. }));
    let looks = rig.calls().len();
    rig.write(ELSEWHERE, HOLD);
    // Signals of logind cause a decision, not an observation.
    rig.inhibit(&[]);
    let status = rig.until("held", |status| status.pause.is_some());
    assert!(matches!(status.reboot.state, RebootState::Waiting { .. }), "{:?}", status.reboot);
    assert_eq!(rig.login.lock().expect("not poisoned").scheduled, None);
    assert_eq!(rig.calls().len(), looks, "{:?}", rig.calls());
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn re_check_finds_a_hold() {
    let mut rig = Rig::new();
    with_a_link_for_a_hold(&rig);
    rig.look(&checked_every_second(right(&rig)));
    rig.start();
    rig.until("converged", |status| status.state == State::Converged && status.pause.is_none());
    rig.write(ELSEWHERE, HOLD);
    rig.until("held", |status| status.pause.is_some());
}

/// The re-check has found a possible change: the host is not ready until it has been observed.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn observation_by_the_re_check_clears_ready() {
    let mut rig = Rig::new();
    rig.look(&checked_every_second(right(&rig)));
    rig.start();
    rig.until("converged", |status| status.state == State::Converged);
    rig.write("wait", "");
    rig.write("sys/kernel/uevent_seqnum", "7\n");
    let status = rig.until("looking", |status| status.state == State::Working);
    assert_eq!((status.verdict, status.reason.as_str()), (Verdict::NotReady, "observing the host"));
    std::fs::remove_file(rig.path("wait")).expect("ours");
    rig.until("converged", |status| status.state == State::Converged);
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn observation_for_a_retry_clears_ready() {
    let mut rig = Rig::new();
    let failed = failed(&rig);
    rig.look(&drifted(&rig));
    rig.after(&failed);
    rig.start();
    rig.until("failed", |status| status.state == State::Failed);
    rig.write("wait", "");
    let status = rig.until("looking", |status| status.state == State::Working);
    assert_eq!(status.reason, "observing the host");
    rig.after(&fixed(&rig));
    std::fs::remove_file(rig.path("wait")).expect("ours");
    rig.until("converged", |status| status.state == State::Converged);
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn manual_reboot_is_followed_by_a_reminder() {
    let mut rig = Rig::new();
    rig.args = vec!["--remind-every=1"];
    let mut seen = checked_every_second(waiting(&rig));
    seen["reboot"]["policy"] = json!("never");
    rig.look(&seen);
    rig.start();
    until("reminded", || rig.logged("for a reboot for iommu=pt, which needs an operator"));
}
