//! ACS control registers: ports that change, events that restore the old value, and refusals.
//!
//! Registers are read and changed with `setpci`. QEMU's ports implement 005f of the control register; the other bits
//! are hard-wired to zero. Linux enables 001d with an active IOMMU.

use std::collections::BTreeMap;

use bedplate_tests::lab::machine::TRIXIE;
use bedplate_tests::lab::{Case, Node, Result, Scenario};
use serde_json::json;

pub const SCENARIOS: &[Scenario] = &[
    ("acs::only_ports_on_a_path_change", only_ports_on_a_path_change),
    ("acs::what_brings_bits_back_is_noticed", what_brings_bits_back_is_noticed),
    ("acs::a_guest_below_a_port_is_not_exposed", a_guest_below_a_port_is_not_exposed),
];

/// Ports between GPU and NIC on either socket, and the root ports above.
const PATH: [&str; 6] = ["20:00.0", "22:00.0", "22:01.0", "80:00.0", "82:00.0", "82:01.0"];
/// Bits that Linux enables at boot.
const AT_BOOT: &str = "001d";
const CLEAR: &str = "0000";

/// ACS control register by bridge; `none` without the capability.
type Registers = BTreeMap<String, String>;

fn registers(node: &Node) -> Result<Registers> {
    let said = node.ok("for bridge in $(lspci -d ::0604 | cut -d' ' -f1); do
           echo $bridge $(setpci -s $bridge ECAP_ACS+6.w 2>/dev/null || echo none)
         done")?;
    let pairs = said.lines().filter_map(|line| line.split_once(' '));
    Ok(pairs.map(|(bridge, value)| (bridge.to_owned(), value.to_owned())).collect())
}

/// Copies `of`, with `value` in the registers of `ports`.
fn with(of: &Registers, ports: &[&str], value: &str) -> Registers {
    let mut registers = of.clone();
    registers.extend(ports.iter().map(|port| ((*port).to_owned(), value.to_owned())));
    registers
}

fn profile(node: &Node, policy: &str) -> Result<()> {
    let text = format!(
        "schema = 1\nname = \"acs\"\n[acs]\npolicy = \"{policy}\"\npersistence = \"live\"\n"
    );
    node.put("/etc/bedplate/profile.toml", text)
}

fn only_ports_on_a_path_change(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    // 1. A NIC below the port without ACS puts that port on a path. Two ports that are not on a path get their own
    //    values.
    node.qmp(
        "device_add",
        &json!({ "driver": "e1000e", "id": "extra", "bus": "s0dn2", "romfile": "" }),
    )?;
    node.ok("until [ -e /sys/bus/pci/devices/0000:25:00.0/net ]; do sleep 0.1; done")?;
    node.ok("setpci -s 20:01.0 ECAP_ACS+6.w=0011 && setpci -s 80:01.0 ECAP_ACS+6.w=ffff")?;
    let before = registers(&node)?;
    for (port, value) in
        [("22:00.0", AT_BOOT), ("20:01.0", "0011"), ("80:01.0", "005f"), ("22:02.0", "none")]
    {
        assert_eq!(before[port], value, "the node is not as this test needs it: {before:?}");
    }

    // 2. A plan writes nothing, and also names the port without ACS.
    profile(&node, "direct-p2p")?;
    let plan = node.expect(2, "bedplate plan --exit-code")?;
    assert_eq!(registers(&node)?, before, "plan has written registers");
    assert!(
        plan.contains("port 0000:22:02.0: no ACS"),
        "the port without ACS is not reported:\n{plan}"
    );
    let tree = node.ok("bedplate inspect --tree")?;
    let line = tree.lines().find(|line| line.contains("0000:22:02.0")).unwrap_or_default();
    assert!(line.contains("no ACS"), "inspect does not say that the port has no ACS: {line:?}");

    // 3. Only ports on the paths change.
    node.ok("bedplate apply")?;
    assert_eq!(
        registers(&node)?,
        with(&before, &PATH, CLEAR),
        "apply changed other ports than those on a path"
    );
    node.expect(0, "bedplate plan --exit-code")?;
    let applied = node.ok("sha256sum /var/lib/bedplate/*.json")?;
    node.ok("bedplate apply")?;
    assert_eq!(
        node.ok("sha256sum /var/lib/bedplate/*.json")?,
        applied,
        "a second apply left a trace"
    );
    node.ok("bedplate revert")?;
    assert_eq!(registers(&node)?, before, "revert did not put every register back");

    // 4. All ports, all implemented bits: 005f is cleared, and the unimplemented bits do not cause a retry.
    node.ok("setpci -s 82:00.0 ECAP_ACS+6.w=ffff")?;
    let before = registers(&node)?;
    assert_eq!(before["82:00.0"], "005f", "{before:?}");
    profile(&node, "clear")?;
    node.ok("bedplate apply")?;
    let all: Vec<&str> = before
        .iter()
        .filter(|(_, value)| *value != "none")
        .map(|(port, _)| port.as_str())
        .collect();
    assert_eq!(all.len(), 8, "two ports on no path as well: {before:?}");
    assert_eq!(registers(&node)?, with(&before, &all, CLEAR), "policy clear left something on");
    // The current register matters, not the value written to it.
    node.ok("setpci -s 82:00.0 ECAP_ACS+6.w=ff40")?;
    let plan = node.expect(2, "bedplate plan --exit-code --diff")?;
    assert!(plan.contains("-0000:82:00.0 ACS control [0x14e].w = 0040"), "{plan}");
    node.ok("bedplate revert --force")?;
    assert_eq!(registers(&node)?, before, "revert did not put every register back");
    Ok(())
}

/// A disturbance: name, command, and the ports that have their old value again afterwards.
type Disturbance = (&'static str, &'static str, &'static [&'static str]);

