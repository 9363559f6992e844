//! Commands on a bus on which there is no daemon, or one that does not answer.

use crate::rig::Rig;

#[test]
fn without_a_daemon_commands_say_how_to_start_it() {
    let Some(rig) = Rig::new() else { return };
    for args in [
        ["reconcile"].as_slice(),
        &["reboot", "status"],
        &["reboot", "schedule"],
        &["reboot", "cancel"],
        &["status"],
    ] {
        let (status, said) = rig.run(args);
        assert!(said.contains("bedplate.service does not run"), "{args:?}: {said}");
        assert!(said.contains("start it with `systemctl start bedplate`"), "{args:?}: {said}");
        assert!(!said.contains("org.freedesktop"), "{args:?}: {said}");
        assert_ne!(status, Some(0), "{args:?}");
    }
}
