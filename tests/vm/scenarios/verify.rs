//! `bedplate verify` on a converged node, and on the same node with one defect after another, made through the kernel's
//! own interfaces: the matching check finds each, and passes again after the repair.

use std::collections::BTreeMap;

use bedplate_tests::lab::machine::TRIXIE;
use bedplate_tests::lab::{Case, Node, Result, Scenario};
use serde_json::Value;

use super::guest::{self, PROFILE_PATH, check, same};

pub const SCENARIOS: &[Scenario] = &[("verify::good_and_broken", good_and_broken)];

const UNIT: &str = include_str!("../../../systemd/bedplate-boot.service");

/// Result of each check on the good node, and a part of its finding or codes.
const GOOD: &[(&str, &str, &str)] = &[
    ("topology.devices", "pass", ""),
    ("modules.driver", "fail", "bound to no driver"),
    // The emulated GPU has only a window for its registers.
    ("firmware.above-4g", "unknown", "no memory window of 256 MiB"),
    ("firmware.iommu", "pass", "DMAR"),
    ("iommu.active", "pass", "dmar0"),
    ("profile.in-effect", "pass", "virtual-node"),
    ("iommu.mode", "pass", "1:1 DMA"),
    ("modules.gpudirect", "fail", "no-nvidia-driver"),
    ("acs.isolation", "not-applicable", "no function assigned to a VM (VFIO)"),
    ("acs.path", "pass", ""),
    ("acs.shape", "pass", ""),
    ("pcie.log", "pass", ""),
    ("modules.log", "pass", ""),
    ("iommu.log", "pass", "set up"),
    ("cmdline.rejected", "pass", ""),
    ("rdma.port-state", "fail", "no-rdma-device"),
    ("pcie.link-width", "pass", ""),
    ("pcie.mps", "pass", ""),
    ("pcie.link-speed", "pass", ""),
    ("topology.pairing", "pass", ""),
    ("firmware.numa", "pass", ""),
    ("firmware.sriov-resources", "pass", ""),
    // A function of igb has at most seven VFs.
    ("firmware.ari", "not-applicable", ""),
    // QEMU has neither bit, and the register is read-only (hw/pci/pcie.c, pcie_cap_deverr_init).
    ("pcie.relaxed-ordering", "warn", "relaxed-ordering-off"),
    ("pcie.mrrs", "warn", "read-requests-small"),
    ("cmdline.states", "pass", ""),
    ("cmdline.harmful", "pass", ""),
    ("modules.leftovers", "pass", ""),
];

/// A defect: name, command, check that must find it, name in its codes, repair.
struct Break {
    what: &'static str,
    how: &'static str,
    check: &'static str,
    named: &'static str,
    undo: &'static str,
}

const BREAKS: &[Break] = &[
    Break {
        what: "a port redirects again",
        how: "setpci -s 22:00.0 ECAP_ACS+6.w=001d",
        check: "acs.path",
        named: "0000:22:00.0",
        undo: "setpci -s 22:00.0 ECAP_ACS+6.w=0000",
    },
    Break {
        what: "a root port off its shape",
        how: "setpci -s 80:00.0 ECAP_ACS+6.w=001d",
        check: "acs.shape",
        named: "0000:80:00.0",
        undo: "bedplate apply --yes",
    },
    Break {
        what: "a PF without its VF",
        how: "echo 0 >/sys/bus/pci/devices/0000:84:00.0/sriov_numvfs",
        check: "profile.in-effect",
        named: "virtual-node",
        undo: "bedplate apply --yes",
    },
    Break {
        what: "a module of the profile taken out",
        how: "modprobe -r tun",
        check: "profile.in-effect",
        named: "virtual-node",
        undo: "modprobe tun",
    },
    Break {
        what: "a list of the old way",
        how: "echo nv_peer_mem >/etc/modules-load.d/gpudirect.conf",
        check: "modules.leftovers",
        named: "nv_peer_mem",
        undo: "rm /etc/modules-load.d/gpudirect.conf",
    },
    Break {
        what: "an invented argument in the next boot's entry",
        how: "cp -p /boot/grub/grub.cfg /var/tmp/grub.cfg && sed -i -E \
              '/^[[:space:]]*linux[[:space:]]/ s/$/ pcie_acs_override=downstream/' /boot/grub/grub.cfg",
        check: "cmdline.harmful",
        named: "pcie_acs_override",
        undo: "mv /var/tmp/grub.cfg /boot/grub/grub.cfg",
    },
    Break {
        what: "configured, and update-grub was forgotten",
        how: "echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX hugepages=4\"' >/etc/default/grub.d/site.cfg",
        check: "cmdline.states",
        named: "hugepages=4",
        undo: "rm /etc/default/grub.d/site.cfg",
    },
    Break {
        what: "a NIC that lost its place",
        how: "echo -1 >/sys/bus/pci/devices/0000:24:00.0/numa_node",
        check: "firmware.numa",
        named: "0000:24:00.0",
        undo: "echo 0 >/sys/bus/pci/devices/0000:24:00.0/numa_node",
    },
    Break {
        what: "a NIC that is gone from below its switch",
        how: "echo 1 >/sys/bus/pci/devices/0000:24:00.0/remove",
        check: "topology.pairing",
        named: "0000:23:00.0",
        undo: "echo 1 >/sys/bus/pci/rescan; udevadm settle; bedplate apply --yes",
    },
];

