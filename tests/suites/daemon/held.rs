//! A host with a hold on enforcement: nothing is enforced, no reboot happens, and a revert is not undone. The revert is
//! real: program, daemon and worker run in their own namespaces, with the rig's `/etc`, `/run` and `/var/lib`.

use bedplate_daemon::reboot::state::RebootState;
use bedplate_daemon::status::{State, Verdict};
use bedplate_tests::program;
use serde_json::json;

use super::node::{CHANGE, Node, only};
use super::rig::{RECORD, Rig, difference, drifted, fixed, right, until, waiting};

const HOLD: &str = "var/lib/bedplate/enforce-hold.json";
const TEXT: &str = r#"{"version":1,"since":"2026-03-01T12:00:00Z","why":"broken NIC","by":"ada"}"#;
const SAID: &str = "enforcement paused since 2026-03-01 12:00:00 UTC by ada: broken NIC; `bedplate release` resumes it";

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn held_host_is_only_observed_until_released() {
    let mut rig = Rig::new();
    rig.look(&drifted(&rig));
    rig.after(&fixed(&rig));
    rig.write(HOLD, TEXT);
    rig.start();
    for _ in 0..2 {
        let status = rig.until("drifted", |status| status.state == State::Drifted);
        assert_eq!(status.verdict, Verdict::NotReady);
        assert!(status.reason.ends_with(SAID), "{}", status.reason);
        let (code, said) = rig.run(&["status"]);
        assert!(code == Some(4) && said.contains("  daemon   paused: observes only"), "{said}");
        assert!(rig.logged(SAID));
        // A caller's request causes an observation.
        let asked = rig.runtime.block_on(async { rig.agent().await?.reconcile().await });
        assert_eq!(asked.expect("root may"), "drifted");
        // The hold survives a reboot.
        rig.reboot("boot-2");
    }
    assert!(rig.calls().iter().all(|call| call == "worker"), "{:?}", rig.calls());
    std::fs::remove_file(rig.path(HOLD)).expect("ours");
    rig.until("converged", |status| status.state == State::Converged && status.pause.is_none());
    assert!(rig.logged("enforcement resumed"));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn held_host_is_not_rebooted_for_a_change() {
    let mut rig = Rig::new();
    rig.look(&waiting(&rig));
    // The unit's StateDirectory=.
    rig.write("var/lib/bedplate/README", "");
    rig.start();
    rig.until("scheduled", |status| matches!(status.reboot.state, RebootState::Scheduled { .. }));
    rig.write(HOLD, TEXT);
    let held = |state: &RebootState| matches!(state, RebootState::Waiting { why, .. } if why.iter().any(|why| why.text == SAID));
    rig.until("it waits for the hold", |status| held(&status.reboot.state));
    assert_eq!(rig.login.lock().expect("not poisoned").scheduled, None);
    // An operator's own request is allowed.
    let (code, said) = rig.run(&["reboot", "schedule", "--in", "2h", "--why", "new firmware"]);
    assert!(code == Some(0) && said.contains("scheduled for 20"), "{said}");
}

/// A hold on reboots is shown even if no reboot is pending.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn hold_on_reboots_is_always_shown() {
    let mut rig = Rig::new();
    rig.look(&right(&rig));
    rig.write(
        "var/lib/bedplate/hold.json",
        r#"{"version":1,"until":null,"why":"training run 7","by":"ada"}"#,
    );
    rig.start();
    for command in [&["status"][..], &["reboot", "status"]] {
        let (code, said) = rig.run(command);
        let hold =
            "held until released, by ada: training run 7; end it with `bedplate reboot release`";
        assert!(code == Some(0) && said.contains(hold), "{said}");
    }
    std::fs::remove_file(rig.path("var/lib/bedplate/hold.json")).expect("ours");
    rig.until("no hold", |status| status.reboot.hold.is_none());
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn held_host_boots_without_changes() {
    let rig = Rig::new();
    rig.look(&drifted(&rig));
    rig.after(&fixed(&rig));
    rig.write(HOLD, TEXT);
    let output = program::bedplate(&["boot"])
        .arg(format!("--worker={}", rig.path("worker").display()))
        .arg(format!("--state-root={}", rig.dir.path().display()))
        .env_remove("JOURNAL_STREAM")
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains(SAID), "{said}");
    assert_eq!(rig.calls(), [""; 0]);
    assert_eq!(difference()["live"], json!(true), "else this shows nothing");
}

