//! VF attributes on igb's real driver: the kernel's `ip link` output after bedplate has run, refusals of the driver,
//! and the revert.

use bedplate_tests::lab::machine::TRIXIE;
use bedplate_tests::lab::{Case, Node, Result, Scenario};

use super::daemon::{install, state, until};

pub const SCENARIOS: &[Scenario] = &[("vf::attributes", attributes)];

/// NIC below the switch of the second socket, and its interface.
const PF: &str = "0000:84:00.0";
const LINK: &str = "enp132s0";

/// Writes the profile: two VFs on the only PF; `rest` has further keys of its rule.
fn profile(node: &Node, rest: &str) -> Result<()> {
    node.put(
        "/etc/bedplate/profile.toml",
        format!(
            "schema = 1\nname = \"vf\"\n[[sriov.devices]]\nname = \"nics\"\nselect = {{ address = \"{PF}\" }}\nvfs = 2\n{rest}\n"
        ),
    )
}

/// Kernel's lines for the two VFs.
fn vfs(node: &Node) -> Result<Vec<String>> {
    let said = node.ok(&format!("ip link show dev {LINK} | grep -E '^ +vf '"))?;
    Ok(said.lines().map(|line| line.trim().to_owned()).collect())
}

/// Every VF's line contains each of `parts`.
fn all_have(node: &Node, parts: &[&str]) -> Result<()> {
    let lines = vfs(node)?;
    assert_eq!(lines.len(), 2, "{lines:?}");
    for (line, part) in lines.iter().flat_map(|line| parts.iter().map(move |part| (line, part))) {
        assert!(line.contains(part), "no {part:?}: {line}");
    }
    Ok(())
}

fn attributes(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    node.ok("modprobe igbvf")?;

    // 1. New VFs have their attributes before igbvf starts. QEMU's igbvf gets no answer from its PF ("PF still in reset
    //    state") and generates an address, so the PF's own report is authoritative.
    profile(&node, "vf = { mac = \"derived\", vlan = 100, spoof_check = false, trust = true }")?;
    node.ok("bedplate apply")?;
    all_have(&node, &["vlan 100", "spoof checking off", "trust on"])?;
    let pf = node.ok(&format!("cat /sys/class/net/{LINK}/address"))?;
    for number in [0, 1] {
        // 52:54:00 is already locally administered; the number is added to bytes 2 and 3.
        let derived = format!("{}:{:02x}{}", &pf[..5], number + 1, &pf[8..]);
        let line = &vfs(&node)?[number];
        assert!(line.contains(&format!("link/ether {derived} ")), "VF {number} of {pf}: {line}");
    }
    node.expect(0, "bedplate plan --exit-code")?;
    node.ok("bedplate apply")?;
    after_a_boot(&node)?;
    watched(case, &node)?;

    // 2. External changes are remediated, and nothing else: the VLAN is no longer in the profile.
    profile(&node, "vf = { spoof_check = true }")?;
    node.ok(&format!("ip link set {LINK} vf 1 vlan 7 && ip link set {LINK} vf 0 spoofchk off"))?;
    node.ok("bedplate apply")?;
    all_have(&node, &["spoof checking on"])?;
    assert!(vfs(&node)?[1].contains("vlan 7"), "{:?}", vfs(&node)?);

    refusals(&node)?;

    // 4. Everything is reverted: the VFs did not exist before.
    node.ok("bedplate revert")?;
    assert_eq!(node.ok(&format!("cat /sys/bus/pci/devices/{PF}/sriov_numvfs"))?, "0");

    // 5. VFs made by other tools keep attributes that bedplate did not set; those it set are restored.
    node.ok(&format!("echo 2 >/sys/bus/pci/devices/{PF}/sriov_numvfs && udevadm settle"))?;
    node.ok(&format!("ip link set {LINK} vf 0 vlan 5"))?;
    let before = vfs(&node)?;
    profile(&node, "vf = { vlan = 300, trust = true }")?;
    node.ok("bedplate apply")?;
    all_have(&node, &["vlan 300", "trust on"])?;
    node.ok("bedplate revert")?;
    assert_eq!(vfs(&node)?, before);
    Ok(())
}

/// The same by the boot service, which restores non-persistent state.
fn after_a_boot(node: &Node) -> Result<()> {
    node.ok(&format!("echo 0 >/sys/bus/pci/devices/{PF}/sriov_numvfs"))?;
    node.ok("bedplate boot")?;
    all_have(node, &["vlan 100", "spoof checking off", "trust on"])
}

/// The daemon, in its sandbox with the drop-in for this, notices changes by another program.
fn watched(case: &Case, node: &Node) -> Result<()> {
    install(case, node)?;
    for unit in ["observer", "worker"] {
        node.put(
            &format!("/etc/systemd/system/bedplate-{unit}@.service.d/vf-attributes.conf"),
            include_str!("../../../systemd/bedplate-worker@.service.d/vf-attributes.conf"),
        )?;
    }
    // The kernel sends the event only while the interface is up.
    node.ok(&format!("ip link set {LINK} up && systemctl daemon-reload"))?;
    node.ok("systemctl start bedplate.service")?;
    until(node, "converged", &state("converged"))?;
    node.ok(&format!("ip link set {LINK} vf 1 vlan 7"))?;
    let vlan = format!("ip link show dev {LINK} | grep -E '^ +vf 1 ' | grep -q 'vlan 100'");
    until(node, "the VLAN that the profile has", &vlan)?;
    node.ok("systemctl stop bedplate.service")?;
    Ok(())
}

/// Unsupported by igb: link state of VFs, and an eswitch (drivers/net/ethernet/intel/igb/igb_main.c, igb_netdev_ops).
fn refusals(node: &Node) -> Result<()> {
    let before = vfs(node)?;
    profile(node, "vf = { vlan = 9, link_state = \"disable\" }")?;
    let said = node.expect(1, "bedplate apply 2>&1")?;
    assert!(
        said.contains(
            "driver igb: cannot set link state disable of VF 0 of enp132s0: not supported by the driver"
        ),
        "{said}"
    );
    assert_eq!(vfs(node)?, before, "a change that failed is taken back:\n{said}");
    profile(node, "eswitch = \"switchdev\"")?;
    let said = node.expect(4, "bedplate apply 2>&1")?;
    assert!(said.contains("driver igb has no switchdev mode"), "{said}");
    Ok(())
}
