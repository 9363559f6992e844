//! Reboots into a boot entry that would not boot: an emptied menu, a kernel without its initrd, a kernel without the
//! NIC's driver. bedplate repairs it where possible, and never reboots the node before the entry is sound.

use std::time::Duration;

use bedplate_tests::lab::machine::{BTRFS, SEPARATE_BOOT, TRIXIE};
use bedplate_tests::lab::{Case, Machine, Node, Result, Scenario};
use serde_json::Value;

use super::daemon::{install, until};
use super::guest::{self, PROFILE_PATH, check, same};

pub const SCENARIOS: &[Scenario] = &[
    ("boot_entry::emptied_menu", emptied_menu),
    ("boot_entry::kernel_without_initrd", kernel_without_initrd),
    ("boot_entry::separate_boot", separate_boot),
    ("boot_entry::btrfs", btrfs),
    ("boot_entry::header_block", header_block),
    ("boot_entry::kernel_without_driver", kernel_without_driver),
];

/// Reboots automatically, 20 s after scheduling it.
const REBOOT: &str = "[reboot]\npolicy = \"schedule\"\nwindows = []\ndelay = \"20s\"\n";
/// Longer than the delay: a scheduled reboot would have started by then.
const LONGER: Duration = Duration::from_secs(45);
const SCHEDULED: &str = "[ -e /run/systemd/shutdown/scheduled ]";
const GRUB_CFG: &str = "/boot/grub/grub.cfg";

/// A kernel with an unpacked package but no initrd, as when /boot is full.
const NEW_KERNEL: &str = "6.12.200+deb13-amd64";

fn profile(rest: &str) -> String {
    format!("schema = 1\nname = \"entry\"\n{rest}\n{REBOOT}")
}

fn start(node: &Node) -> Result<()> {
    node.ok("systemctl enable --now bedplate-boot.service bedplate.service").map(drop)
}

/// Nothing is scheduled now, and the node is in the same boot after the delay.
fn stays_up(node: &Node, boot: &str, why: &str) -> Result<()> {
    until(node, "no reboot is scheduled", &format!("! {SCHEDULED}"))?;
    std::thread::sleep(LONGER);
    same!(node.boot_id()?, boot, "the boot, although {why}");
    same!(node.run(SCHEDULED)?.status, 1, "a reboot is scheduled although {why}");
    Ok(())
}

/// Returns `bedplate reboot status --json` for any exit status.
fn reboot_status(node: &Node) -> Result<Value> {
    guest::json(node, "bedplate reboot status --json || true")
}

/// The boot entry is reported as unsound or unknown, and an operator's request is refused for that reason.
fn refused(node: &Node) -> Result<()> {
    let status = reboot_status(node)?;
    let state = status["next_boot"]["state"].as_str().unwrap_or_default();
    check!(["unknown", "unsound"].contains(&state), "bedplate reboot status --json: {status}");
    let asked = node.run("bedplate reboot schedule --in now")?;
    check!(asked.status != 0, "a request is taken: {asked:?}");
    check!(asked.stdout.contains("boot entry"), "the reason is another one: {asked:?}");
    same!(node.run(SCHEDULED)?.status, 1, "a refused request is scheduled");
    Ok(())
}

fn emptied_menu(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    install(case, &node)?;
    node.put(PROFILE_PATH, profile("[iommu]\nmode = \"passthrough\""))?;
    let boot = node.boot_id()?;
    start(&node)?;
    until(&node, "scheduled", SCHEDULED)?;

    node.step("the menu is emptied, and its generator fails: the scheduled reboot is cancelled");
    node.ok("mv /usr/sbin/update-grub /usr/sbin/update-grub.real && \
         printf '#!/bin/sh\\necho no space left on device >&2\\nexit 1\\n' >/usr/sbin/update-grub && \
         chmod 755 /usr/sbin/update-grub")?;
    node.ok(&format!(": >{GRUB_CFG}"))?;
    stays_up(&node, &boot, "the menu is empty")?;
    refused(&node)?;
    let log = node.ok("journalctl -u bedplate -o cat --no-pager")?;
    check!(
        log.contains("no space left on device"),
        "the tool's output is not in the journal:\n{log}"
    );

    node.step("the same with the menu deleted");
    node.ok(&format!("rm {GRUB_CFG}"))?;
    node.run("bedplate reconcile")?;
    refused(&node)?;

    node.step("the generator works again: the menu is made, and the reboot comes");
    node.ok("mv /usr/sbin/update-grub.real /usr/sbin/update-grub")?;
    node.run("bedplate reconcile")?;
    until(&node, "made again", &format!("grep -q iommu=pt {GRUB_CFG}"))?;
    node.ok(&format!("grub-script-check {GRUB_CFG}"))?;
    node.wait_for_another_boot(&boot)?;
    guest::in_passthrough(&node)
}

