//! A slot without a reboot is released: at once when the reboot is cancelled, later by a retry if the server was away. It
//! is held while the host goes down, and while the host is not well after the reboot.

use bedplate_daemon::reboot::state::RebootState;
use bedplate_daemon::status::{State, Status};
use serde_json::{Value, json};

use super::super::rig::{Rig, right, until, waiting};
use super::{DROPPED, Server, YES, scheduled};

const TAKE: &str = "/v1/pre-reboot";
const GIVE: &str = "/v1/steady-state";

/// airlock without its etcd.
const NO_ETCD: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 103\r\nConnection: close\r\n\r\n\
    {\"kind\":\"failed_sem_init\",\"value\":\"failed to initialize semaphore manager: context deadline exceeded\"}\n";
/// airlock when two hosts released their slots at once.
const CONFLICT: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 73\r\nConnection: close\r\n\r\n\
    {\"kind\":\"failed_lock\",\"value\":\"conflict on semaphore detected, aborting\"}";
/// poseidon without its API server.
const NO_LEASE: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 62\r\nConnection: close\r\n\r\n\
    {\"kind\":\"internal_error\",\"value\":\"error getting reboot lease\"}";
/// poseidon's answer to a host that holds nothing.
const OTHERS: &str = "HTTP/1.1 423 Locked\r\nContent-Length: 80\r\nConnection: close\r\n\r\n\
    {\"kind\":\"lock_held\",\"value\":\"reboot lease unlock unavailable, held by 2aa1af43\"}";
/// poseidon's answer to a host that is not a node of its cluster.
const NO_NODE: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 58\r\nConnection: close\r\n\r\n\
    {\"kind\":\"internal_error\",\"value\":\"error uncordoning node\"}";

/// Makes the host hold a slot for a scheduled reboot.
fn holding(rig: &mut Rig, server: &Server, seen: impl FnOnce(&Rig) -> Value) {
    rig.look(&server.in_profile(seen(rig)));
    rig.start();
    until("scheduled", || scheduled(rig));
    assert_eq!(server.asked(), [TAKE]);
}

fn waits(status: &Status) -> bool {
    matches!(status.reboot.state, RebootState::Waiting { .. })
}

fn lock_text(status: &Status) -> &str {
    status.reboot.lock_message.as_deref().unwrap_or_default()
}

/// Returns the requests of the server once there are this many.
fn asked(server: &Server, times: usize) -> Vec<String> {
    until("the server is asked", || server.asked().len() >= times);
    server.asked()
}

/// The server fails when the slot is released. Without any event on the host the release is retried and succeeds.
fn goes_back_by_itself(failure: &'static str, why: &str) {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    holding(&mut rig, &server, waiting);
    server.at_steady_state(&[failure]);
    rig.look(&server.in_profile(right(&rig)));
    rig.reboot("boot-2");
    let status =
        rig.until("it has failed", |status| lock_text(status).contains("not released yet"));
    assert!(lock_text(&status).contains(why), "{}", lock_text(&status));
    assert!(status.reboot.lock.is_some() && rig.logged("not released yet; retrying: "));
    server.at_steady_state(&[YES]);
    let status = rig.until("given back", |status| status.reboot.lock.is_none());
    assert_eq!(lock_text(&status), "healthy, no slot held");
    assert!(rig.logged(&format!("reported this host as healthy to {}", server.url)));
    assert!(rig.read("var/lib/bedplate/daemon/reboot.json").contains("\"lock\": null"));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn airlock_without_etcd_is_asked_again() {
    goes_back_by_itself(NO_ETCD, "failed_sem_init");
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn airlock_in_conflict_is_asked_again() {
    goes_back_by_itself(CONFLICT, "failed_lock: conflict on semaphore detected");
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn poseidon_without_kubernetes_is_asked_again() {
    goes_back_by_itself(NO_LEASE, "error getting reboot lease");
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn a_server_that_hangs_up_is_asked_again() {
    goes_back_by_itself(DROPPED, "does not answer");
}

/// The journal has each reason once, however often the release is retried.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn each_failure_reason_is_logged_once() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    holding(&mut rig, &server, waiting);
    server.at_steady_state(&[NO_ETCD, NO_ETCD, CONFLICT]);
    rig.look(&server.in_profile(right(&rig)));
    rig.reboot("boot-2");
    for times in 2..=4 {
        assert_eq!(asked(&server, times).last().map(String::as_str), Some(GIVE));
    }
    until("the second reason is said", || rig.logged("conflict on semaphore"));
    assert_eq!(rig.read("log").matches("failed_sem_init").count(), 1, "{}", rig.read("log"));
}

/// A server that does not know the host as a holder was changed by hand, or has lost its state.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn slot_held_by_another_host_counts_as_released() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    holding(&mut rig, &server, waiting);
    server.at_steady_state(&[OTHERS]);
    rig.look(&server.in_profile(right(&rig)));
    rig.reboot("boot-2");
    let status = rig.until("well", |status| status.reboot.lock.is_none());
    assert_eq!(lock_text(&status), "no slot held");
    assert!(rig.logged(
        "reports that this host holds no slot; nothing to release (lock_held: reboot lease"
    ));
    rig.touch();
    rig.settle();
    assert_eq!(server.asked(), [TAKE, GIVE]);
    assert!(!rig.logged("not released yet"));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn unknown_node_is_reported_with_a_fix() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    holding(&mut rig, &server, waiting);
    server.at_steady_state(&[NO_NODE]);
    rig.look(&server.in_profile(right(&rig)));
    rig.reboot("boot-2");
    rig.until("it is said", |status| {
        lock_text(status).contains("no node of its cluster has this host's machine id")
    });
    let (_, text) = rig.run(&["reboot", "status"]);
    for line in
        ["lock      may be held by this host since", "kubectl delete lease fleetlock-default"]
    {
        assert!(text.contains(line), "{line} is not in {text}");
    }
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn cancel_by_an_operator_releases_the_slot() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    holding(&mut rig, &server, waiting);
    let (code, text) = rig.run(&["reboot", "cancel"]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(asked(&server, 2), [TAKE, GIVE]);
    let status = rig.until("given back", |status| status.reboot.lock.is_none());
    assert_eq!(lock_text(&status), "released: no reboot is due");
    assert!(rig.logged(&format!("slot of {} released: no reboot is due", server.url)));
    rig.touch();
    rig.settle();
    assert_eq!(server.asked(), [TAKE, GIVE], "once");
    // The host may take a slot again.
    let (code, text) = rig.run(&["reboot", "schedule"]);
    assert!(code == Some(0) && text.contains("scheduled for"), "{text}");
    assert_eq!(server.asked(), [TAKE, GIVE, TAKE]);
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn cancel_at_logind_releases_the_slot() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    holding(&mut rig, &server, waiting);
    // `shutdown -c`, which also removes the watched file.
    rig.login.lock().expect("not poisoned").scheduled = None;
    rig.touch();
    assert_eq!(asked(&server, 2), [TAKE, GIVE]);
    rig.until("given back", |status| {
        matches!(status.reboot.state, RebootState::Cancelled { .. }) && status.reboot.lock.is_none()
    });
    // A cancelled attempt does not count.
    assert!(rig.read("var/lib/bedplate/daemon/reboot.json").contains("\"attempts\": []"));
}

/// A delay may last for days; the slot is not held that long.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn delayed_reboot_releases_the_slot() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    holding(&mut rig, &server, waiting);
    rig.inhibit(&["apt"]);
    assert_eq!(asked(&server, 2), [TAKE, GIVE]);
    rig.until("given back", |status| waits(status) && status.reboot.lock.is_none());
    rig.inhibit(&[]);
    until("scheduled again", || scheduled(&rig));
    assert_eq!(server.asked(), [TAKE, GIVE, TAKE]);
}

/// A lost answer may have been a yes: no reboot is scheduled before the server has granted a slot again.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn possibly_released_slot_is_taken_again() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    holding(&mut rig, &server, waiting);
    server.at_steady_state(&[DROPPED]);
    rig.inhibit(&["apt"]);
    rig.until("it has failed", |status| lock_text(status).contains("not released yet"));
    rig.inhibit(&[]);
    until("scheduled again", || scheduled(&rig));
    assert_eq!(server.asked(), [TAKE, GIVE, TAKE]);
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn host_with_an_unusable_profile_releases_the_slot() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    holding(&mut rig, &server, waiting);
    rig.write("fails", "error: broken");
    rig.touch();
    assert_eq!(asked(&server, 2), [TAKE, GIVE]);
    rig.until("given back", |status| status.state == State::Error && status.reboot.lock.is_none());
}

/// A reboot that cannot be scheduled is not due. The server may drain the node at each request, so it is not asked at every
/// observation.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn refusal_by_logind_releases_the_slot() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    rig.login.lock().expect("not poisoned").refuses = true;
    rig.look(&server.in_profile(waiting(&rig)));
    rig.start();
    assert_eq!(asked(&server, 2), [TAKE, GIVE]);
    rig.touch();
    rig.settle();
    assert_eq!(server.asked(), [TAKE, GIVE]);
    let RebootState::Waiting { why, .. } = rig.status().expect("it answers").reboot.state else {
        unreachable!()
    };
    assert!(why[0].text.starts_with("logind refused to schedule the reboot: "), "{why:?}");
    rig.login.lock().expect("not poisoned").refuses = false;
    until("scheduled", || scheduled(&rig));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn slot_is_released_once_after_a_dry_run() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    let mut seen = waiting(&rig);
    seen["reboot"]["dry_run"] = json!(true);
    seen["reboot"]["delay_s"] = json!(0);
    rig.look(&server.in_profile(seen));
    rig.start();
    until("scheduled", || rig.asked_of_logind().contains(&"schedule dry-reboot".to_owned()));
    rig.login.lock().expect("not poisoned").scheduled = None;
    rig.touch();
    assert_eq!(asked(&server, 2), [TAKE, GIVE]);
    rig.touch();
    rig.settle();
    assert_eq!(server.asked(), [TAKE, GIVE], "asked for again, with nothing to come of it");
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn slot_of_a_previous_server_is_released_first() {
    let mut rig = Rig::new();
    let (old, new) = (Server::start(&[YES]), Server::start(&[YES]));
    holding(&mut rig, &old, waiting);
    // The host has rebooted and waits for another reboot.
    let mut seen = waiting(&rig);
    seen["hash"] = json!("more");
    old.at_steady_state(&[NO_ETCD]);
    rig.look(&new.in_profile(seen));
    rig.reboot("boot-2");
    let status = rig.until("waits", waits);
    let RebootState::Waiting { why, .. } = status.reboot.state else { unreachable!() };
    assert!(why[0].text.contains("must be released before") && new.asked().is_empty(), "{why:?}");
    old.at_steady_state(&[YES]);
    until("scheduled", || scheduled(&rig));
    assert_eq!(
        (old.asked().last().map(String::as_str), new.asked()),
        (Some(GIVE), vec![TAKE.to_owned()])
    );
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn shutdown_under_way_keeps_the_slot() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    let mut seen = waiting(&rig);
    seen["reboot"]["delay_s"] = json!(0);
    holding(&mut rig, &server, |_| seen);
    // The reboot is due and no longer scheduled: services are stopping.
    rig.login.lock().expect("not poisoned").scheduled = None;
    rig.touch();
    // A cancel is too late.
    let (_, text) = rig.run(&["reboot", "cancel"]);
    assert!(text.contains("already going down"), "{text}");
    rig.settle();
    assert_eq!(server.asked(), [TAKE]);
}

/// An operator has replaced bedplate's shutdown by another.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn foreign_reboot_keeps_the_slot_and_poweroff_releases_it() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    holding(&mut rig, &server, waiting);
    let schedule = |kind: &str| {
        rig.login.lock().expect("not poisoned").scheduled =
            Some((kind.to_owned(), 4_000_000_000_000_000));
        rig.touch();
    };
    schedule("reboot");
    rig.until("called off", |status| matches!(status.reboot.state, RebootState::Cancelled { .. }));
    rig.settle();
    assert_eq!(server.asked(), [TAKE]);
    schedule("poweroff");
    assert_eq!(asked(&server, 2), [TAKE, GIVE]);
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn running_power_cycle_command_keeps_the_slot() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    let mut seen = waiting(&rig);
    seen["reboot"]["methods"] = json!(["command"]);
    seen["reboot"]["delay_s"] = json!(0);
    rig.program("bin/sh", "");
    let ran = rig.path("ran");
    seen["reboot"]["command"] = json!(["/bin/sh", "-c", format!("echo ran >>{}", ran.display())]);
    rig.look(&server.in_profile(seen));
    rig.start();
    until("scheduled", || rig.asked_of_logind().contains(&"schedule dry-reboot".to_owned()));
    rig.login.lock().expect("not poisoned").scheduled = None;
    rig.touch();
    rig.until("it runs", |_| ran.exists());
    rig.touch();
    rig.settle();
    assert_eq!(server.asked(), [TAKE]);
}

/// An operator may reboot a converged host: the slot is held until that reboot although the host is well.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn requested_reboot_of_a_converged_host_keeps_the_slot() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    rig.look(&server.in_profile(right(&rig)));
    rig.start();
    until("told", || server.asked() == [GIVE]);
    let (code, text) = rig.run(&["reboot", "schedule", "--in", "2h"]);
    assert!(code == Some(0) && text.contains("scheduled for"), "{text}");
    rig.touch();
    rig.settle();
    assert_eq!(server.asked(), [GIVE, TAKE]);
    // The host is not well after the reboot.
    rig.look(&server.in_profile(blocked(&rig, "a GPU is gone")));
    rig.reboot("boot-2");
    rig.until("kept", |status| lock_text(status).starts_with("kept until this host is healthy"));
    rig.settle();
    assert_eq!(server.asked(), [GIVE, TAKE]);
}

/// An observation with a blocker, which requires operator action.
fn blocked(rig: &Rig, reason: &str) -> Value {
    let mut seen = right(rig);
    seen["blockers"] =
        json!([{ "kind": "sriov", "subject": "0000:07:00.0", "reason": reason, "fix": "look" }]);
    seen
}

/// A fault from before the reboot is not caused by it, and may take operators days to fix. A new fault keeps the slot,
/// which protects the rest of the fleet from the same reboot.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn only_a_new_fault_after_the_reboot_keeps_the_slot() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    let mut seen = waiting(&rig);
    seen["blockers"] = blocked(&rig, "its firmware allows no VFs")["blockers"].clone();
    holding(&mut rig, &server, |_| seen);
    rig.look(&server.in_profile(blocked(&rig, "a GPU is gone")));
    rig.reboot("boot-2");
    rig.until("kept", |status| lock_text(status).starts_with("kept until this host is healthy"));
    // An operator who cancels the reboot does not release it either.
    rig.run(&["reboot", "cancel"]);
    rig.settle();
    assert_eq!(server.asked(), [TAKE]);
    rig.look(&server.in_profile(blocked(&rig, "its firmware allows no VFs")));
    rig.touch();
    assert_eq!(asked(&server, 2), [TAKE, GIVE]);
}
