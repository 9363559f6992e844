//! SR-IOV by the kernel's own data: counts, drivers, VFs in use, and NICs that are slow, lost or without a driver.
//!
//! A kernel probe on `sriov_numvfs_store` counts writes: writing the current count succeeds and leaves no other trace.

use std::time::Instant;

use bedplate_tests::lab::machine::TRIXIE;
use bedplate_tests::lab::{Case, Node, Result, Scenario};
use serde_json::json;

pub const SCENARIOS: &[Scenario] = &[
    ("sriov::counts_and_users", counts_and_users),
    ("sriov::drivers_of_vfs", drivers_of_vfs),
    ("sriov::a_nic_unplugged_in_mid_apply", a_nic_unplugged_in_mid_apply),
];

/// NIC below the switch of the second socket, and its interface.
const PF: &str = "0000:84:00.0";
const LINK: &str = "enp132s0";

/// Writes the profile: `rest` has further keys of the only rule, for the NICs that `select` matches.
fn profile(node: &Node, select: &str, rest: &str) -> Result<()> {
    node.put(
        "/etc/bedplate/profile.toml",
        format!("schema = 1\nname = \"sriov\"\n[[sriov.devices]]\nname = \"nics\"\nselect = {{ {select} }}\n{rest}\n"),
    )
}

fn profile_of_pf(node: &Node, rest: &str) -> Result<()> {
    profile(node, &format!("address = \"{PF}\""), rest)
}

/// VFs of `pf` on the PCI bus: address and driver (`-` if unbound).
fn vfs(node: &Node, pf: &str) -> Result<Vec<(String, String)>> {
    let said = node.ok(&format!(
        "for vf in /sys/bus/pci/devices/{pf}/virtfn*; do
           [ -e $vf ] || continue
           echo $(basename $(readlink -f $vf)) $(basename $(readlink $vf/driver || echo -))
         done"
    ))?;
    let pairs = said.lines().filter_map(|line| line.split_once(' '));
    let found: Vec<(String, String)> =
        pairs.map(|(vf, driver)| (vf.to_owned(), driver.to_owned())).collect();
    let count = node.ok(&format!("cat /sys/bus/pci/devices/{pf}/sriov_numvfs"))?;
    assert_eq!(
        count,
        found.len().to_string(),
        "sriov_numvfs of {pf} and its VFs do not agree: {found:?}"
    );
    Ok(found)
}

fn drivers(node: &Node) -> Result<Vec<String>> {
    Ok(vfs(node, PF)?.into_iter().map(|(_, driver)| driver).collect())
}

/// Starts counting writes to any sriov_numvfs.
fn watch_writes(node: &Node) -> Result<()> {
    node.ok(
        "cd /sys/kernel/tracing && echo 'p:numvfs sriov_numvfs_store' >kprobe_events && echo 1 >events/kprobes/numvfs/enable",
    )?;
    Ok(())
}

/// Number of writes since the last call.
fn writes(node: &Node) -> Result<usize> {
    let said = node.ok("cd /sys/kernel/tracing && grep -c 'numvfs:' trace; echo >trace")?;
    Ok(said.trim().parse()?)
}

/// bedplate must refuse (exit status 4) for `reason`, and write nothing.
fn refused(node: &Node, reason: &str) -> Result<()> {
    let before = vfs(node, PF)?;
    writes(node)?;
    let said = node.expect(4, "bedplate apply 2>&1")?;
    assert!(said.contains(reason), "refused, but not because {reason:?}:\n{said}");
    assert_eq!((writes(node)?, vfs(node, PF)?), (0, before), "refused, and yet changed:\n{said}");
    Ok(())
}