/// Uninstalled while the daemon is stopped: otherwise logind would reboot the host, and nothing would report why.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn withdraw_cancels_the_scheduled_reboot() {
    let mut rig = Rig::new();
    const RESET: &str = "sys/kernel/reboot/type";
    let usec = 4_102_444_800_000_000_u64;
    let announce = |rig: &Rig, scheduled: Option<(&str, u64)>| {
        rig.write(RESET, "bios\n");
        let undo = json!([{ "write": { "path": format!("/{RESET}"), "value": "acpi" } }]);
        let prepared = json!({ "method": "firmware", "next": "logind-reboot", "undo": undo });
        let arranged = json!({ "boot_id": "boot-1", "kind": "reboot", "usec": usec, "plan": "p", "method": "firmware",
            "request": null, "userspace": null, "prepared": prepared });
        let record =
            json!({ "version": 3, "phase": { "phase": "scheduled", "arranged": arranged } });
        rig.write(RECORD, &record.to_string());
        rig.write("run/bedplate/status.json", "{}");
        let mut login = rig.login.lock().expect("not poisoned");
        login.scheduled = scheduled.map(|(kind, usec)| (kind.to_owned(), usec));
        login.calls.clear();
    };
    let state_root = format!("--state-root={}", rig.dir.path().display());
    let withdraw = ["withdraw", state_root.as_str()];
    let gone = |rig: &Rig| !rig.path("run/bedplate").exists() && rig.read(RESET).trim() == "acpi";

    announce(&rig, Some(("reboot", usec)));
    let (code, said) = rig.run(&withdraw);
    assert!(code == Some(0) && said.contains("scheduled for 2100-01-01 00:00:00 UTC"), "{said}");
    assert_eq!(rig.asked_of_logind(), ["cancel"]);
    assert!(gone(&rig), "{said}");

    // A shutdown scheduled by another tool stays.
    announce(&rig, Some(("poweroff", usec)));
    let (code, said) = rig.run(&withdraw);
    assert!(code == Some(0) && gone(&rig), "{said}");
    assert_eq!(rig.asked_of_logind(), [""; 0]);

    announce(&rig, Some(("reboot", usec)));
    rig.stop_bus();
    let (code, said) = rig.run(&withdraw);
    assert!(code == Some(1) && said.contains("it may still happen. Nothing was removed"), "{said}");
    assert!(rig.path("run/bedplate").exists() && rig.read(RESET) == "bios\n", "{said}");
}

