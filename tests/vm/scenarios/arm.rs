//! The arm64 node: an SMMUv3, `iommu.passthrough=1`, the rule for NVIDIA's Arm CPUs, and one reboot by the daemon. QEMU
//! emulates arm64 slowly, so these scenarios boot twice in all. Their GPU is a GH200, which exists only with NVIDIA's CPU.

use std::collections::BTreeMap;

use bedplate_tests::lab::machine::ARM;
use bedplate_tests::lab::{Case, Node, Result, Scenario};

use super::acs_boot::configured_by_kernel;
use super::daemon::{install, redirect_is_put_back, state, until};
use super::guest::{self, PFS, PROFILE_PATH, check, same};
use super::provision;

pub const SCENARIOS: &[Scenario] =
    &[("arm::from_zero", from_zero), ("arm::grace_rule", grace_rule), ("arm::daemon", daemon)];

fn from_zero(case: &mut Case) -> Result<()> {
    let node = provision::from_zero(case, ARM)?;

    node.step("ACS at boot is the kernel's work, before the unit");
    configured_by_kernel(&node)?;

    node.step("the sockets' NUMA nodes, and the table of the SMMU");
    for (function, numa) in
        [("0000:23:00.0", "0"), (PFS[0], "0"), ("0000:83:00.0", "1"), (PFS[1], "1")]
    {
        same!(
            node.ok(&format!("cat /sys/bus/pci/devices/{function}/numa_node"))?,
            numa,
            "NUMA node of {function}"
        );
    }
    same!(
        guest::json(&node, "bedplate inspect --json")?["iommu"]["firmware"]["value"],
        "IORT",
        "what firmware offers"
    );

    node.step("revert: VFs and the boot entry are as before");
    // 3: the running kernel was booted with the removed arguments.
    node.expect(3, "bedplate revert --yes")?;
    same!(guest::vfs(&node)?, ["0"; 3], "VFs after the revert");
    let lines = guest::grub_lines(&node)?;
    check!(
        !lines[0].contains("iommu.passthrough") && !lines[0].contains("config_acs"),
        "the default entry after the revert: {lines:#?}"
    );
    Ok(())
}

/// A release before the bypass of 6.11 (handbook §14.3). Only its files exist, and it is never booted.
const OLD_KERNEL: &str = "6.1.0-99-arm64";

fn iommu_mode(node: &Node, mode: &str) -> Result<()> {
    node.put(PROFILE_PATH, format!("schema = 1\nname = \"grace\"\n[iommu]\nmode = \"{mode}\"\n"))
}

/// The kernel of the default boot entry decides the mode of NVIDIA's Arm CPUs.
fn grace_rule(case: &mut Case) -> Result<()> {
    let node = case.node(ARM)?;
    node.step(
        "from Linux 6.11 on both modes work: `auto` changes nothing, `passthrough` is planned",
    );
    iommu_mode(&node, "auto")?;
    let shown = node.ok("bedplate plan -v")?;
    check!(
        shown.contains("passthrough and translated both work from Linux 6.11 on"),
        "the plan of `auto`:\n{shown}"
    );
    same!(guest::kinds(&guest::plan(&node)?), BTreeMap::new(), "changes of `auto`");
    iommu_mode(&node, "passthrough")?;
    let shown = node.ok("bedplate plan")?;
    check!(shown.contains("+ iommu.passthrough=1"), "the plan of `passthrough`:\n{shown}");

    node.step("an older kernel is the default, and an administrator has chosen passthrough");
    node.ok(&format!(
        "v=$(uname -r); for f in vmlinuz initrd.img config; do cp /boot/$f-$v /boot/$f-{OLD_KERNEL}; done; \
         cp -al /lib/modules/$v /lib/modules/{OLD_KERNEL}; \
         sed -i -e 's/^GRUB_DEFAULT=.*/GRUB_DEFAULT=saved/' \
           -e 's/^GRUB_CMDLINE_LINUX_DEFAULT=.*/GRUB_CMDLINE_LINUX_DEFAULT=\"quiet iommu.passthrough=1\"/' \
           /etc/default/grub && update-grub && \
         sub=$(grep -o 'gnulinux-advanced-[0-9a-f-]*' /boot/grub/grub.cfg | head -n1) && \
         entry=$(grep -o 'gnulinux-{OLD_KERNEL}-advanced-[0-9a-f-]*' /boot/grub/grub.cfg | head -n1) && \
         grub-set-default \"$sub>$entry\""
    ))?;
    let blockers = guest::plan(&node)?["blockers"].to_string();
    check!(
        blockers.contains(OLD_KERNEL) && blockers.contains("attaches no PASID"),
        "the plan of `passthrough` is not blocked by the kernel: {blockers}"
    );
    iommu_mode(&node, "auto")?;
    let shown = node.ok("bedplate plan -v")?;
    check!(
        shown.contains("iommu.passthrough=0") && shown.contains("is older than 6.11"),
        "the plan of `auto`:\n{shown}"
    );
    Ok(())
}

/// Longer than on x86_64, so that the scenario sees the announcement.
const POLICY: &str = "[reboot]\npolicy = \"schedule\"\ndelay = \"20s\"\n";

/// A short [`super::daemon::life`]: its initramfs, readiness and slow boot do not depend on the architecture.
fn daemon(case: &mut Case) -> Result<()> {
    let node = case.node(ARM)?;
    install(case, &node)?;
    let profile = guest::profile_with_vfs(1) + guest::STAND_INS;
    node.put(PROFILE_PATH, &profile)?;
    node.ok("systemctl enable --now bedplate-boot.service bedplate.service")?;
    until(&node, "converged but for the boot", &state("waiting-for-boot"))?;
    guest::assert_acs_and_vfs(&node, "1")?;
    let passthrough = format!(" {}", guest::passthrough(&node));
    check!(guest::grub_lines(&node)?[0].contains(&passthrough), "grub.cfg lacks{passthrough}");

    node.step("what is changed by hand is put back");
    redirect_is_put_back(&node)?;
    let vfs = format!("/sys/bus/pci/devices/{}/sriov_numvfs", PFS[0]);
    node.ok(&format!("echo 0 >{vfs}"))?;
    until(&node, "VFs", &format!("[ $(cat {vfs}) = 1 ]"))?;
    until(&node, "settled", &state("waiting-for-boot"))?;

    node.step("one reboot, by logind");
    let before = node.boot_id()?;
    node.put(PROFILE_PATH, format!("{profile}{POLICY}"))?;
    until(&node, "announced", "[ -e /run/systemd/shutdown/scheduled ]")?;
    node.wait_for_another_boot(&before)?;
    until(&node, "converged", &state("converged"))?;
    guest::in_passthrough(&node)?;
    guest::assert_acs_and_vfs(&node, "1")?;
    let reboot = node.expect(0, "bedplate reboot status")?;
    check!(reboot.contains("not needed"), "bedplate reboot status:\n{reboot}");
    check!(
        node.ok("cat /var/lib/bedplate/daemon/reboot.json")?.contains("\"attempts\": []"),
        "the record"
    );
    // Debian's arm64 kernel lacks an option that CUDA needs on this CPU (handbook §14.3).
    let status = node.expect(4, "bedplate status")?;
    check!(status.contains("iommu.mode: "), "bedplate status:\n{status}");

    node.step("killed, it comes back by itself");
    node.ok("systemctl kill -s KILL bedplate")?;
    redirect_is_put_back(&node)
}
