//! Signals of logind: they are heard after logind was restarted.

use bedplate::reboot::decide::Decision;

use super::rig::{Rig, waiting};

fn announced(rig: &Rig) {
    rig.until("announced", |status| matches!(status.reboot.decision, Decision::Announced { .. }));
}

fn calls_off_by_a_signal(rig: &Rig) {
    let looks = rig.calls().len();
    rig.inhibit(&["backup"]);
    rig.until("called off", |status| matches!(status.reboot.decision, Decision::Wait { .. }));
    assert_eq!(rig.calls().len(), looks, "{:?}", rig.calls());
}

#[test]
fn a_logind_that_was_restarted_is_heard() {
    let Some(mut rig) = Rig::new() else { return };
    rig.look(&waiting(&rig));
    rig.start();
    announced(&rig);
    rig.restart_logind();
    calls_off_by_a_signal(&rig);
}
