//! Reboot methods armed for a reboot that does not happen are undone, however long that takes.

use bedplate_daemon::reboot::state::RebootState;
use bedplate_daemon::status::State;
use bedplate_tests::program;
use serde_json::{Value, json};

use super::rig::{RECORD, Rig, right, until, waiting};
use super::sockets::{ALL, rig, serve};

const MODE: &str = "sys/kernel/reboot/mode";

fn kept(rig: &Rig) -> Value {
    rig.record()["phase"].clone()
}

fn goes_back_to_warm(kept: &Value) -> bool {
    let steps = kept["arranged"]["prepared"]["undo"].as_array().cloned().unwrap_or_default();
    steps.iter().any(|step| step["write"]["value"] == "warm")
}

/// A host that must reboot through firmware, with helpers that are not the daemon's children: this program, or the script
/// `relay`.
fn to_reboot_by_firmware(relay: Option<&str>) -> Rig {
    let rig = rig();
    let path = rig.path("relay");
    match relay {
        None => std::os::unix::fs::symlink(program::path(), &path).expect("ours"),
        Some(text) => rig.program("relay", text),
    }
    ALL.iter().for_each(|name| serve(&rig, name, &path));
    rig.write(MODE, "warm\n");
    rig.write("sys/kernel/reboot/type", "acpi\n");
    rig.write("proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\n");
    let mut seen = waiting(&rig);
    seen["reboot"]["methods"] = json!(["firmware"]);
    rig.look(&seen);
    rig
}

fn by_firmware() -> Rig {
    let mut rig = to_reboot_by_firmware(None);
    rig.start();
    rig.until("scheduled", |status| matches!(status.reboot.state, RebootState::Scheduled { .. }));
    assert_eq!(rig.read(MODE), "cold");
    rig
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn failed_undo_is_reported_and_kept_for_the_next_daemon() {
    let mut rig = by_firmware();
    std::fs::rename(rig.path("helpers"), rig.path("stopped")).expect("ours");
    let (code, said) = rig.run(&["reboot", "cancel"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("not disarmed yet (/sys/kernel/reboot/"), "{said}");
    assert!(said.contains("bedplate-worker.socket"), "{said}");
    for _ in 0..2 {
        let kept = kept(&rig);
        assert_eq!(kept["ending"]["ending"], "called-off", "{kept}");
        assert!(goes_back_to_warm(&kept), "{kept}");
        // Even an operator gets no reboot before the undo: the next method would be armed on top of a changed mode.
        let (_, said) = rig.run(&["reboot", "cancel"]);
        assert!(said.contains("no reboot is scheduled by bedplate, but the armed"), "{said}");
        rig.stop();
        rig.start();
    }
    rig.stop();
    std::fs::rename(rig.path("stopped"), rig.path("helpers")).expect("ours");
    rig.start();
    until("undone", || rig.read(MODE) == "warm");
    until("forgotten", || kept(&rig)["arranged"].is_null());
    rig.until("called off", |status| matches!(status.reboot.state, RebootState::Cancelled { .. }));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn no_reboot_is_scheduled_while_one_is_still_armed() {
    let mut rig = by_firmware();
    // The mode file is no longer writable.
    rig.write("sys/kernel/reboot/mode.dir/x", "");
    std::fs::remove_file(rig.path(MODE)).expect("ours");
    std::fs::rename(rig.path("sys/kernel/reboot/mode.dir"), rig.path(MODE)).expect("ours");
    rig.inhibit(&["apt"]);
    until("taken back", || rig.asked_of_logind().contains(&"cancel".to_owned()));
    rig.inhibit(&[]);
    let status = rig.until("waits", |status| {
        matches!(status.reboot.state, RebootState::Waiting { .. })
            && status.reboot.vetoes.iter().any(|veto| veto.contains("not disarmed yet"))
    });
    assert!(!status.reboot.vetoes.iter().any(|veto| veto.contains("apt")), "{status:#?}");
    assert_eq!(kept(&rig)["ending"]["ending"], "taken-back");
    rig.stop();
    std::fs::remove_dir_all(rig.path(MODE)).expect("ours");
    rig.write(MODE, "cold\n");
    rig.start();
    // The undo restores the mode that the host had at first.
    rig.until("scheduled", |status| matches!(status.reboot.state, RebootState::Scheduled { .. }));
    assert!(goes_back_to_warm(&kept(&rig)), "{}", rig.read("log"));
}

/// The request for a power cycle is the daemon's own file, so the daemon removes it without a helper.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn power_cycle_request_is_removed_without_a_unit() {
    let mut rig = rig();
    rig.look(&right(&rig));
    rig.write("run/bedplate/power-cycle", "{}");
    rig.write(MODE, "cold\n");
    let arranged = json!({
        "boot_id": "boot-1", "kind": "reboot", "usec": 4_000_000_000_000_000_u64, "plan": "waits", "method": "bmc",
        "request": null, "userspace": null,
        "prepared": { "method": "bmc", "next": "logind-reboot", "undo": [
            { "write": { "path": format!("/{MODE}"), "value": "warm" } },
            { "remove": { "path": "/run/bedplate/power-cycle" } },
        ]},
    });
    let record = json!({ "version": 3, "phase": { "phase": "scheduled", "arranged": arranged } });
    rig.write(RECORD, &record.to_string());
    rig.start();
    rig.until("nobody looks", |status| status.state == State::Error);
    until("removed", || !rig.path("run/bedplate/power-cycle").exists());
    until("kept", || {
        kept(&rig)["arranged"]["prepared"]["undo"].as_array().is_some_and(|undo| undo.len() == 1)
    });
    assert_eq!(kept(&rig)["ending"]["ending"], "called-off");
    assert_eq!(rig.read(MODE), "cold\n");
}

/// `shutdown -r +10` replaces bedplate's schedule: that reboot uses the host's original mode.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn another_shutdown_disarms_the_method() {
    let rig = by_firmware();
    let theirs = Some(("reboot".to_owned(), 4_000_000_000_000_000));
    rig.login.lock().expect("not poisoned").scheduled.clone_from(&theirs);
    rig.inhibit(&[]);
    until("undone", || rig.read(MODE) == "warm");
    until("forgotten", || kept(&rig)["arranged"].is_null());
    assert_eq!(kept(&rig)["ending"]["ending"], "called-off");
    let status = rig.until("said", |status| status.reboot.cancelled_by.is_some());
    let said = status.reboot.cancelled_by.unwrap_or_default();
    assert!(said.contains("another shutdown in its place: reboot at 2096"), "{said}");
    assert!(rig.logged("was cancelled by another shutdown"), "{}", rig.read("log"));
    assert!(!rig.asked_of_logind().contains(&"cancel".to_owned()));
    // `shutdown -c`: its caller wants no reboot.
    rig.login.lock().expect("not poisoned").scheduled = None;
    rig.inhibit(&[]);
    rig.settle();
    rig.until("called off", |status| matches!(status.reboot.state, RebootState::Cancelled { .. }));
    assert_eq!(rig.read(MODE), "warm");
}

/// The undo does not need the record.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn damaged_record_does_not_prevent_the_undo() {
    let rig = by_firmware();
    rig.write(RECORD, "{");
    rig.login.lock().expect("not poisoned").scheduled =
        Some(("reboot".into(), 4_000_000_000_000_000));
    rig.inhibit(&[]);
    until("undone", || rig.read(MODE) == "warm");
    assert_eq!(rig.read(RECORD), "{");
}