fn kernel_without_initrd(case: &mut Case) -> Result<()> {
    without_initrd(case, TRIXIE)
}

fn separate_boot(case: &mut Case) -> Result<()> {
    without_initrd(case, SEPARATE_BOOT)
}

fn btrfs(case: &mut Case) -> Result<()> {
    without_initrd(case, BTRFS)
}

/// A new kernel lacks its initrd: `update-grub` would make it the default, and the node would not boot.
fn without_initrd(case: &mut Case, machine: Machine) -> Result<()> {
    let node = case.node(machine)?;
    install(case, &node)?;
    node.put(PROFILE_PATH, profile("[cmdline]\nargs = [\"hugepages=12\"]"))?;
    same!(guest::plan(&node)?["next_boot"], Value::Null, "the boot entry of a healthy node");
    let boot = node.boot_id()?;
    node.ok(&format!(
        "v=$(uname -r); cp /boot/vmlinuz-$v /boot/vmlinuz-{NEW_KERNEL}; cp /boot/config-$v /boot/config-{NEW_KERNEL}; sync"
    ))?;
    let before = guest::grub_lines(&node)?;
    start(&node)?;
    until(&node, "observed", "[ -s /run/bedplate/status.json ]")?;
    until(&node, "the change has failed", "bedplate status --json | grep -q 'loads no initrd'")?;
    stays_up(&node, &boot, "the default entry would have no initrd")?;
    // The daemon tries again and again, at growing intervals.
    until(&node, "no attempt is running", &format!("! grep -q hugepages=12 {GRUB_CFG}"))?;
    same!(guest::grub_lines(&node)?, before, "entries after the change was undone");
    let status = node.expect(4, "bedplate status")?;
    check!(status.contains(NEW_KERNEL), "bedplate status:\n{status}");

    node.step("another program makes that entry the default: no reboot into it, also on request");
    // A concurrent attempt by the daemon mistakes the new menu for the output of its own update-grub, and restores the
    // old one.
    let again = "update-grub && for n in $(seq 20); do bedplate reboot status --json | grep -q '\"unsound\"' && exit; sleep 1; done; false";
    until(&node, "noticed", again)?;
    refused(&node)?;
    stays_up(&node, &boot, "the default entry has no initrd")?;

    node.step(
        "the kernel is removed: the change is made, the node reboots by itself and comes back",
    );
    node.ok(&format!("rm /boot/vmlinuz-{NEW_KERNEL} /boot/config-{NEW_KERNEL} && update-grub"))?;
    node.run("bedplate reconcile")?;
    node.wait_for_another_boot(&boot)?;
    check!(guest::running(&node)?.contains(&"hugepages=12".to_owned()), "/proc/cmdline");
    Ok(())
}

/// Script of /etc/grub.d with the part of GRUB 2.14's 00_header that reads the environment block in the header of Btrfs, and
/// an entry with the argument `marked` for a one-time choice. GRUB 2.12 cannot clear the choice, because it cannot save to
/// a block list (rhboot/grub2 b8366e484).
const HEADER_SCRIPT: &str = r#"#!/bin/sh
cat <<'EOF'
if [ "${env_block}" ] ; then
  set env_block="(${root})${env_block}"
  export env_block
  load_env -f "${env_block}"
fi
if [ "${next_entry}" ] ; then
  set default="${next_entry}"
fi
EOF
kernel=/boot/vmlinuz-$(uname -r) initrd=/boot/initrd.img-$(uname -r)
[ ! -e /etc/wrong-entry ] || kernel=/boot/vmlinuz-missing
uuid=$(findmnt -no UUID /)
cat <<EOF
menuentry other --id other {
  search --no-floppy --fs-uuid --set=root $uuid
  linux /@rootfs$kernel $(sed 's/^BOOT_IMAGE=[^ ]* //' /proc/cmdline) marked
  initrd /@rootfs$initrd
}
EOF
"#;

