//! A slot that no reboot comes of goes back to the fleet: at once when the reboot is called off, and by itself once a server
//! that was away is there again. It is kept while the host goes down, and when it has come back and is not well.

use bedplate_daemon::reboot::state::RebootState;
use bedplate_daemon::status::{State, Status};
use serde_json::{Value, json};

use super::super::rig::{Rig, right, until, waiting};
use super::{DROPPED, Server, YES, announced};

const TAKE: &str = "/v1/pre-reboot";
const GIVE: &str = "/v1/steady-state";

/// airlock without its etcd.
const NO_ETCD: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 103\r\nConnection: close\r\n\r\n\
    {\"kind\":\"failed_sem_init\",\"value\":\"failed to initialize semaphore manager: context deadline exceeded\"}\n";
/// airlock when two hosts gave their slots back at once.
const CONFLICT: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 73\r\nConnection: close\r\n\r\n\
    {\"kind\":\"failed_lock\",\"value\":\"conflict on semaphore detected, aborting\"}";
/// poseidon without its API server.
const NO_LEASE: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 62\r\nConnection: close\r\n\r\n\
    {\"kind\":\"internal_error\",\"value\":\"error getting reboot lease\"}";
/// poseidon, of a host that holds nothing.
const OTHERS: &str = "HTTP/1.1 423 Locked\r\nContent-Length: 80\r\nConnection: close\r\n\r\n\
    {\"kind\":\"lock_held\",\"value\":\"reboot lease unlock unavailable, held by 2aa1af43\"}";
/// poseidon, of a host that is no node of its cluster.
const NO_NODE: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 58\r\nConnection: close\r\n\r\n\
    {\"kind\":\"internal_error\",\"value\":\"error uncordoning node\"}";

/// A host that holds a slot, for a reboot that is announced.
fn holding(rig: &mut Rig, server: &Server, seen: impl FnOnce(&Rig) -> Value) {
    rig.look(&server.in_profile(seen(rig)));
    rig.start();
    until("announced", || announced(rig));
    assert_eq!(server.asked(), [TAKE]);
}

fn waits(status: &Status) -> bool {
    matches!(status.reboot.state, RebootState::Waiting { .. })
}

fn lock_text(status: &Status) -> &str {
    status.reboot.lock_said.as_deref().unwrap_or_default()
}

/// What the server was asked for, once it was asked for so much.
fn asked(server: &Server, times: usize) -> Vec<String> {
    until("the server is asked", || server.asked().len() >= times);
    server.asked()
}

/// The server fails when the slot is given back; nothing happens on the host from then on, and the slot goes back.
fn goes_back_by_itself(failure: &'static str, why: &str) {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    holding(&mut rig, &server, waiting);
    server.at_steady_state(&[failure]);
    rig.look(&server.in_profile(right(&rig)));
    rig.reboot("boot-2");
    let status =
        rig.until("it has failed", |status| lock_text(status).contains("is not given back yet"));
    assert!(lock_text(&status).contains(why), "{}", lock_text(&status));
    assert!(
        status.reboot.lock.is_some() && rig.logged("is not given back yet; this is tried again: ")
    );
    server.at_steady_state(&[YES]);
    let status = rig.until("given back", |status| status.reboot.lock.is_none());
    assert_eq!(lock_text(&status), "this host is well, and holds no slot");
    assert!(rig.logged(&format!("reported to {} that this host is well", server.url)));
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

/// The journal has each reason once, however often it is tried.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn one_reason_is_said_once() {
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

/// A server that knows a host as the holder of nothing has been asked by hand, or has lost what it knew.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn what_others_hold_is_none_to_give_back() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    holding(&mut rig, &server, waiting);
    server.at_steady_state(&[OTHERS]);
    rig.look(&server.in_profile(right(&rig)));
    rig.reboot("boot-2");
    let status = rig.until("well", |status| status.reboot.lock.is_none());
    assert_eq!(lock_text(&status), "this host holds no slot");
    assert!(rig.logged(
        "says that this host holds no slot, so there is none to give back (lock_held: reboot lease"
    ));
    rig.touch();
    rig.settle();
    assert_eq!(server.asked(), [TAKE, GIVE]);
    assert!(!rig.logged("is not given back yet"));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn a_host_that_the_cluster_does_not_know_is_told_so() {
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
fn an_operator_who_cancels_gives_the_slot_back() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    holding(&mut rig, &server, waiting);
    let (code, text) = rig.run(&["reboot", "cancel"]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(asked(&server, 2), [TAKE, GIVE]);
    let status = rig.until("given back", |status| status.reboot.lock.is_none());
    assert_eq!(lock_text(&status), "given back: no reboot is due");
    assert!(rig.logged(&format!("gave the slot back to {}: no reboot is due", server.url)));
    rig.touch();
    rig.settle();
    assert_eq!(server.asked(), [TAKE, GIVE], "once");
    // It may have one again.
    let (code, text) = rig.run(&["reboot", "schedule"]);
    assert!(code == Some(0) && text.contains("announced for"), "{text}");
    assert_eq!(server.asked(), [TAKE, GIVE, TAKE]);
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn whoever_calls_the_reboot_off_gives_the_slot_back() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    holding(&mut rig, &server, waiting);
    // `shutdown -c`, which also takes the file away that is watched.
    rig.login.lock().expect("not poisoned").scheduled = None;
    rig.touch();
    assert_eq!(asked(&server, 2), [TAKE, GIVE]);
    rig.until("given back", |status| {
        matches!(status.reboot.state, RebootState::Cancelled { .. }) && status.reboot.lock.is_none()
    });
    // The attempt that did not come is none.
    assert!(rig.read("var/lib/bedplate/daemon/reboot.json").contains("\"attempts\": []"));
}

/// A hold may last for days; the slot is not kept for it.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn what_only_delays_the_reboot_gives_the_slot_back() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    holding(&mut rig, &server, waiting);
    rig.inhibit(&["apt"]);
    assert_eq!(asked(&server, 2), [TAKE, GIVE]);
    rig.until("given back", |status| waits(status) && status.reboot.lock.is_none());
    rig.inhibit(&[]);
    until("announced again", || announced(&rig));
    assert_eq!(server.asked(), [TAKE, GIVE, TAKE]);
}

/// An answer that got lost may have been yes: no reboot is announced before the server has given a slot again.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn a_slot_that_may_be_given_back_is_not_counted_on() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    holding(&mut rig, &server, waiting);
    server.at_steady_state(&[DROPPED]);
    rig.inhibit(&["apt"]);
    rig.until("it has failed", |status| lock_text(status).contains("is not given back yet"));
    rig.inhibit(&[]);
    until("announced again", || announced(&rig));
    assert_eq!(server.asked(), [TAKE, GIVE, TAKE]);
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn a_host_that_cannot_be_compared_any_more_gives_the_slot_back() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    holding(&mut rig, &server, waiting);
    rig.write("fails", "error: broken");
    rig.touch();
    assert_eq!(asked(&server, 2), [TAKE, GIVE]);
    rig.until("given back", |status| status.state == State::Error && status.reboot.lock.is_none());
}

/// What cannot be announced is not due; and the server, which may drain the node each time, is not asked at every look.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn a_logind_that_refuses_gives_the_slot_back() {
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
    assert!(why[0].text.starts_with("logind does not schedule the reboot: "), "{why:?}");
    rig.login.lock().expect("not poisoned").refuses = false;
    until("announced", || announced(&rig));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn after_a_rehearsal_the_slot_goes_back_for_good() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    let mut seen = waiting(&rig);
    seen["reboot"]["rehearse"] = json!(true);
    seen["reboot"]["delay_s"] = json!(0);
    rig.look(&server.in_profile(seen));
    rig.start();
    until("announced", || rig.asked_of_logind().contains(&"schedule dry-reboot".to_owned()));
    rig.login.lock().expect("not poisoned").scheduled = None;
    rig.touch();
    assert_eq!(asked(&server, 2), [TAKE, GIVE]);
    rig.touch();
    rig.settle();
    assert_eq!(server.asked(), [TAKE, GIVE], "asked for again, with nothing to come of it");
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn a_slot_of_a_server_that_the_profile_left_goes_back_first() {
    let mut rig = Rig::new();
    let (old, new) = (Server::start(&[YES]), Server::start(&[YES]));
    holding(&mut rig, &old, waiting);
    // Its reboot has come, and the host waits for another one.
    let mut seen = waiting(&rig);
    seen["hash"] = json!("more");
    old.at_steady_state(&[NO_ETCD]);
    rig.look(&new.in_profile(seen));
    rig.reboot("boot-2");
    let status = rig.until("waits", waits);
    let RebootState::Waiting { why, .. } = status.reboot.state else { unreachable!() };
    assert!(why[0].text.contains("must be given back before") && new.asked().is_empty(), "{why:?}");
    old.at_steady_state(&[YES]);
    until("announced", || announced(&rig));
    assert_eq!(
        (old.asked().last().map(String::as_str), new.asked()),
        (Some(GIVE), vec![TAKE.to_owned()])
    );
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn a_host_that_goes_down_keeps_its_slot() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    let mut seen = waiting(&rig);
    seen["reboot"]["delay_s"] = json!(0);
    holding(&mut rig, &server, |_| seen);
    // Its time has come, and nothing is scheduled any more: services stop.
    rig.login.lock().expect("not poisoned").scheduled = None;
    rig.touch();
    // People ask in vain.
    let (_, text) = rig.run(&["reboot", "cancel"]);
    assert!(text.contains("already going down"), "{text}");
    rig.settle();
    assert_eq!(server.asked(), [TAKE]);
}

/// An operator has put a shutdown of their own in the place of bedplate's.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn a_reboot_of_others_keeps_the_slot_and_a_poweroff_does_not() {
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
fn a_host_whose_power_is_about_to_be_cycled_keeps_its_slot() {
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
    until("announced", || rig.asked_of_logind().contains(&"schedule dry-reboot".to_owned()));
    rig.login.lock().expect("not poisoned").scheduled = None;
    rig.touch();
    rig.until("it runs", |_| ran.exists());
    rig.touch();
    rig.settle();
    assert_eq!(server.asked(), [TAKE]);
}

/// People may ask for a reboot of a host that is right: being right is no reason to give the slot back before it.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn a_right_host_that_is_to_be_rebooted_keeps_its_slot() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    rig.look(&server.in_profile(right(&rig)));
    rig.start();
    until("told", || server.asked() == [GIVE]);
    let (code, text) = rig.run(&["reboot", "schedule", "--in", "2h"]);
    assert!(code == Some(0) && text.contains("announced for"), "{text}");
    rig.touch();
    rig.settle();
    assert_eq!(server.asked(), [GIVE, TAKE]);
    // It comes back wrong.
    rig.look(&server.in_profile(blocked(&rig, "a GPU is gone")));
    rig.reboot("boot-2");
    rig.until("kept", |status| lock_text(status).starts_with("kept until this host is well"));
    rig.settle();
    assert_eq!(server.asked(), [GIVE, TAKE]);
}

/// An observation that finds something that people have to deal with.
fn blocked(rig: &Rig, reason: &str) -> Value {
    let mut seen = right(rig);
    seen["blockers"] =
        json!([{ "kind": "sriov", "subject": "0000:07:00.0", "reason": reason, "remedy": "look" }]);
    seen
}

/// What was wrong before is not the reboot's doing, and may take people days; what is new keeps the slot, and with it the
/// rest of the fleet from the same.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn only_what_is_new_after_the_reboot_keeps_the_slot() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    let mut seen = waiting(&rig);
    seen["blockers"] = blocked(&rig, "its firmware allows no VFs")["blockers"].clone();
    holding(&mut rig, &server, |_| seen);
    rig.look(&server.in_profile(blocked(&rig, "a GPU is gone")));
    rig.reboot("boot-2");
    rig.until("kept", |status| lock_text(status).starts_with("kept until this host is well"));
    // Not even for an operator who wants no reboot any more.
    rig.run(&["reboot", "cancel"]);
    rig.settle();
    assert_eq!(server.asked(), [TAKE]);
    rig.look(&server.in_profile(blocked(&rig, "its firmware allows no VFs")));
    rig.touch();
    assert_eq!(asked(&server, 2), [TAKE, GIVE]);
}
