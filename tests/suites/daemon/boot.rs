//! The command of bedplate-boot.service: restores settings that a reboot has reset, and delays the boot no longer than its
//! limit.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use bedplate_tests::program;
use serde_json::{Value, json};

use super::rig::{KEY, Rig, drifted, failed, fixed, right};

/// Runs `bedplate boot` as systemd does, with a `udevadm settle` that runs this shell command.
fn boot(rig: &Rig, settle: &str) -> (Output, Duration) {
    rig.program(
        "bin/udevadm",
        &format!("#!/bin/sh\necho \"$*\" >>{}/settled\n{settle}\n", rig.dir.path().display()),
    );
    let path =
        format!("{}:{}", rig.path("bin").display(), std::env::var("PATH").unwrap_or_default());
    let begun = Instant::now();
    let output = Command::new(program::path())
        .arg("boot")
        .arg(format!("--worker={}", rig.path("worker").display()))
        .env("PATH", path)
        .env_remove("JOURNAL_STREAM")
        .output()
        .expect("bedplate starts");
    (output, begun.elapsed())
}

fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Adds a file change to the runtime change.
fn both(mut seen: Value) -> Value {
    let file = json!({
        "key": "fedcba9876543210", "id": "cmdline/etc/default/grub", "kind": "cmdline", "subject": "/etc/default/grub", "effect": "cold-boot",
        "live": false, "items": []
    });
    seen["changes"].as_array_mut().expect("a list").push(file);
    seen
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn only_runtime_changes_are_restored() {
    let rig = Rig::new();
    rig.look(&both(drifted(&rig)));
    rig.after(&both(fixed(&rig)));
    let (output, _) = boot(&rig, "exit 0");
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    assert_eq!(
        rig.calls(),
        ["worker --settings", "worker --unjudged", &format!("worker --only={KEY} --unjudged")]
    );
    assert_eq!(rig.read("settled"), "settle --timeout=2\n", "half of the five seconds");
    assert!(text_of(&output).contains("done: port 0000:22:00.0"), "{}", text_of(&output));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn observe_mode_restores_nothing() {
    let rig = Rig::new();
    let mut seen = drifted(&rig);
    seen["agent"]["mode"] = json!("observe");
    rig.look(&seen);
    let (output, _) = boot(&rig, "exit 0");
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    assert_eq!(rig.calls(), ["worker --settings"]);
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn hanging_udev_leaves_time_for_the_changes() {
    let rig = Rig::new();
    rig.look(&drifted(&rig));
    rig.after(&fixed(&rig));
    let (output, took) = boot(&rig, "exec sleep 1000");
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output));
    assert!(text_of(&output).contains("the boot continues without it"), "{}", text_of(&output));
    assert!(rig.calls().contains(&format!("worker --only={KEY} --unjudged")), "{:?}", rig.calls());
    assert!(took < Duration::from_secs(60), "{took:?}");
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn hanging_device_does_not_delay_the_boot() {
    let rig = Rig::new();
    rig.look(&drifted(&rig));
    rig.after(&fixed(&rig));
    // The first observation ends; one that must change something hangs.
    let worker = rig.read("worker").replace("*--only*)", "*--only*) exec sleep 1000;");
    rig.program("worker", &worker);
    let (output, took) = boot(&rig, "exit 0");
    assert_eq!(output.status.code(), Some(4), "{}", text_of(&output));
    assert!(text_of(&output).contains("took more than 5 s"), "{}", text_of(&output));
    assert!(took < Duration::from_secs(60), "{took:?}");
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn failed_change_is_named() {
    let rig = Rig::new();
    let mut failed = failed(&rig);
    failed["warnings"] = json!(["cannot write the history: No space left on device"]);
    rig.look(&drifted(&rig));
    rig.after(&failed);
    let (output, _) = boot(&rig, "exit 0");
    assert_eq!(output.status.code(), Some(4), "{}", text_of(&output));
    for told in [
        "failed (no such port): port 0000:22:00.0 ACS control: 001d → 0011",
        "drifted: port 0000:22:00.0 ACS control: 001d → 0011",
        "cannot write the history: No space left on device",
    ] {
        assert!(text_of(&output).contains(told), "{told}: {}", text_of(&output));
    }
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn unusable_profile_fails_with_its_reason() {
    let rig = Rig::new();
    rig.look(&right(&rig));
    rig.write("fails", "error: no profile\n");
    let (output, _) = boot(&rig, "exit 0");
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert!(text_of(&output).contains("no profile"), "{}", text_of(&output));
}