/// Arming fails half-way, and so does the undo. The host's own mode is written again as soon as writing works.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn partly_armed_method_is_undone() {
    let relay = format!(
        "#!/bin/sh\ncd \"$(dirname \"$0\")\" || exit 1\nif [ -e full ]; then trap '' XFSZ; ulimit -f 0; fi\nexec {} \"$@\"\n",
        program::path().display()
    );
    let mut rig = to_reboot_by_firmware(Some(&relay));
    // From here on each write fails after emptying the file.
    rig.write("full", "");
    rig.start();
    let status = rig.until("waits", |status| {
        matches!(status.reboot.state, RebootState::Waiting { .. }) && rig.read(MODE).is_empty()
    });
    assert!(status.reboot.state.to_string().contains("undo also failed"), "{status:#?}");
    assert!(goes_back_to_warm(&kept(&rig)), "{}", rig.read("log"));
    assert!(rig.logged("is not disarmed yet"), "{}", rig.read("log"));
    assert!(rig.read(RECORD).contains("\"attempts\": []"));
    // The next daemon does not arm anything on top of that either.
    rig.stop();
    rig.start();
    rig.until("waits", |status| {
        status.reboot.vetoes.iter().any(|veto| veto.contains("not disarmed yet"))
    });
    assert!(goes_back_to_warm(&kept(&rig)), "{}", rig.read("log"));
    std::fs::remove_file(rig.path("full")).expect("ours");
    rig.inhibit(&[]);
    rig.until("scheduled", |status| matches!(status.reboot.state, RebootState::Scheduled { .. }));
    assert_eq!(rig.read(MODE), "cold");
    assert!(goes_back_to_warm(&kept(&rig)), "{}", rig.read("log"));
}
