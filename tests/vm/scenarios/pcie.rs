//! Device control of a NIC, as `setpci` shows it: size of read requests, relaxed ordering.

use bedplate_tests::lab::machine::TRIXIE;
use bedplate_tests::lab::{Case, Node, Result, Scenario};
use serde_json::json;

use super::daemon::{install, until};
use super::guest::{PROFILE_PATH, check};

pub const SCENARIOS: &[Scenario] = &[("pcie::healed_and_reverted", healed_and_reverted)];

const NIC: &str = "25:00.0";
/// Bits 14:12 and 4: 4096 bytes, and relaxed ordering.
const SET: u16 = 0x5010;

/// Commands after which the register may have another value; each runs in /sys/bus/pci/devices.
const DISTURBANCES: [(&str, &str); 4] = [
    ("function-level reset", "echo flr >0000:25:00.0/reset_method; echo 1 >0000:25:00.0/reset"),
    (
        "another driver life",
        "cd ../drivers/virtio-pci; echo 0000:25:00.0 >unbind; echo 0000:25:00.0 >bind",
    ),
    ("removed and found", "echo 1 >0000:25:00.0/remove; echo 1 >../rescan"),
    ("another program", "setpci -s 25:00.0 CAP_EXP+8.w=2000:7010"),
];

/// Returns the NIC's device control, without the bits for errors.
fn control(node: &Node) -> Result<u16> {
    let text = node.ok(&format!("setpci -s {NIC} CAP_EXP+8.w"))?;
    Ok(u16::from_str_radix(text.trim(), 16)? & 0x7010)
}

fn healed_and_reverted(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    // Of QEMU's NICs, only virtio has error bits in device control, and so those that `patched_qemu` adds to them.
    node.qmp(
        "device_add",
        &json!({ "driver": "virtio-net-pci", "id": "extra", "bus": "s0dn2", "disable-legacy": "on", "romfile": "" }),
    )?;
    node.ok("until [ -e /sys/bus/pci/devices/0000:25:00.0/driver ]; do sleep 0.1; done")?;
    node.put(
        PROFILE_PATH,
        format!(
            "schema = 1\nname = \"pcie\"\n[[pcie.devices]]\nname = \"nic\"\nsource = \"a test\"\n\
             select = {{ address = \"0000:{NIC}\" }}\nmax_read_request = 4096\nrelaxed_ordering = true\n"
        ),
    )?;
    let before = control(&node)?;
    check!(before != SET, "the register has the value from the start");

    // 1. A plan writes nothing, an apply both values.
    node.expect(2, "bedplate plan --exit-code")?;
    check!(control(&node)? == before, "plan has written {:04x}", control(&node)?);
    node.ok("bedplate apply")?;
    check!(control(&node)? == SET, "{:04x}", control(&node)?);
    node.expect(0, "bedplate plan --exit-code")?;

    // 2. The next plan sees what an event left behind, and apply puts it right.
    for (what, command) in DISTURBANCES {
        node.ok(&format!("set -e; cd /sys/bus/pci/devices; {command}"))?;
        let now = control(&node)?;
        node.step(&format!("{what}: {now:04x}"));
        node.expect(if now == SET { 0 } else { 2 }, "bedplate plan --exit-code")?;
        node.ok("bedplate apply")?;
        check!(control(&node)? == SET, "{what}: {:04x}", control(&node)?);
    }

    // 3. The daemon does so by itself.
    install(case, &node)?;
    node.ok("systemctl start bedplate.service")?;
    let right = format!("[ $((0x$(setpci -s {NIC} CAP_EXP+8.w) & 0x7010)) = {SET} ]");
    node.ok(&format!("setpci -s {NIC} CAP_EXP+8.w=2000:7010"))?;
    until(&node, "the daemon restores the register", &right)?;
    node.ok("systemctl stop bedplate.service")?;

    // 4. A revert restores the value of the firmware.
    node.ok("bedplate revert")?;
    check!(control(&node)? == before, "{:04x}", control(&node)?);

    // 5. After a boot the daemon sets the register again. QEMU keeps it over the boot.
    node.ok("systemctl enable bedplate.service")?;
    node.reboot()?;
    until(&node, "the daemon sets the register after the boot", &right)?;
    node.ok("systemctl disable --now bedplate.service")?;

    // 6. The register of a VM's NIC is neither set nor reverted.
    node.ok(&format!(
        "modprobe vfio-pci && cd /sys/bus/pci/devices/0000:{NIC} && echo 0000:{NIC} >driver/unbind && \
         echo vfio-pci >driver_override && echo 0000:{NIC} >/sys/bus/pci/drivers/vfio-pci/bind"
    ))?;
    check!(node.run("bedplate revert")?.status != 0, "revert has written the register of a VM");
    check!(control(&node)? == SET, "{:04x}", control(&node)?);
    node.ok(&format!("setpci -s {NIC} CAP_EXP+8.w=0000:7010"))?;
    let plan = node.run("bedplate plan; bedplate apply")?.stdout;
    check!(plan.contains("assigned to a VM, or possibly"), "{plan}");
    check!(control(&node)? == 0, "{:04x}", control(&node)?);
    Ok(())
}
