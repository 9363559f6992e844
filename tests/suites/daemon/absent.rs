//! Commands on a bus without a daemon, or with a daemon that does not answer.

use crate::rig::{Rig, right, with_devices};

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn commands_without_a_daemon_explain_how_to_start_it() {
    let rig = Rig::new();
    for args in
        [["reconcile"].as_slice(), &["reboot", "status"], &["reboot", "schedule"], &["status"]]
    {
        let (status, said) = rig.run(args);
        assert!(said.contains("bedplate.service is not running"), "{args:?}: {said}");
        assert!(said.contains("run `systemctl start bedplate`"), "{args:?}: {said}");
        assert!(!said.contains("org.freedesktop"), "{args:?}: {said}");
        assert_ne!(status, Some(0), "{args:?}");
    }
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn status_without_a_daemon_reports_no_daemon() {
    let rig = Rig::new();
    let (_, said) = rig.run(&["status", "--json"]);
    assert!(said.contains("\"daemon\": false") && said.contains("\"pid\": 0,"), "{said}");
}

/// Observing the host in this process could hang with a driver. A child reads only the profile's settings.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn status_wait_reads_its_timeout_in_a_child() {
    let rig = Rig::new();
    let mut seen = right(&rig);
    seen["agent"]["ready_timeout_s"] = 0.into();
    rig.look(&seen);
    let worker = format!("--worker={}", rig.path("worker").display());
    let (status, said) = rig.run(&["status", "--wait", &worker]);
    assert_eq!((status, rig.calls()), (Some(0), vec!["worker --settings".to_owned()]), "{said}");
    assert!(said.contains("this host is not ready after 0 s"), "{said}");
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn unreadable_pci_devices_are_not_forgotten() {
    let mut rig = Rig::new();
    rig.look(&with_devices(right(&rig), &["GPU 10de:2330 0000:18:00.0"]));
    rig.start();
    let known = rig.read("var/lib/bedplate/daemon/devices.json");
    assert!(known.contains("0000:18:00.0"), "{known}");
    rig.look(&right(&rig));
    let (status, said) = rig.run(&["reconcile"]);
    assert_eq!(status, Some(5), "{said}");
    assert!(said.contains("cannot read PCI devices"), "{said}");
    let (status, said) = rig.run(&["reconcile", "--forget-missing"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("PCI devices are unreadable"), "{said}");
    assert_eq!(rig.read("var/lib/bedplate/daemon/devices.json"), known);
}
