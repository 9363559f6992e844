//! A loader that ignores what was configured: configured, next boot, running and effective are four things, and which of
//! them disagree tells why (handbook §10.1). What a reboot loop would be made of.

use bedplate_tests::lab::machine::BOOKWORM;
use bedplate_tests::lab::{Case, Node, Result, Scenario};

use super::guest::{self, PROFILE_PATH, check, same};

pub const SCENARIOS: &[Scenario] = &[
    ("boot_states::another_default_entry", another_default_entry),
    ("boot_states::overriding_drop_in", overriding_drop_in),
    ("boot_states::edited_not_regenerated", edited_not_regenerated),
];

/// Only the command line is of interest here.
fn profile() -> String {
    format!("schema = 1\nname = \"states\"\n{}", "[iommu]\nmode = \"passthrough\"\n")
}

/// What `plan` says of `iommu=pt`, in words; the whole plan, for messages.
fn said(node: &Node) -> Result<String> {
    node.ok("bedplate plan -v")
}

fn another_default_entry(case: &mut Case) -> Result<()> {
    let node = case.node(BOOKWORM)?;
    node.put(PROFILE_PATH, profile())?;
    // Somebody's own entry, with its own line, and GRUB told to take it.
    let entry = node.ok(
        "awk '/^menuentry /,/^}/' /boot/grub/grub.cfg | sed -E \"1s/.*/menuentry 'Mine' --id mine {/\"",
    )?;
    node.put("/etc/grub.d/41_mine", format!("#!/bin/sh\ncat <<'EOF'\n{entry}\nEOF\n"))?;
    node.ok("chmod 755 /etc/grub.d/41_mine && sed -i 's/^GRUB_DEFAULT=.*/GRUB_DEFAULT=mine/' /etc/default/grub && update-grub")?;

    node.step("configured, yet the default entry does not carry it: apply fails and says so");
    let applied = node.run("bedplate apply --yes")?;
    check!(
        applied.status != 0 && applied.status != 3,
        "apply is content with an entry that ignores it: {applied:?}"
    );
    let text = applied.stdout.clone() + &applied.stderr;
    check!(text.contains("iommu=pt"), "the report names no argument:\n{text}");
    let mine = node.ok("awk '/--id mine/,/^}/' /boot/grub/grub.cfg")?;
    check!(!mine.contains("iommu=pt"), "the entry that boots has it after all: {mine}");

    node.step("the boot takes that entry, and the plan still asks for it");
    node.reboot()?;
    check!(!guest::running(&node)?.contains(&"iommu=pt".to_owned()), "/proc/cmdline has it");
    check!(guest::groups(&node)?.values().all(|kind| kind == "DMA"), "the groups have changed");
    node.expect(2, "bedplate plan --exit-code")?;
    Ok(())
}

fn overriding_drop_in(case: &mut Case) -> Result<()> {
    let node = case.node(BOOKWORM)?;
    node.put(PROFILE_PATH, profile())?;
    // Sorts after bedplate's and assigns anew.
    node.put(
        "/etc/default/grub.d/zzz-site.cfg",
        "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"console=ttyS0,115200 mitigations=off\"\n",
    )?;
    let before = guest::contents(&node)?;
    let shown = said(&node)?;
    check!(shown.contains("zzz-site.cfg"), "the plan does not name the file that overrides:\n{shown}");
    let applied = node.run("bedplate apply --yes")?;
    let line = guest::grub_lines(&node)?.swap_remove(0);
    if line.contains("iommu=pt") {
        same!(applied.status, 3, "apply, which won over the drop-in");
        node.reboot()?;
        check!(guest::running(&node)?.contains(&"iommu=pt".to_owned()), "won in grub.cfg, lost in the boot");
        return Ok(());
    }
    check!(
        applied.status != 0 && applied.status != 3,
        "apply is content although the default entry lacks it"
    );
    same!(guest::contents(&node)?, before, "files after a change that did not take");
    Ok(())
}

fn edited_not_regenerated(case: &mut Case) -> Result<()> {
    let node = case.node(BOOKWORM)?;
    node.put(PROFILE_PATH, profile())?;
    node.ok("sed -i 's/^GRUB_CMDLINE_LINUX_DEFAULT=.*/GRUB_CMDLINE_LINUX_DEFAULT=\"quiet iommu=pt\"/' /etc/default/grub")?;
    node.step("configured by hand, grub.cfg older: update-grub is all that is planned");
    let shown = said(&node)?;
    check!(shown.contains("run update-grub"), "the plan does not regenerate:\n{shown}");
    node.expect(3, "bedplate apply --yes")?;
    check!(guest::grub_lines(&node)?[0].contains("iommu=pt"), "update-grub was not run");
    node.step("written and regenerated, not booted: nothing to do but wait");
    let shown = said(&node)?;
    check!(shown.contains("nothing to do, 1 waiting for a boot"), "the plan of a host that waits:\n{shown}");
    node.reboot()?;
    node.step("booted with it, then switched off by hand for one boot: running differs from next boot");
    node.ok("cp /boot/grub/grub.cfg /root/kept && sed -i 's/ iommu=pt//' /boot/grub/grub.cfg && sync")?;
    let shown = said(&node)?;
    check!(
        shown.contains("run update-grub"),
        "a default entry that lost the argument goes unnoticed:\n{shown}"
    );
    check!(guest::groups(&node)?.values().all(|kind| kind == "identity"), "effective: the boot had it");
    Ok(())
}
