//! The cause of the last reboot: reported once per boot, and only as far as it is known.

use bedplate_core::profile::model::RebootMethod;
use bedplate_core::reboot_record::last_boot::{LastBoot, RebootOrigin};
use bedplate_daemon::reboot::state::RebootState;
use bedplate_daemon::status::{State, Status};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::rig::{Rig, right, until, waiting};

const SAID: &str = "the last reboot: ";

fn record(rig: &Rig) -> Value {
    serde_json::from_str(&rig.read("var/lib/bedplate/daemon/reboot.json")).expect("JSON")
}

/// Sets the start time of this boot's kernel.
fn began(rig: &Rig, at: Timestamp) {
    rig.write("proc/stat", &format!("cpu  1 2 3\nbtime {}\nprocesses 9\n", at.as_second()));
}

fn looked(rig: &Rig) -> Status {
    rig.until("looked", |status| matches!(status.state, State::Converged | State::WaitingForBoot))
}

fn last_boot(rig: &Rig) -> LastBoot {
    looked(rig).reboot.last_boot.expect("there is something to say")
}

fn times_said(rig: &Rig) -> usize {
    rig.read("log").matches(SAID).count()
}

/// Starts a daemon that schedules a reboot. Returns its time.
fn scheduled(rig: &mut Rig) -> Timestamp {
    rig.look(&waiting(rig));
    rig.start();
    let is_scheduled =
        |status: Status| matches!(status.reboot.state, RebootState::Scheduled { .. });
    until("scheduled", || rig.status().is_some_and(is_scheduled));
    let due = record(rig)["attempts"][0]["due"].clone();
    serde_json::from_value(due).expect("a time")
}

/// A boot after a reboot by this method, which was scheduled for now and happened at once.
fn after(rig: &mut Rig, method: &str) -> LastBoot {
    let due = Timestamp::now();
    let attempt = json!({
        "plan": "p", "boot_id": "boot-0", "at": due, "due": due, "method": method, "subject": "", "dry_run": false,
        "passthrough": false, "followed": false,
    });
    rig.write(
        "var/lib/bedplate/daemon/reboot.json",
        &json!({ "version": 3, "attempts": [attempt] }).to_string(),
    );
    began(rig, due + SignedDuration::from_secs(50));
    rig.look(&right(rig));
    rig.start();
    last_boot(rig)
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn scheduled_reboot_is_named_once() {
    let mut rig = Rig::new();
    let due = scheduled(&mut rig);
    assert_eq!(looked(&rig).reboot.last_boot, None, "nothing was scheduled before this boot");
    began(&rig, due + SignedDuration::from_secs(40));
    rig.look(&right(&rig));
    rig.reboot("boot-2");
    let first = last_boot(&rig);
    assert_eq!(
        (first.by, first.scheduled_for, first.boot_id.as_str()),
        (RebootOrigin::Scheduled(RebootMethod::Ordinary), Some(due), "boot-2")
    );
    assert!(rig.logged("the last reboot: an ordinary reboot, scheduled by bedplate for 20"));
    // The attempt is forgotten once the host is converged; the cause is not.
    assert_eq!(record(&rig)["attempts"], json!([]));
    let (_, text) = rig.run(&["reboot", "status"]);
    assert!(text.contains("last boot an ordinary reboot, scheduled by bedplate for"), "{text}");
    let (_, text) = rig.run(&["reboot", "status", "--json"]);
    let shown: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        (&shown["last_boot"]["by"], &shown["last_boot"]["method"]),
        (&json!("ordinary"), &json!("ordinary"))
    );
    rig.kill();
    rig.start();
    assert_eq!(last_boot(&rig), first);
    assert_eq!(times_said(&rig), 1, "{}", rig.read("log"));
    // The next boot is a different one, for which no change was pending.
    rig.reboot("boot-3");
    assert_eq!(looked(&rig).reboot.last_boot, None);
    assert_eq!(times_said(&rig), 1, "{}", rig.read("log"));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn early_reboot_is_not_attributed_to_bedplate() {
    let mut rig = Rig::new();
    scheduled(&mut rig);
    began(&rig, Timestamp::now());
    rig.look(&right(&rig));
    rig.reboot("boot-2");
    assert_eq!(last_boot(&rig).by, RebootOrigin::External);
    assert!(
        rig.logged("the last reboot: not by bedplate: it had scheduled an ordinary reboot for 20")
    );
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn firmware_reset_is_named() {
    let mut rig = Rig::new();
    let last_boot = after(&mut rig, "firmware");
    assert_eq!(last_boot.by, RebootOrigin::Scheduled(RebootMethod::Firmware));
    assert!(rig.logged("the last reboot: a reset by the firmware, scheduled by bedplate for 20"));
}

/// There is no BMC to ask.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn bmc_power_cycle_without_a_bmc_is_unknown() {
    let mut rig = Rig::new();
    let last_boot = after(&mut rig, "bmc");
    assert_eq!(last_boot.by, RebootOrigin::Unknown);
    assert!(
        last_boot.summary.contains("unknown whether the BMC did it: cannot open "),
        "{}",
        last_boot.summary
    );
    assert!(
        last_boot.summary.contains("dev/ipmi0; load the modules ipmi_devintf"),
        "{}",
        last_boot.summary
    );
    assert!(rig.logged("the last reboot: bedplate had scheduled a power cycle by the BMC for 20"));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn manual_reboot_is_reported_when_a_change_was_pending() {
    let mut rig = Rig::new();
    let mut manual = waiting(&rig);
    manual["reboot"]["policy"] = json!("never");
    rig.look(&manual);
    rig.start();
    looked(&rig);
    rig.look(&right(&rig));
    rig.reboot("boot-2");
    let last_boot = last_boot(&rig);
    assert_eq!((last_boot.by, last_boot.method), (RebootOrigin::External, None));
    assert!(
        rig.logged("the last reboot: not by bedplate: a change was pending, but bedplate had scheduled no reboot")
    );
}