fn counts_and_users(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    watch_writes(&node)?;
    // This test does not depend on udev loading it.
    node.ok("modprobe igbvf")?;
    created_slowly(&node)?;

    // 3. 7 → 7: nothing is written.
    node.ok("bedplate apply")?;
    assert_eq!(writes(&node)?, 0, "VFs were there as wanted, and sriov_numvfs was written");

    in_use(&node)?;

    // 6. Unused VFs: 7 → 3 by way of 0.
    node.ok("bedplate apply")?;
    assert_eq!(drivers(&node)?, ["igbvf"; 3]);
    assert_eq!(writes(&node)?, 2, "7 → 0 → 3 takes two writes");

    // 7. More than the PF supports.
    assert_eq!(node.ok(&format!("cat /sys/bus/pci/devices/{PF}/sriov_totalvfs"))?, "7");
    profile_of_pf(&node, "vfs = 8")?;
    refused(&node, "at most 7 VFs available, 8 requested")?;

    // 8. An unbound PF, which has lost its VFs; with the driver it works again, then revert to 0 VFs.
    node.ok(&format!("echo {PF} >/sys/bus/pci/drivers/igb/unbind"))?;
    profile_of_pf(&node, "vfs = 1")?;
    refused(&node, "no driver is bound")?;
    node.ok(&format!("echo {PF} >/sys/bus/pci/drivers/igb/bind"))?;
    node.ok("bedplate apply")?;
    assert_eq!(drivers(&node)?, ["igbvf"]);
    node.ok("bedplate revert")?;
    assert_eq!(drivers(&node)?, [""; 0]);
    Ok(())
}

/// 0 → 7 on this PF only, with a slow kernel. The VFs themselves take a second, but the same write also waits for
/// igbvf, which waits about two seconds for each to leave reset.
fn created_slowly(node: &Node) -> Result<()> {
    // 1. Duration without the driver.
    let device = format!("/sys/bus/pci/devices/{PF}");
    node.ok(&format!("echo 0 >{device}/sriov_drivers_autoprobe"))?;
    let began = Instant::now();
    node.ok(&format!("echo 7 >{device}/sriov_numvfs"))?;
    let quick = began.elapsed();
    node.ok(&format!("echo 0 >{device}/sriov_numvfs; echo 1 >{device}/sriov_drivers_autoprobe"))?;
    writes(node)?;

    // 2. During the kernel's work, a second apply waits and then has nothing to do.
    profile_of_pf(node, "vfs = 7")?;
    let began = Instant::now();
    node.ok("(bedplate apply; echo $? >/run/applied) >/run/apply.log 2>&1 </dev/null &")?;
    node.ok(&format!("until [ -e {device}/virtfn0 ]; do sleep 0.1; done"))?;
    assert_eq!(
        node.run("test -e /run/applied")?.status,
        1,
        "it was over before a second apply could start"
    );
    let second = node.ok("bedplate apply")?;
    node.ok("until [ -s /run/applied ]; do sleep 0.1; done")?;
    let slow = began.elapsed();
    let first = node.ok("cat /run/apply.log")?;
    assert_eq!(
        node.ok("cat /run/applied")?,
        "0",
        "slow creation was taken for a failure:\n{first}"
    );
    assert!(slow > quick * 5, "creation was not slow: {slow:?}, without driver {quick:?}");
    assert_eq!(drivers(node)?, ["igbvf"; 7]);
    assert_eq!(node.ok("lspci -d 8086:10ca | wc -l")?, "7", "VFs of other PFs");
    assert_eq!(writes(node)?, 1, "both wrote:\n{first}\n{second}");
    Ok(())
}

/// VFs in use are not destroyed to reduce their number.
fn in_use(node: &Node) -> Result<()> {
    profile_of_pf(node, "vfs = 3")?;
    // 4. Up in another network namespace: the interface is not visible here.
    let vf = format!("{LINK}v0");
    node.ok(&format!(
        "udevadm settle && ip netns add pod && ip link set {vf} netns pod && ip -n pod link set {vf} up"
    ))?;
    refused(
        node,
        "0000:84:10.0 (bound to igbvf, interface not visible here: possibly in another namespace)",
    )?;
    let link = node.ok(&format!("ip -n pod -brief link show {vf}"))?;
    assert!(link.contains(",UP"), "the VF in the namespace is not up any more: {link}");

    // 5. Up in the initial namespace.
    node.ok(&format!(
        "ip -n pod link set {vf} netns 1 && ip netns delete pod && ip link set {vf} up"
    ))?;
    refused(node, &format!("{vf} is up"))?;
    node.ok(&format!("ip link set {vf} down"))?;
    Ok(())
}

