//! Signals of logind: they are heard after logind was restarted.

use bedplate::daemon::status::State;

use super::by_itself::{ELSEWHERE, HOLD, with_a_link_for_a_hold};
use super::rig::{Rig, right};

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