/// Observed with setpci on Linux 6.1 and these devices. A reset or a new driver of a *function* does not affect the
/// port above it (from Linux 6.18 on, binding a driver enables ACS again, pci_dma_configure). Ports themselves get it
/// back when Linux rediscovers them or restores their state.
const DISTURBANCES: [Disturbance; 8] = [
    (
        "function-level reset of the NIC",
        "cd 0000:24:00.0; echo flr >reset_method; echo 1 >reset",
        &[],
    ),
    // This is a secondary bus reset of port 22:00.0: it affects everything below the port, not the port itself.
    ("bus reset of the GPU", "cd 0000:23:00.0; echo bus >reset_method; echo 1 >reset", &[]),
    (
        "another driver life of the NIC",
        "cd ../drivers/igb; echo 0000:24:00.0 >unbind; echo 0000:24:00.0 >bind",
        &[],
    ),
    (
        "another driver life of the port",
        "cd ../drivers/pcieport; echo 0000:22:01.0 >unbind; echo 0000:22:01.0 >bind",
        &[],
    ),
    ("NIC removed and found", "echo 1 >0000:24:00.0/remove; echo 1 >../rescan", &[]),
    ("port removed and found", "echo 1 >0000:22:01.0/remove; echo 1 >../rescan", &["22:01.0"]),
    (
        "switch removed and found",
        "echo 1 >0000:21:00.0/remove; echo 1 >../rescan",
        &["22:00.0", "22:01.0"],
    ),
    // QEMU's switch does not reset its ports, so the kernel reports a failed reset; it restores the port's state
    // anyway.
    ("bus reset of the port", "echo 1 >0000:82:00.0/reset || true", &["82:00.0"]),
];

