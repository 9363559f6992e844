//! Commands on a bus on which there is no daemon, or one that does not answer.

use crate::rig::{Rig, right, with_devices};

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn without_a_daemon_commands_say_how_to_start_it() {
    let rig = Rig::new();
    for args in
        [["reconcile"].as_slice(), &["reboot", "status"], &["reboot", "schedule"], &["status"]]
    {
        let (status, said) = rig.run(args);
        assert!(said.contains("bedplate.service does not run"), "{args:?}: {said}");
        assert!(said.contains("start it with `systemctl start bedplate`"), "{args:?}: {said}");
        assert!(!said.contains("org.freedesktop"), "{args:?}: {said}");
        assert_ne!(status, Some(0), "{args:?}");
    }
}

#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn a_look_of_its_own_says_that_no_daemon_keeps_it_so() {
    let rig = Rig::new();
    let (_, said) = rig.run(&["status", "--json"]);
    assert!(said.contains("\"daemon\": false") && said.contains("\"pid\": 0,"), "{said}");
}

/// A look in this process would hang with the driver; the profile is all that is asked for, of a child.
#[test]
#[cfg_attr(not(has = "dbus-daemon"), ignore = "needs dbus-daemon")]
fn a_boot_that_waits_asks_a_child_how_long() {
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
fn nothing_is_forgotten_while_the_pci_devices_cannot_be_read() {
    let mut rig = Rig::new();
    rig.look(&with_devices(right(&rig), &["GPU 10de:2330 0000:18:00.0"]));
    rig.start();
    let known = rig.read("var/lib/bedplate/daemon/devices.json");
    assert!(known.contains("0000:18:00.0"), "{known}");
    rig.look(&right(&rig));
    let (status, said) = rig.run(&["reconcile"]);
    assert_eq!(status, Some(5), "{said}");
    assert!(said.contains("PCI devices could not be read"), "{said}");
    let (status, said) = rig.run(&["reconcile", "--forget-missing"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("the PCI devices cannot be read now"), "{said}");
    assert_eq!(rig.read("var/lib/bedplate/daemon/devices.json"), known);
}
