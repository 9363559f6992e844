//! A slot when bedplate's own record fails: the disk is full, or the record is unreadable. The daemon takes no slot that it
//! could not record, and reports the reason.

use bedplate_daemon::reboot::state::RebootState;
use bedplate_daemon::status::Status;

use super::super::rig::{Rig, right, until, waiting};
use super::{Server, YES, scheduled};

const RECORD: &str = "var/lib/bedplate/daemon/reboot.json";
/// Temporary file of the record. A directory in its place makes writing fail.
const TEMPORARY: &str = "var/lib/bedplate/daemon/.reboot.json.tmp";
const CANNOT_WRITE: &str = "cannot write /var/lib/bedplate/daemon/reboot.json: ";

fn lock_text(status: &Status) -> &str {
    status.reboot.lock_message.as_deref().unwrap_or_default()
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn damaged_record_keeps_the_slot_and_reports_it() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    rig.write(RECORD, "{\"version\":1,");
    rig.look(&server.in_profile(right(&rig)));
    rig.start();
    let why = "a reboot lock slot may be held and cannot be released: ";
    let status = rig.until("said", |status| lock_text(status).starts_with(why));
    assert!(
        lock_text(&status).contains("/var/lib/bedplate/daemon/reboot.json"),
        "{}",
        lock_text(&status)
    );
    let (_, text) = rig.run(&["reboot", "status"]);
    assert!(text.contains("may be held"), "{text}");
    for _ in 0..2 {
        let looks = rig.calls().len();
        rig.touch();
        until("it has looked", || rig.calls().len() > looks);
    }
    rig.settle();
    assert_eq!(rig.read("log").matches(why).count(), 1, "once: {}", rig.read("log"));
    assert_eq!(server.asked(), [""; 0]);
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn no_slot_is_taken_that_cannot_be_recorded() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    std::fs::create_dir_all(rig.path(TEMPORARY)).expect("ours");
    rig.look(&server.in_profile(waiting(&rig)));
    rig.start();
    let status =
        rig.until("waits", |status| matches!(status.reboot.state, RebootState::Waiting { .. }));
    let RebootState::Waiting { why, .. } = status.reboot.state else { unreachable!() };
    assert!(why[0].text.starts_with(CANNOT_WRITE), "{why:?}");
    assert_eq!(server.asked(), [""; 0]);
    std::fs::remove_dir(rig.path(TEMPORARY)).expect("ours");
    rig.touch();
    until("scheduled", || scheduled(&rig));
    assert_eq!(server.asked(), ["/v1/pre-reboot"]);
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn full_disk_keeps_the_slot_and_reports_it() {
    let mut rig = Rig::new();
    let server = Server::start(&[YES]);
    rig.look(&server.in_profile(waiting(&rig)));
    rig.start();
    until("scheduled", || scheduled(&rig));
    rig.look(&server.in_profile(right(&rig)));
    std::fs::create_dir(rig.path(TEMPORARY)).expect("ours");
    rig.reboot("boot-2");
    let status = rig.until("said", |status| lock_text(status).contains("not released yet: "));
    assert!(lock_text(&status).contains(CANNOT_WRITE), "{}", lock_text(&status));
    assert!(rig.logged("not released yet; retrying: cannot write"));
    assert_eq!(server.asked(), ["/v1/pre-reboot"]);
    std::fs::remove_dir(rig.path(TEMPORARY)).expect("ours");
    rig.until("given back", |status| status.reboot.lock.is_none());
    assert_eq!(server.asked(), ["/v1/pre-reboot", "/v1/steady-state"]);
}