fn what_brings_bits_back_is_noticed(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    profile(&node, "direct-p2p")?;
    let before = registers(&node)?;
    let cleared = with(&before, &PATH, CLEAR);
    node.ok("bedplate apply")?;
    assert_eq!(registers(&node)?, cleared);

    // 1. After any event the next plan reports the current register, and apply remediates it.
    for (what, command, expected) in DISTURBANCES {
        node.ok(&format!("set -e; cd /sys/bus/pci/devices; {command}"))?;
        let now = registers(&node)?;
        let back: Vec<&str> = PATH.into_iter().filter(|port| now[*port] != CLEAR).collect();
        assert_eq!(
            back, expected,
            "{what}: other ports than expected have their ACS back: {now:?}"
        );
        let plan = node.run("bedplate plan --exit-code --diff")?;
        let seen: Vec<&str> = PATH
            .into_iter()
            .filter(|port| plan.stdout.contains(&format!("# acs/0000:{port}\n")))
            .collect();
        assert_eq!(seen, back, "{what}: plan sees other ports than setpci:\n{}", plan.stdout);
        assert_eq!(plan.status, if back.is_empty() { 0 } else { 2 }, "{what}: {}", plan.stdout);
        node.ok("bedplate apply")?;
        assert_eq!(registers(&node)?, cleared, "{what}: apply did not put it right");
    }

    // 2. A secondary bus reset of the whole switch, bypassing the kernel: bridges below have lost their bus numbers,
    //    and devices below them do not answer. That is unknown, not converged, and is not written to.
    node.ok("setpci -s 80:00.0 BRIDGE_CONTROL.w=40:40; sleep 0.1; setpci -s 80:00.0 BRIDGE_CONTROL.w=0:40")?;
    assert_eq!(
        node.run("setpci -s 82:00.0 VENDOR_ID")?.stdout.trim(),
        "ffff",
        "the reset did not take"
    );
    let plan = node.ok("bedplate plan -v")?;
    assert!(
        plan.contains("? ACS of 0000:82:00.0, 0000:82:01.0: unknown: the device does not answer"),
        "{plan}"
    );
    assert!(
        !plan.contains("✓ port 0000:82:0"),
        "a port that does not answer is called right:\n{plan}"
    );
    // 3. The kernel rediscovers the switch and enables ACS.
    node.ok("echo 1 >/sys/bus/pci/devices/0000:81:00.0/remove; echo 1 >/sys/bus/pci/rescan")?;
    assert_eq!(registers(&node)?, with(&cleared, &["82:00.0", "82:01.0"], AT_BOOT));
    node.expect(2, "bedplate plan --exit-code")?;
    node.ok("bedplate apply")?;
    assert_eq!(registers(&node)?, cleared, "apply did not put it right");
    Ok(())
}

fn a_guest_below_a_port_is_not_exposed(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    profile(&node, "direct-p2p")?;
    let before = registers(&node)?;

    // 1. The GPU of one socket and a VF of the other socket's NIC are assigned to VMs.
    node.ok("cd /sys/bus/pci/devices && echo 0 >0000:84:00.0/sriov_drivers_autoprobe && echo 1 >0000:84:00.0/sriov_numvfs")?;
    let guests = ["0000:23:00.0", "0000:84:10.0"];
    node.ok("modprobe vfio-pci")?;
    for function in guests {
        node.ok(&format!(
            "cd /sys/bus/pci/devices/{function} && echo vfio-pci >driver_override && echo {function} >/sys/bus/pci/drivers/vfio-pci/bind"
        ))?;
    }

    // 2. The ports above them keep their value, and the exit status reports it; the other ports do not endanger them.
    let output = node.run("bedplate apply")?;
    let said = format!("{}{}", output.stdout, output.stderr);
    assert_eq!(output.status, 4, "blocked by VFIO devices: {said}");
    let kept = ["20:00.0", "22:00.0", "80:00.0", "82:01.0"];
    let now = registers(&node)?;
    assert_eq!(
        now,
        with(&before, &["22:01.0", "82:00.0"], CLEAR),
        "registers above VFIO devices were written:\n{said}"
    );
    let plan = node.expect(4, "bedplate plan --exit-code")?;
    for port in kept {
        let line = plan
            .lines()
            .find(|line| line.contains(&format!("✗ port 0000:{port}, ")))
            .unwrap_or_default();
        let guest = if port.starts_with('2') { guests[0] } else { guests[1] };
        assert!(
            line.contains(guest) && line.contains("VFIO uses"),
            "port {port} is not refused for {guest}:\n{plan}"
        );
    }

    // 3. After both devices are released, the change succeeds.
    for function in guests {
        node.ok(&format!("echo {function} >/sys/bus/pci/drivers/vfio-pci/unbind"))?;
    }
    node.ok("bedplate apply")?;
    assert_eq!(registers(&node)?, with(&before, &PATH, CLEAR));
    Ok(())
}
