//! logind is restarted, alone or with dbus: its signals are heard after that, and it is asked again after an answer that
//! failed.

use std::time::{Duration, Instant};

use bedplate_daemon::status::State;

use super::by_itself::{ELSEWHERE, HOLD, with_a_link_for_a_hold};
use super::rig::{Rig, right, until, waiting};

/// Longest time until the daemon has noticed that logind answers again.
const RECOVERY: Duration = Duration::from_secs(5);

/// A host that is right: nothing but a signal of logind makes the daemon decide, and so read the hold that no event tells of.
fn decides_by_a_signal(rig: &Rig) {
    let looks = rig.calls().len();
    rig.write(ELSEWHERE, HOLD);
    rig.inhibit(&[]);
    rig.until("held", |status| status.held.is_some());
    assert_eq!(rig.calls().len(), looks, "{:?}", rig.calls());
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn a_logind_that_was_restarted_is_heard() {
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

/// The bus takes no more subscriptions, so the watch over logind's signals ends as soon as it begins.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn a_watch_that_ends_is_noticed_and_begun_again() {
    let mut rig = Rig::new();
    let limit = |number: u32| {
        format!("<limit name=\"max_match_rules_per_connection\">{number}</limit></busconfig>")
    };
    rig.configure_bus(|text| text.replace("</busconfig>", &limit(MATCH_RULES)));
    with_a_link_for_a_hold(&rig);
    rig.look(&right(&rig));
    rig.start_blindly();
    until("noticed", || rig.logged("signals of systemd-logind do not arrive"));
    rig.configure_bus(|text| text.replace(&limit(MATCH_RULES), &limit(512)));
    rig.until("converged", |status| status.state == State::Converged);
    until("heard", || {
        rig.write(ELSEWHERE, HOLD);
        rig.inhibit(&[]);
        rig.status().is_some_and(|status| status.held.is_some())
    });
    assert!(!rig.logged("the system bus is gone"), "{}", rig.read("log"));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn logind_whose_first_answer_failed_is_asked_again() {
    let mut rig = Rig::new();
    rig.login.lock().expect("not poisoned").starting = true;
    rig.restart_logind();
    rig.look(&waiting(&rig));
    rig.start();
    until("asked in vain", || rig.logged("cannot ask logind what is scheduled"));
    // Nobody signals it.
    rig.logind_answers();
    let begun = Instant::now();
    until("announced", || rig.asked_of_logind().contains(&"schedule reboot".to_owned()));
    assert!(begun.elapsed() < RECOVERY, "{:?}\n{}", begun.elapsed(), rig.read("log"));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn reboot_can_be_asked_for_after_dbus_restart() {
    let mut rig = Rig::new();
    rig.look(&waiting(&rig));
    rig.start();
    until("announced", || rig.asked_of_logind().contains(&"schedule reboot".to_owned()));
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
        until("noticed", || rig.logged("the system bus is gone"));
        rig.login.lock().expect("not poisoned").starting = true;
    });
    until("asked in vain", || rig.logged("cannot ask logind what is scheduled"));
    rig.logind_answers();
    let begun = Instant::now();
    until("taken back", || reboot(&rig, true).is_ok());
    reboot(&rig, false).expect("it can be asked for again");
    until("announced again", || rig.login.lock().expect("not poisoned").scheduled.is_some());
    assert!(begun.elapsed() < RECOVERY, "{:?}\n{}", begun.elapsed(), rig.read("log"));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn logind_that_comes_back_is_asked_at_once() {
    let mut rig = Rig::new();
    rig.look(&waiting(&rig));
    rig.start();
    until("announced", || rig.asked_of_logind().contains(&"schedule reboot".to_owned()));
    // Taken back while it is away; that is its own decision, so that no event but its return tells of it.
    rig.login.lock().expect("not poisoned").scheduled = None;
    rig.restart_logind();
    let begun = Instant::now();
    rig.until("called off", |status| status.reboot.cancelled_by.is_some());
    assert!(begun.elapsed() < RECOVERY, "{:?}\n{}", begun.elapsed(), rig.read("log"));
}
