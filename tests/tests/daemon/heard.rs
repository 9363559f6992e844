//! Signals of logind: they are heard after logind was restarted, and that they are not is noticed.

use bedplate::daemon::status::State;

use super::by_itself::{ELSEWHERE, HOLD, with_a_link_for_a_hold};
use super::rig::{Rig, right, until};

/// A host that is right: nothing but a signal of logind makes the daemon decide, and so read the hold that no event tells of.
fn decides_by_a_signal(rig: &Rig) {
    let looks = rig.calls().len();
    rig.write(ELSEWHERE, HOLD);
    rig.inhibit(&[]);
    rig.until("held", |status| status.held.is_some());
    assert_eq!(rig.calls().len(), looks, "{:?}", rig.calls());
}

#[test]
fn a_logind_that_was_restarted_is_heard() {
    let Some(mut rig) = Rig::new() else { return };
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
fn a_watch_that_ends_is_noticed_and_begun_again() {
    let Some(mut rig) = Rig::new() else { return };
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
