//! Kernel modules: effect of modules-load.d, modprobe.d and the initramfs on /proc/modules, /sys/module and udev.

use bedplate_tests::lab::machine::TRIXIE;
use bedplate_tests::lab::{Case, Node, Result, Scenario};

pub const SCENARIOS: &[Scenario] =
    &[("modules::now", now), ("modules::from_the_next_boot_on", from_the_next_boot_on)];

fn profile(node: &Node, modules: &str) -> Result<()> {
    node.put(
        "/etc/bedplate/profile.toml",
        format!("schema = 1\nname = \"modules\"\n[modules]\n{modules}\n"),
    )
}

fn is_loaded(node: &Node, module: &str) -> Result<bool> {
    Ok(node.run(&format!("grep -q '^{module} ' /proc/modules"))?.status == 0)
}

/// Counts the interfaces of `dummy`. It creates the number set at load time, which sysfs does not show.
fn dummies(node: &Node) -> Result<String> {
    node.ok("ls /sys/class/net | grep -c ^dummy || true")
}

/// Modules and their configuration in the initramfs of the running kernel.
fn held_by_initramfs(node: &Node) -> Result<String> {
    node.ok("lsinitramfs /boot/initrd.img-$(uname -r) | grep -E 'modprobe|[.]ko'")
}

fn now(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    // 1. Options exist before the module is loaded. `fuse` is built in and in /sys/module; `binfmt_script` is built in
    //    and only in modules.builtin. Both count as loaded, and nothing tries to load them.
    let built_in = node.ok("cat /lib/modules/$(uname -r)/modules.builtin")?;
    for (module, directory) in [("fuse", 0), ("binfmt_script", 1)] {
        assert!(
            built_in.contains(&format!("/{module}.ko")),
            "{module} is not built into this kernel"
        );
        node.expect(directory, &format!("test -d /sys/module/{module}"))?;
    }
    profile(
        &node,
        "load_default = \"now\"\nload = [\"dummy\", \"fuse\", \"binfmt_script\"]\noptions = { dummy = { numdummies = 3 } }",
    )?;
    assert!(!is_loaded(&node, "dummy")?, "the node is not as this test needs it");
    let said = node.ok("bedplate apply 2>&1")?;
    assert!(is_loaded(&node, "dummy")?);
    assert_eq!(dummies(&node)?, "3", "dummy was loaded before its option was written");
    assert!(said.contains("load module dummy"), "{said}");
    for module in ["fuse", "binfmt_script"] {
        assert!(!said.contains(&format!("load module {module}")), "{module} is built in:\n{said}");
    }
    node.expect(0, "bedplate plan --exit-code")?;

    // 2. Another value needs a reload of the module; until then the module is unchanged and not reported as done.
    profile(
        &node,
        "load_default = \"now\"\nload = [\"dummy\"]\noptions = { dummy = { numdummies = 5 } }",
    )?;
    let plan = node.expect(2, "bedplate plan --exit-code")?;
    assert!(plan.contains("after reboot: /etc/modprobe.d/zz-bedplate.conf"), "{plan}");
    let said = node.expect(3, "bedplate apply 2>&1")?;
    assert_eq!(dummies(&node)?, "3", "the module was loaded again under its users:\n{said}");
    node.ok("modprobe -r dummy && modprobe dummy")?;
    assert_eq!(dummies(&node)?, "5", "what bedplate wrote is not what modprobe reads");

    // The option stays from here on: every change of modprobe.d rebuilds the initramfs.
    let option = "options = { dummy = { numdummies = 5 } }";

    // 3. A missing module blocks only itself, now or at boot; other changes are applied.
    for (when, module) in [("now", "no_such_module"), ("boot", "nor_such_a_one")] {
        profile(
            &node,
            &format!("load_default = \"{when}\"\nload = [\"vfio-pci\", \"{module}\"]\n{option}"),
        )?;
        let said = node.expect(4, "bedplate apply 2>&1")?;
        let release = node.ok("uname -r")?;
        let reason = format!("✗ module {module}: not installed for kernel {release}");
        assert!(said.contains(&reason), "{when}: {said}");
        assert!(
            is_loaded(&node, "vfio_pci")?,
            "{when}: the missing module stopped another:\n{said}"
        );
    }

    // 4. Unload, but only if unused: igb serves three NICs, dummy has no users.
    profile(&node, &format!("unload = [\"dummy\", \"dca\"]\n{option}"))?;
    let said = node.expect(4, "bedplate apply 2>&1")?;
    assert!(!is_loaded(&node, "dummy")?, "{said}");
    assert!(is_loaded(&node, "dca")? && said.contains("in use (by igb)"), "{said}");
    Ok(())
}