/// A one-time choice in the environment block outside of files: GRUB follows it, and so does bedplate.
fn header_block(case: &mut Case) -> Result<()> {
    let node = case.node(BTRFS)?;
    install(case, &node)?;
    node.put(PROFILE_PATH, "schema = 1\nname = \"entry\"\n")?;
    node.put("/etc/grub.d/42_header", HEADER_SCRIPT)?;
    node.put("/usr/local/bin/choose", "#!/bin/sh\nset -e\n\
        printf '# GRUB Environment Block\\n%s' \"$1\" >/run/block\n\
        while [ $(stat -c %s /run/block) -lt 512 ]; do printf '#' >>/run/block; done\n\
        dd if=/run/block of=$(findmnt -no SOURCE --nofsroot /) bs=512 seek=512 conv=notrunc,fsync status=none\n")?;
    node.ok("chmod 755 /etc/grub.d/42_header /usr/local/bin/choose && touch /etc/wrong-entry && update-grub && \
         grub-editenv /boot/grub/grubenv set env_block=512+1 && choose ''")?;
    let next_boot = || -> Result<Value> { Ok(guest::plan(&node)?["next_boot"].clone()) };
    same!(next_boot()?, Value::Null, "the boot entry without a choice");

    node.step(
        "the choice is an entry without its kernel: seen by root and in the daemon's sandbox",
    );
    node.ok("choose 'next_entry=other\n'")?;
    let found = next_boot()?;
    check!(found.to_string().contains("vmlinuz-missing"), "next_boot of the plan: {found}");
    start(&node)?;
    until(&node, "noticed", "bedplate status --json | grep -q vmlinuz-missing")?;
    refused(&node)?;

    node.step("the choice is an entry that boots: GRUB starts it");
    node.ok("rm /etc/wrong-entry && update-grub")?;
    same!(next_boot()?, Value::Null, "the boot entry of the choice");
    let boot = node.boot_id()?;
    node.run("systemctl reboot")?;
    node.wait_for_another_boot(&boot)?;
    check!(guest::running(&node)?.contains(&"marked".to_owned()), "/proc/cmdline");
    node.ok("touch /etc/wrong-entry && update-grub && choose ''")?;
    same!(next_boot()?, Value::Null, "the boot entry after the choice");
    Ok(())
}

/// The cloud kernel has no igb: the node would boot without the NICs of the profile.
fn kernel_without_driver(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    install(case, &node)?;
    node.put(
        PROFILE_PATH,
        profile(
            "[iommu]\nmode = \"passthrough\"\n[[sriov.devices]]\nname = \"nics\"\nselect = { driver = \"igb\" }\nvfs = 1",
        ),
    )?;
    let boot = node.boot_id()?;
    node.ok("DEBIAN_FRONTEND=noninteractive dpkg -i /var/lib/vm/linux-image-cloud-amd64/*.deb")?;
    check!(guest::grub_lines(&node)?[0].contains("cloud"), "the cloud kernel is not the default");
    start(&node)?;
    until(&node, "noticed", "bedplate status --json | grep -q 'no driver for NIC'")?;
    let plan = node.ok("bedplate plan --json")?;
    check!(plan.contains("cloud") && plan.contains("igb"), "bedplate plan --json:\n{plan}");
    for command in ["status", "reboot status"] {
        let shown = node.run(&format!("COLUMNS=500 bedplate {command}"))?;
        check!(shown.stdout.contains("cloud"), "bedplate {command}:\n{}", shown.stdout);
    }
    refused(&node)?;
    stays_up(&node, &boot, "the next kernel has no driver for the NICs")?;

    node.step("the first kernel is chosen again: the change is made, and the reboot comes");
    node.ok("DEBIAN_FRONTEND=noninteractive dpkg -r linux-image-cloud-amd64 $(dpkg-query -W -f '${Package}\\n' 'linux-image-*-cloud-amd64')")?;
    node.run("bedplate reconcile")?;
    node.wait_for_another_boot(&boot)?;
    guest::in_passthrough(&node)
}
