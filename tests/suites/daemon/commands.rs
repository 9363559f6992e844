//! Commands next to a daemon, and other programs on the bus.

use std::process::Command;

use super::rig::{Rig, right};
use bedplate_daemon::status::State;
use bedplate_tests::fixtures;
use serde_json::json;

fn what_waits_is_shown(rig: &Rig) {
    let (code, said) = rig.run(&["status"]);
    assert_eq!(code, Some(3), "{said}");
    for line in [
        "not ready: pending reboot: iommu=pt",
        "cmdline iommu=pt  [after cold reboot]",
        "manual (policy `never`)",
    ] {
        assert!(said.contains(line), "{line} is not in\n{said}");
    }
    let (code, said) = rig.run(&["reboot", "status"]);
    assert_eq!(code, Some(3), "{said}");
    for line in [
        "needed: through firmware",
        "iommu=pt: absent → iommu=pt",
        "never: an operator reboots this host",
        "bedplate reboot schedule",
    ] {
        assert!(said.contains(line), "{line} is not in\n{said}");
    }
}

fn a_reboot_is_asked_for_and_taken_back(rig: &Rig) {
    let (code, said) = rig.run(&["reboot", "cancel"]);
    assert!(code == Some(1) && said.contains("no reboot is scheduled by bedplate"), "{said}");
    let (code, said) = rig.run(&["reboot", "schedule", "--in", "2h", "--why", "new firmware"]);
    assert!(code == Some(0) && said.contains("scheduled for 20"), "{said}");
    assert!(
        rig.asked_of_logind().iter().any(|call| call.contains("new firmware")),
        "{:?}",
        rig.asked_of_logind()
    );
    let (code, said) = rig.run(&["reboot", "cancel"]);
    assert!(code == Some(0) && said.contains("cancelled the reboot scheduled for 20"), "{said}");
    assert_eq!(rig.login.lock().expect("not poisoned").scheduled, None);
}

/// The operator's commands, with the daemon and without it.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn commands_work_with_and_without_a_daemon() {
    let mut rig = Rig::new();
    let run = Rig::run;
    let (code, said) = run(&rig, &["reboot", "status"]);
    assert!(code == Some(5) && said.contains("systemctl start bedplate"), "{said}");
    let mut seen = super::rig::waiting(&rig);
    seen["reboot"]["policy"] = json!("never");
    rig.look(&seen);
    rig.start();
    what_waits_is_shown(&rig);
    a_reboot_is_asked_for_and_taken_back(&rig);
    let (code, said) = run(&rig, &["status", "--wait", "1s"]);
    assert!(code == Some(0) && said.contains("this host is not ready after 1 s"), "{said}");
    rig.look(&right(&rig));
    let (code, said) = run(&rig, &["reconcile"]);
    assert!(code == Some(0) && said.contains("converged"), "{said}");
    assert_eq!((code, said), run(&rig, &["status"]), "the same words and exit status");
    rig.look(&seen);
    let (code, said) = run(&rig, &["reconcile"]);
    assert_eq!((code, said), run(&rig, &["status"]));
    assert_eq!(code, Some(3), "it waits for a boot");
    rig.look(&right(&rig));
    assert_eq!(run(&rig, &["reconcile"]).0, Some(0));
    let (code, said) = run(&rig, &["status", "--wait"]);
    assert!(code == Some(0) && said.contains("this host is ready"), "{said}");
    let (code, said) = run(&rig, &["status", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&said).expect("JSON alone");
    assert_eq!(
        (code, &json["bedplate_status"], &json["verdict"]),
        (Some(0), &json!(3), &json!("ready"))
    );
}

/// Third-party tools can read the interface.
#[test]
#[cfg_attr(
    not(all(has = "busctl", has = "dbus-daemon", has = "gdbus")),
    ignore = "needs busctl, dbus-daemon and gdbus"
)]
fn busctl_and_gdbus_read_the_interface() {
    let mut rig = Rig::new();
    let (busctl, gdbus) = (fixtures::tool("busctl"), fixtures::tool("gdbus"));
    rig.look(&right(&rig));
    rig.start();
    rig.until("converged", |status| status.state == State::Converged);
    let name = "org.bedplate.Agent1";
    let shown = Command::new(busctl)
        .args([&format!("--address={}", rig.address()), "introspect", name, "/org/bedplate/Agent1"])
        .output()
        .expect("busctl starts");
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    for word in [
        ".Plan",
        ".Reconcile",
        ".Reload",
        ".ScheduleReboot",
        ".CancelReboot",
        ".State",
        "\"converged\"",
        ".PendingReboot",
        "\"none\"",
        ".LastConverged",
    ] {
        assert!(text.contains(word), "{word} is not in\n{text}");
    }
    let called = Command::new(gdbus)
        .args([
            "call",
            "--address",
            &rig.address(),
            "--dest",
            name,
            "--object-path",
            "/org/bedplate/Agent1",
        ])
        .args(["--method", "org.bedplate.Agent1.Plan"])
        .output()
        .expect("gdbus starts");
    let text = String::from_utf8_lossy(&called.stdout).into_owned();
    assert!(text.contains("bedplate_plan"), "{text}{}", String::from_utf8_lossy(&called.stderr));
}

/// Without polkit only root can change anything; every user can read.
#[test]
#[cfg_attr(
    not(all(has = "busctl", has = "dbus-daemon", has = "root", has = "setpriv")),
    ignore = "needs busctl, dbus-daemon, root and setpriv"
)]
fn unprivileged_users_can_read_but_not_change() {
    let mut rig = Rig::new();
    let (busctl, setpriv) = (fixtures::tool("busctl"), fixtures::tool("setpriv"));
    fixtures::root();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(rig.dir.path(), mode).expect("ours");
    rig.look(&right(&rig));
    rig.start();
    rig.until("converged", |status| status.state == State::Converged);
    let call = |words: &[&str]| {
        let object = ["org.bedplate.Agent1", "/org/bedplate/Agent1", "org.bedplate.Agent1"];
        Command::new(&setpriv)
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&busctl)
            .arg(format!("--address={}", rig.address()))
            .arg(words[0])
            .args(object)
            .args(&words[1..])
            .output()
            .expect("it starts")
    };
    let read = call(&["get-property", "State"]);
    assert_eq!(String::from_utf8_lossy(&read.stdout), "s \"converged\"\n");
    for words in [
        &["call", "Reconcile"][..],
        &["call", "Reload"],
        &["call", "CancelReboot"],
        &["call", "ScheduleReboot", "st", "mine", "0"],
    ] {
        let refused = call(words);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        // busctl prints its own text for this error.
        assert!(!refused.status.success() && said.contains("Access denied"), "{words:?}: {said}");
    }
    assert!(rig.calls().iter().all(|call| call == "worker"), "{:?}", rig.calls());
    assert_eq!(rig.asked_of_logind(), [""; 0]);
}