fn from_the_next_boot_on(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    let nic = "/sys/bus/pci/devices/0000:84:00.0/driver";
    let depth = || node.ok("cat /sys/module/virtio_blk/parameters/queue_depth");
    let initramfs = || node.ok("stat --format=%y /boot/initrd.img-$(uname -r)");
    node.ok("modprobe dummy numdummies=1")?;
    assert!(
        is_loaded(&node, "igb")? && !is_loaded(&node, "vfio_pci")?,
        "the node is not as this test needs it"
    );
    let (old_depth, old_initramfs) = (depth()?, initramfs()?);
    assert_ne!(old_depth, "64");

    // 1. Everything is written but not yet in effect, and the exit status reports that.
    profile(
        &node,
        "load_default = \"boot\"\nload = [\"vfio-pci\", \"dummy\", \"fuse\"]\nblacklist = [\"igb\"]\n\
         options = { dummy = { numdummies = 3 }, virtio_blk = { queue_depth = 64 } }",
    )?;
    node.expect(3, "bedplate apply")?;
    assert!(
        is_loaded(&node, "igb")? && !is_loaded(&node, "vfio_pci")?,
        "load = boot, and it acted now"
    );
    assert_eq!((depth()?, dummies(&node)?), (old_depth.clone(), "1".to_owned()));
    let plan = node.expect(3, "bedplate plan --exit-code")?;
    let waits = format!("options virtio_blk queue_depth: running {old_depth}, after reboot 64");
    assert!(plan.contains(&waits), "no word of the option that waits for a boot:\n{plan}");

    // 2. The initramfs has its own modprobe.d for the modules it contains: here the disk's driver.
    let held = held_by_initramfs(&node)?;
    assert!(
        held.contains("virtio_blk.ko") && held.contains("etc/modprobe.d/zz-bedplate.conf"),
        "{held}"
    );
    let new_initramfs = initramfs()?;
    assert_ne!(new_initramfs, old_initramfs);
    node.expect(3, "bedplate apply")?;
    assert_eq!(initramfs()?, new_initramfs, "rebuilt once more, for nothing");

    // 3. Boot.
    node.reboot()?;
    assert!(is_loaded(&node, "vfio_pci")?, "vfio_pci was not loaded at boot");
    node.expect(1, &format!("test -e {nic}"))
        .map_err(|_| "udev gave the NIC its blacklisted driver")?;
    assert!(!is_loaded(&node, "igb")?, "igb was loaded in spite of the blacklist");
    assert_eq!(dummies(&node)?, "3", "dummy came up with other options");
    assert_eq!(depth()?, "64", "virtio_blk came up in the initramfs with its old options");
    node.expect(0, "systemctl is-active systemd-modules-load")?;
    node.expect(0, "bedplate plan --exit-code")?;

    // 4. A blacklist stops udev, not a request by name.
    node.ok("modprobe igb && udevadm settle")?;
    node.ok(&format!("test -e {nic}"))?;

    // 5. Revert, in the initramfs too.
    node.ok("bedplate revert")?;
    node.expect(1, "ls /etc/modules-load.d /etc/modprobe.d | grep bedplate")?;
    let held = held_by_initramfs(&node)?;
    assert!(!held.contains("bedplate"), "the initramfs still holds what was taken back:\n{held}");
    Ok(())
}