/// Kernel log lines as a driver would write them, the check that must find each, and a name in its codes. Only a boot
/// removes them.
const LINES: &[(&str, &str, &str)] = &[
    (
        "NVRM: Xid (PCI:0000:23:00): 79, pid=1, name=x, GPU has fallen off the bus.",
        "pcie.log",
        "0000:23:00.0",
    ),
    (
        "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client",
        "modules.log",
        "nvidia_peermem",
    ),
    (
        "DMAR: [DMA Write NO_PASID] Request device [23:00.0] fault addr 0x1000 [fault reason 0x05]",
        "iommu.log",
        "0000:23:00.0",
    ),
];

/// Verdict, and finding with its codes, by check. A text may only count what the codes name.
type Found = BTreeMap<String, (String, String)>;

fn verify(node: &Node) -> Result<(String, Found)> {
    let said = node.run("bedplate verify --json")?;
    let report: Value = serde_json::from_str(&said.stdout)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let answer = text(&report["answer"]);
    let status = match answer.as_str() {
        "ready" => 0,
        "not-ready" => 4,
        _ => 5,
    };
    same!(said.status, status, "the exit status of {answer}");
    let checks = report["checks"].as_array().into_iter().flatten();
    let found = |check: &Value| {
        let finding = format!("{} {}", text(&check["finding"]), check["codes"]);
        (text(&check["id"]), (text(&check["verdict"]), finding))
    };
    Ok((answer, checks.map(found).collect()))
}

fn verdicts(found: &Found) -> BTreeMap<&str, &str> {
    found.iter().map(|(id, (verdict, _))| (id.as_str(), verdict.as_str())).collect()
}

fn is_found(found: &Found, what: &str, check: &str, named: &str) -> Result<()> {
    let (verdict, finding) = &found[check];
    check!(matches!(verdict.as_str(), "fail" | "warn"), "{what}: {check} is {verdict}: {finding}");
    check!(finding.contains(named), "{what}: {check} does not name {named}: {finding}");
    Ok(())
}

/// The doctor names the log's GPU as a cause. The GPU has no driver either, which is another cause.
fn lost_gpu(node: &Node) -> Result<()> {
    let said = node.expect(4, "bedplate doctor gpu-lost --json")?;
    let report: Value = serde_json::from_str(&said)?;
    let mut causes = report["symptoms"][0]["causes"].as_array().into_iter().flatten();
    let log = causes.find(|cause| cause["check"] == "pcie.log");
    let finding = log.and_then(|cause| cause["finding"].as_str()).unwrap_or_default();
    check!(finding.contains("0000:23:00.0"), "the doctor says:\n{said}");
    Ok(())
}

fn good_and_broken(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    node.put(PROFILE_PATH, guest::profile_with_vfs(1) + guest::STAND_INS)?;

    node.step("as Debian boots it: not ready");
    let (answer, found) = verify(&node)?;
    same!(answer, "not-ready", "the answer before anything was done");
    for (id, named) in [("iommu.mode", "dma-translated"), ("acs.path", "0000:22:00.0")] {
        is_found(&found, "as delivered", id, named)?;
    }

    node.step("as the profile has it: ready");
    node.expect(3, "bedplate apply --yes")?;
    node.put("/etc/systemd/system/bedplate-boot.service", UNIT)?;
    node.ok("systemctl daemon-reload && systemctl enable bedplate-boot.service")?;
    node.reboot()?;
    let (answer, good) = verify(&node)?;
    let differs = |(id, verdict, named): &&(&str, &str, &str)| {
        let (now, finding) = &good[*id];
        now != verdict || !finding.contains(named)
    };
    let wrong: Vec<_> = GOOD.iter().filter(differs).map(|(id, ..)| (id, &good[*id])).collect();
    check!(wrong.is_empty(), "not as on a good node: {wrong:#?}\nall: {good:#?}");
    same!(answer, "ready", "the answer: {good:#?}");
    node.expect(5, "bedplate doctor groups-large")?;

    for broken in BREAKS {
        node.step(broken.what);
        node.ok(broken.how)?;
        let (_, found) = verify(&node)?;
        is_found(&found, broken.what, broken.check, broken.named)?;
        node.ok(broken.undo)?;
        let (_, found) = verify(&node)?;
        same!(verdicts(&found), verdicts(&good), "{}: undone", broken.what);
    }

    for (line, id, named) in LINES {
        node.step(line);
        // A program's line is not the kernel's: a file with one record replaces the kernel log.
        node.ok(&format!("echo '<4>{line}' >/dev/kmsg"))?;
        let (_, found) = verify(&node)?;
        same!(found[*id].0, "pass", "a program's line: {line}");
        node.put("/run/kmsg", format!("4,0,1000,-;{line}\n"))?;
        node.ok("umount /dev/kmsg 2>/dev/null; mount --bind /run/kmsg /dev/kmsg")?;
        let (_, found) = verify(&node)?;
        is_found(&found, line, id, named)?;
        node.ok("umount /dev/kmsg")?;
    }
    node.put("/run/kmsg", format!("4,0,1000,-;{}\n", LINES[0].0))?;
    node.ok("mount --bind /run/kmsg /dev/kmsg")?;
    lost_gpu(&node)?;
    node.ok("umount /dev/kmsg")?;

    node.step("an ordinary user is told what root would see");
    let said = node.expect(
        5,
        "setpriv --reuid nobody --clear-groups bedplate verify --check acs.path --check pcie.log",
    )?;
    check!(said.contains("as root"), "it is not said that root would see more:\n{said}");

    node.step("the boot takes the lines with it");
    node.reboot()?;
    let (answer, found) = verify(&node)?;
    same!(verdicts(&found), verdicts(&good), "after the boot");
    same!(answer, "ready", "the answer after the boot");
    Ok(())
}