fn drivers_of_vfs(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    watch_writes(&node)?;
    let probing = || node.ok(&format!("cat /sys/bus/pci/devices/{PF}/sriov_drivers_autoprobe"));
    assert_eq!(probing()?, "1");

    // 1. No driver at all.
    profile_of_pf(&node, "vfs = 2\nvf_driver = \"none\"")?;
    node.ok("bedplate apply")?;
    assert_eq!(drivers(&node)?, ["-"; 2]);
    assert_eq!(probing()?, "0", "a driver loaded later would take the VFs");
    // The driver is loaded, and does not bind them.
    node.ok("modprobe igbvf")?;
    assert_eq!(drivers(&node)?, ["-"; 2]);

    // 2. A requested driver that is not loaded yet: existing VFs are bound, not recreated.
    writes(&node)?;
    node.ok("! grep -q ^vfio_pci /proc/modules")?;
    profile_of_pf(&node, "vfs = 2\nvf_driver = \"vfio-pci\"")?;
    node.ok("bedplate apply")?;
    assert_eq!(drivers(&node)?, ["vfio-pci"; 2]);
    assert_eq!(writes(&node)?, 0, "VFs were made again only to bind them");
    let group = node.ok("readlink /sys/bus/pci/devices/0000:84:10.0/iommu_group")?;
    let number = group.rsplit('/').next().unwrap_or_default();
    node.ok(&format!("test -c /dev/vfio/{number}"))?;
    node.expect(0, "bedplate plan --exit-code")?;

    // 3. They may be assigned to a VM now.
    profile_of_pf(&node, "vfs = 1\nvf_driver = \"vfio-pci\"")?;
    refused(&node, "bound to vfio-pci: possibly assigned to a guest")?;

    // 4. From zero with the requested driver: igbvf is loaded, and never binds them.
    for vf in ["0000:84:10.0", "0000:84:10.2"] {
        node.ok(&format!("echo {vf} >/sys/bus/pci/drivers/vfio-pci/unbind"))?;
    }
    node.ok("bedplate revert")?;
    assert_eq!((drivers(&node)?, probing()?), (vec![], "1".to_owned()), "revert left something");
    node.ok("dmesg --clear && bedplate apply")?;
    assert_eq!(drivers(&node)?, ["vfio-pci"]);
    assert_eq!(probing()?, "1", "probing is on again once the VFs have their driver");
    node.expect(1, "dmesg | grep igbvf")?;
    Ok(())
}

fn a_nic_unplugged_in_mid_apply(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    // 1. All three PFs need VFs. Before that a module is loaded, which blocks until the test continues.
    profile(
        &node,
        "vendor = \"8086\", device = \"10c9\"",
        "vfs = 1\n[modules]\nload_default = \"now\"\nload = [\"dummy\"]",
    )?;
    node.put(
        "/etc/modprobe.d/wait.conf",
        "install dummy touch /run/waiting; until [ -e /run/go ]; do sleep 0.1; done; modprobe --ignore-install dummy\n",
    )?;
    node.ok("(bedplate apply; echo $? >/run/applied) >/run/apply.log 2>&1 </dev/null &")?;
    node.ok("until [ -e /run/waiting ]; do sleep 0.1; done")?;

    // 2. The first NIC is unplugged.
    node.qmp("device_del", &json!({ "id": "s0nic" }))?;
    node.wait_for_event("DEVICE_DELETED")?;
    node.ok("test ! -e /sys/bus/pci/devices/0000:24:00.0 && touch /run/go")?;
    node.ok("until [ -s /run/applied ]; do sleep 0.1; done")?;

    // 3. Its change fails; the other changes are applied.
    let log = node.ok("cat /run/apply.log")?;
    assert_eq!(node.ok("cat /run/applied")?, "1", "{log}");
    let failed =
        log.lines().find(|line| line.contains("✗ sriov PF 0000:24:00.0")).unwrap_or_default();
    assert!(
        failed.contains("failed") && failed.contains("is not there"),
        "no clear word on the lost NIC:\n{log}"
    );
    for pf in [PF, "0000:86:00.0"] {
        assert_eq!(vfs(&node, pf)?.len(), 1, "{pf} was not done because of the other:\n{log}");
    }

    // 4. A later plan covers the remaining NICs, and everything can be reverted.
    let plan = node.expect(0, "bedplate plan --exit-code -v")?;
    assert!(plan.contains(PF), "the plan does not name the NICs that it covers:\n{plan}");
    assert!(!plan.contains("0000:24:00.0"), "the plan is about a NIC that is gone:\n{plan}");
    node.ok("bedplate revert")?;
    for pf in [PF, "0000:86:00.0"] {
        assert_eq!(vfs(&node, pf)?, [], "revert left VFs");
    }
    Ok(())
}
