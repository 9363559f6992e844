//! Reboot methods: dry run, firmware, and the operator's command.

use bedplate_daemon::reboot::state::{RebootState, WaitsFor};
use serde_json::json;

use super::rig::{Rig, until, waiting};

use super::reboots::{scheduled, schedules};

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn dry_run_reboots_nothing_and_is_no_attempt() {
    let mut rig = Rig::new();
    let mut seen = waiting(&rig);
    seen["reboot"]["dry_run"] = json!(true);
    seen["reboot"]["delay_s"] = json!(0);
    rig.look(&seen);
    rig.start();
    until("scheduled", || rig.asked_of_logind().contains(&"schedule dry-reboot".to_owned()));
    // logind has done its dry run.
    rig.login.lock().expect("not poisoned").scheduled = None;
    rig.touch();
    let status = rig
        .until("dry run done", |status| matches!(status.reboot.state, RebootState::Waiting { .. }));
    let RebootState::Waiting { why, .. } = status.reboot.state else { unreachable!() };
    assert_eq!(why[0].waits_for, WaitsFor::DryRun, "{why:?}");
    assert_eq!(schedules(&rig), 1);
    // The dry run did not count as an attempt.
    rig.reboot("boot-2");
    until("scheduled", || rig.asked_of_logind().contains(&"schedule dry-reboot".to_owned()));
}

/// The platform's coldest reset is armed when the reboot is scheduled, and disarmed when it is cancelled.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn firmware_method_is_armed_and_disarmed() {
    let mut rig = Rig::new();
    rig.write("sys/kernel/reboot/mode", "warm\n");
    rig.write("sys/kernel/reboot/type", "acpi\n");
    rig.write("proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\n");
    let mut seen = waiting(&rig);
    seen["reboot"]["methods"] = json!(["bmc", "firmware"]);
    rig.look(&seen);
    rig.start();
    until("scheduled", || scheduled(&rig));
    let status = rig.status().expect("it answers");
    assert_eq!(status.reboot.method.map(|method| method.to_string()), Some("firmware".into()));
    assert!(
        status.reboot.methods[0].starts_with("`bmc` cannot be used: "),
        "{:?}",
        status.reboot.methods
    );
    assert!(
        status.reboot.methods[1]
            .starts_with("falling back to `firmware`, which the profile lists: ")
    );
    let written =
        |rig: &Rig| (rig.read("sys/kernel/reboot/mode"), rig.read("sys/kernel/reboot/type"));
    assert_eq!(written(&rig), ("cold".into(), "pci".into()));
    // The next daemon disarms it.
    rig.kill();
    rig.start();
    rig.inhibit(&["apt"]);
    until("taken back", || !scheduled(&rig));
    assert_eq!(written(&rig), ("warm".into(), "acpi".into()));
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn unusable_method_schedules_no_reboot() {
    let mut rig = Rig::new();
    let mut seen = waiting(&rig);
    seen["reboot"]["methods"] = json!(["bmc"]);
    rig.look(&seen);
    rig.start();
    let status =
        rig.until("waits", |status| matches!(status.reboot.state, RebootState::Waiting { .. }));
    assert_eq!(status.reboot.vetoes, ["no reboot method of the profile works on this host"]);
    assert_eq!(rig.asked_of_logind(), [""; 0]);
}

/// logind schedules and does its dry run; then the command runs, once.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn power_cycle_command_runs_once_at_its_time() {
    let mut rig = Rig::new();
    let mut seen = waiting(&rig);
    seen["reboot"]["methods"] = json!(["command"]);
    seen["reboot"]["delay_s"] = json!(2);
    let ran = rig.path("ran");
    // The probe looks for the shell below the root directory.
    rig.program("bin/sh", "");
    seen["reboot"]["command"] = json!(["/bin/sh", "-c", format!("echo ran >>{}", ran.display())]);
    rig.look(&seen);
    rig.start();
    until("scheduled", || rig.asked_of_logind().contains(&"schedule dry-reboot".to_owned()));
    assert!(!ran.exists(), "before its time");
    std::thread::sleep(std::time::Duration::from_millis(2100));
    rig.login.lock().expect("not poisoned").scheduled = None;
    rig.touch();
    until("it runs", || ran.exists());
    rig.touch();
    rig.kill();
    rig.start();
    rig.settle();
    assert_eq!(rig.read("ran"), "ran\n");
    assert_eq!(schedules(&rig), 1);
}
