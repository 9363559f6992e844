//! logind is restarted, alone or with dbus: the daemon receives its signals again, and repeats a request that failed.

use std::time::{Duration, Instant};

use bedplate_daemon::status::State;

use super::by_itself::{ELSEWHERE, HOLD, with_a_link_for_a_hold};
use super::rig::{Rig, right, until, waiting};

/// Longest time until the daemon has noticed that logind answers again.
const RECOVERY: Duration = Duration::from_secs(5);

/// On a converged host only a signal of logind makes the daemon decide, and so read the hold that causes no event.
fn decides_by_a_signal(rig: &Rig) {
    let looks = rig.calls().len();
    rig.write(ELSEWHERE, HOLD);
    rig.inhibit(&[]);
    rig.until("held", |status| status.pause.is_some());
    assert_eq!(rig.calls().len(), looks, "{:?}", rig.calls());
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn signals_of_a_restarted_logind_are_received() {
    let mut rig = Rig::new();
    with_a_link_for_a_hold(&rig);
    rig.look(&right(&rig));
    rig.start();
    rig.until("converged", |status| status.state == State::Converged);
    rig.restart_logind();
    decides_by_a_signal(&rig);
}

/// Enough for the daemon's name on the bus, too few for logind's signals.
const MATCH_RULES: u32 = 2;

/// The bus accepts no more subscriptions, so the subscription to logind's signals ends as soon as it starts.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn ended_subscription_is_reported_and_renewed() {
    let mut rig = Rig::new();
    let limit = |number: u32| {
        format!("<limit name=\"max_match_rules_per_connection\">{number}</limit></busconfig>")
    };
    rig.configure_bus(|text| text.replace("</busconfig>", &limit(MATCH_RULES)));
    with_a_link_for_a_hold(&rig);
    rig.look(&right(&rig));
    rig.start_blindly();
    until("noticed", || rig.logged("no signals from systemd-logind"));
    rig.configure_bus(|text| text.replace(&limit(MATCH_RULES), &limit(512)));
    rig.until("converged", |status| status.state == State::Converged);
    until("heard", || {
        rig.write(ELSEWHERE, HOLD);
        rig.inhibit(&[]);
        rig.status().is_some_and(|status| status.pause.is_some())
    });
    assert!(!rig.logged("system bus lost"), "{}", rig.read("log"));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn failed_logind_request_is_repeated() {
    let mut rig = Rig::new();
    rig.login.lock().expect("not poisoned").starting = true;
    rig.restart_logind();
    rig.look(&waiting(&rig));
    rig.start();
    until("asked in vain", || rig.logged("cannot read logind's schedule"));
    // No signal announces it.
    rig.logind_answers();
    let begun = Instant::now();
    until("scheduled", || rig.asked_of_logind().contains(&"schedule reboot".to_owned()));
    assert!(begun.elapsed() < RECOVERY, "{:?}\n{}", begun.elapsed(), rig.read("log"));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn reboot_can_be_requested_after_dbus_restart() {
    let mut rig = Rig::new();
    rig.look(&waiting(&rig));
    rig.start();
    until("scheduled", || rig.asked_of_logind().contains(&"schedule reboot".to_owned()));
    let reboot = |rig: &Rig, cancel: bool| {
        rig.runtime.block_on(async {
            let agent = rig.agent().await?;
            match cancel {
                true => agent.cancel_reboot().await.map(|_| ()),
                false => agent.schedule_reboot("an operator", 0).await.map(|_| ()),
            }
        })
    };
    rig.restart_bus(|rig| {
        until("noticed", || rig.logged("system bus lost"));
        rig.login.lock().expect("not poisoned").starting = true;
    });
    until("asked in vain", || rig.logged("cannot read logind's schedule"));
    rig.logind_answers();
    let begun = Instant::now();
    until("taken back", || reboot(&rig, true).is_ok());
    reboot(&rig, false).expect("it can be asked for again");
    until("scheduled again", || rig.login.lock().expect("not poisoned").scheduled.is_some());
    assert!(begun.elapsed() < RECOVERY, "{:?}\n{}", begun.elapsed(), rig.read("log"));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn restarted_logind_is_asked_at_once() {
    let mut rig = Rig::new();
    rig.look(&waiting(&rig));
    rig.start();
    until("scheduled", || rig.asked_of_logind().contains(&"schedule reboot".to_owned()));
    // The reboot is cancelled while logind is stopped. Only logind's return is an event.
    rig.login.lock().expect("not poisoned").scheduled = None;
    rig.restart_logind();
    let begun = Instant::now();
    rig.until("called off", |status| status.reboot.cancelled_by.is_some());
    assert!(begun.elapsed() < RECOVERY, "{:?}\n{}", begun.elapsed(), rig.read("log"));
}