#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "user-namespaces")),
    ignore = "needs dbus-daemon and user-namespaces"
)]
fn revert_with_an_enforcing_daemon_needs_a_hold() {
    let rig = Rig::new();
    let node = Node::new(&rig);
    let daemon = node.daemon();
    until("the daemon has made it so", || node.applied());
    rig.until("converged", |status| status.state == State::Converged);

    let (code, said) = node.run(&["revert", "--yes"]);
    assert_eq!(code, Some(4), "{said}");
    for part in [
        "bedplate.service enforces profile node",
        "bedplate revert --hold",
        "systemctl disable --now bedplate",
    ] {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
    assert!(node.applied());

    let (code, said) = node.run(&["revert", "--yes", "--hold"]);
    assert!(code == Some(0) && said.contains("enforcement paused since"), "{said}");
    rig.until("held", |status| status.pause.is_some() && status.state == State::Drifted);
    rig.settle();
    assert!(!node.applied(), "the daemon has undone the revert");
    // The revert survives the worker under the lock, the next daemon and the next boot.
    let (code, said) = node.run(&["worker", &only(CHANGE)]);
    assert!(code == Some(0) && said.contains("\"done\":[]"), "{said}");
    drop(daemon);
    let _daemon = node.daemon();
    rig.until("held again", |status| status.pause.is_some() && status.state == State::Drifted);
    let (code, said) = node.run(&["boot"]);
    assert_eq!(code, Some(0), "{said}");
    rig.settle();
    assert!(!node.applied(), "{}", rig.read("log"));

    let (code, said) = node.run(&["release"]);
    assert!(code == Some(0) && said.contains("bedplate.service resumes enforcement"), "{said}");
    until("the daemon makes it so again", || node.applied());
    // A converged host is checked, unless the caller wants no verdict.
    let (_, judged) = node.run(&["worker"]);
    let (code, unjudged) = node.run(&["worker", "--unjudged"]);
    assert!(judged.contains("\"checks\":["), "{judged}");
    assert!(code == Some(0) && unjudged.contains("\"checks\":null"), "{unjudged}");
    let (code, said) = node.run(&["release"]);
    assert!(code == Some(0) && said.contains("enforcement is not paused"), "{said}");
}

/// No daemon enforces a profile, so revert has no reason to refuse.
#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "user-namespaces")),
    ignore = "needs dbus-daemon and user-namespaces"
)]
fn revert_without_a_daemon_needs_no_hold() {
    let rig = Rig::new();
    let node = Node::new(&rig);
    let (code, said) = node.run(&["apply", "--yes"]);
    assert!(code == Some(0) && node.applied(), "{said}");
    let (code, said) = node.run(&["revert", "--yes"]);
    assert!(code == Some(0) && !node.applied(), "{said}");
    assert_eq!(rig.read(HOLD), "");
}

/// The hold is set although there is nothing to restore, and a hold on reboots is a different one.
#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "user-namespaces")),
    ignore = "needs dbus-daemon and user-namespaces"
)]
fn revert_with_nothing_to_restore_sets_the_hold() {
    let rig = Rig::new();
    let node = Node::new(&rig);
    let (code, said) = node.run(&["revert", "--dry-run", "--hold"]);
    assert!(code == Some(0) && rig.read(HOLD).is_empty(), "{said}");
    let (code, said) = node.run(&["revert", "--yes", "--hold"]);
    assert!(code == Some(0) && !rig.read(HOLD).is_empty(), "{said}");
    assert!(
        said.contains("nothing to revert") && said.contains("enforcement paused since"),
        "{said}"
    );
    let (code, said) = node.run(&["release"]);
    assert!(code == Some(0) && said.contains("pause ended"), "{said}");

    let (code, said) = node.run(&["reboot", "hold", "--why", "training run 7"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = node.run(&["release"]);
    let expected = "enforcement is not paused; reboots are held: run `bedplate reboot release`";
    assert!(code == Some(0) && said.contains(expected), "{said}");
}

/// The shipped profile that fits the hardware best is a guess, so it is never applied without a question.
#[test]
#[cfg_attr(
    not(all(has = "dbus-daemon", has = "user-namespaces")),
    ignore = "needs dbus-daemon and user-namespaces"
)]
fn apply_without_a_profile_is_refused() {
    let rig = Rig::new();
    let node = Node::new(&rig);
    std::fs::rename(rig.path("etc/bedplate/profile.toml"), rig.path("etc/own.toml")).expect("ours");
    for args in [&["apply", "--yes"][..], &["apply"], &["apply", "--yes", "--json"]] {
        let (code, said) = node.run(args);
        assert!(code == Some(1) && said.contains("there is no profile: "), "{said}");
        assert!(
            said.contains("Name one with --profile") && said.contains("in /etc/bedplate"),
            "{said}"
        );
        assert!(!rig.path("var/lib/bedplate/ledger.json").exists());
    }
    let (code, said) = node.run(&["apply", "--yes", "--profile", "/etc/own.toml"]);
    assert!(code == Some(0) && node.applied(), "{said}");
}
