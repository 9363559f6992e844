//! Upgrade from a bedplate whose daemon did all work itself, with drop-ins for it.

use std::path::Path;

use bedplate_tests::program::install_sh as script;

/// Drop-ins for a daemon that did all work itself: their rights move to the units that need them now, and nothing that an
/// operator wrote is lost.
#[test]
fn upgrade_moves_the_drop_ins() {
    let root = tempfile::tempdir().expect("a directory");
    let dir = root.path().display().to_string();
    assert!(script(&["--destdir", &dir]).status.success());
    let units = root.path().join("etc/systemd/system");
    let old = units.join("bedplate.service.d");
    let put = |name: &str, text: &str| {
        std::fs::create_dir_all(&old).expect("ours");
        std::fs::write(old.join(name), text).expect("ours");
    };
    let upgrade = || {
        let worker = root.path().join("usr/lib/systemd/system/bedplate-worker@.service");
        std::fs::remove_file(worker).expect("installed");
        let done = script(&["--destdir", &dir]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stderr).into_owned()
    };
    // As shipped at the time.
    put("vf-attributes.conf", VF_ATTRIBUTES);
    put("cold-reboot.conf", COLD_REBOOT);
    assert_eq!(upgrade(), "");
    assert!(!old.exists());
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../systemd/");
    let moved = [
        "bedplate-worker@.service.d/cold-reboot.conf",
        "bedplate-worker.socket.d/cold-reboot.conf",
        "bedplate-worker@.service.d/vf-attributes.conf",
    ];
    let read = |path: &Path| std::fs::read_to_string(path).expect("it is there");
    for path in moved {
        assert_eq!(read(&units.join(path)), read(Path::new(&format!("{shipped}{path}"))), "{path}");
    }
    for unit in ["observer", "loader"] {
        assert!(
            units.join(format!("bedplate-{unit}@.service.d/vf-attributes.conf")).exists(),
            "{unit}"
        );
    }

    // The operator's own files: the new ones are installed, and nothing of theirs is lost.
    let worker = units.join("bedplate-worker@.service.d/cold-reboot.conf");
    std::fs::write(&worker, "# ours\n").expect("ours");
    put("cold-reboot.conf", &format!("{COLD_REBOOT}# ours\n"));
    put("fleetlock.conf", "[Service]\n");
    put("override.conf", "[Service]\nEnvironment=X=1\n");
    let said = upgrade();
    for part in [
        "remove /etc/systemd/system/bedplate.service.d/cold-reboot.conf",
        "bedplate.service.d/fleetlock.conf now applies only to the daemon; a `busy_command` or `command`",
        "systemd/bedplate-worker@.service.d/network.conf",
        "bedplate.service.d/override.conf now applies only to the daemon; put Environment=, ReadWritePaths=",
    ] {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
    assert_eq!(said.lines().count(), 3, "{said}");
    assert_eq!(read(&worker), "# ours\n");
    assert!(old.join("cold-reboot.conf").exists());
    // Files that exist after the upgrade belong to the operator.
    assert_eq!(String::from_utf8_lossy(&script(&["--destdir", &dir]).stderr), "");
}

const COLD_REBOOT: &str = "# For profiles with the reboot methods `firmware`, `bmc` or `rtc`: copy to /etc/systemd/system/bedplate.service.d/.
[Unit]
# DeviceAllow= of a group allows nothing unless its module is loaded when the unit starts (systemd.resource-control(5)).
Wants=modprobe@ipmi_devintf.service
After=modprobe@ipmi_devintf.service

[Service]
# /sys/kernel/reboot (kernel/reboot.c: capable(CAP_SYS_BOOT)).
CapabilityBoundingSet=CAP_SYS_BOOT
# The BMC.
DeviceAllow=char-ipmidev rw
";
const VF_ATTRIBUTES: &str = "# For profiles with `vf` or `eswitch` in [[sriov.devices]]: copy to /etc/systemd/system/bedplate.service.d/. Without it the
# daemon can neither put attributes of VFs right nor read the mode of an eswitch; `bedplate apply` by hand, and
# bedplate-boot.service at every boot, do both.
[Service]
# Setting attributes of VFs (net/core/rtnetlink.c) and modes of eswitches, and reading those (net/devlink/netlink_gen.c,
# GENL_ADMIN_PERM).
CapabilityBoundingSet=CAP_NET_ADMIN
";
