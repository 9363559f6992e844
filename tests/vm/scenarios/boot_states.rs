//! A loader that ignores the configuration: configured, next boot, running and effective are four states, and their
//! differences show the cause (handbook §10.1). Each case could otherwise lead to a reboot loop.

use bedplate_tests::lab::machine::TRIXIE;
use bedplate_tests::lab::{Case, Node, Result, Scenario};
use serde_json::{Value, json};

use super::guest::{self, PROFILE_PATH, check, same};

pub const SCENARIOS: &[Scenario] = &[
    ("boot_states::another_default_entry", another_default_entry),
    ("boot_states::overriding_drop_in", overriding_drop_in),
    ("boot_states::edited_not_regenerated", edited_not_regenerated),
];

/// Only the command line matters here.
fn profile() -> String {
    format!("schema = 1\nname = \"states\"\n{}", "[iommu]\nmode = \"passthrough\"\n")
}

/// Whether the plan runs update-grub.
fn regenerates(plan: &Value) -> bool {
    let changes = plan["changes"].as_array().into_iter().flatten();
    let mut actions = changes.flat_map(|change| change["actions"].as_array().into_iter().flatten());
    actions.any(|action| action["argv"] == json!(["update-grub"]))
}

/// Checks the plan of a host that has all it needs but one boot.
fn waits_for_boot(node: &Node) -> Result<()> {
    let plan = guest::plan(node)?;
    for part in ["changes", "blockers", "unknowns"] {
        same!(plan[part], json!([]), "{part} of a host that waits for a boot");
    }
    same!(plan["pending"].as_array().map(Vec::len), Some(1), "what waits for a boot: {plan}");
    Ok(())
}

/// Argument that identifies the hand-written entry in /proc/cmdline.
const MINE: &str = "bedplate.mine=1";

/// Checks a plan that is blocked by the choice of the default entry. The plan names the entry's location (titles are
/// file content) and how to choose another, and `apply` writes nothing.
fn passed_over(node: &Node, entry: &str, fix: &str) -> Result<()> {
    let plan = guest::plan(node)?;
    same!(
        plan["changes"],
        json!([]),
        "what is planned although no change can reach the default entry"
    );
    let blocker = plan["blockers"][0].clone();
    let (reason, advice) = (blocker["reason"].to_string(), blocker["fix"].to_string());
    let place =
        reason.split_once("(/boot/grub/grub.cfg:").and_then(|(_, rest)| rest.split_once(')'));
    let (line, _) = place.ok_or_else(|| format!("no place of the default entry: {blocker}"))?;
    let title =
        node.ok(&format!("head -n {line} /boot/grub/grub.cfg | grep 'menuentry ' | tail -n 1"))?;
    check!(title.contains(entry), "{title} is named, not {entry}: {blocker}");
    check!(advice.contains(fix), "the fix is not {fix}: {blocker}");
    let before = guest::contents(node)?;
    node.expect(4, "bedplate apply --yes")?;
    same!(guest::contents(node)?, before, "files after an apply that is blocked");
    Ok(())
}

fn another_default_entry(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    node.put(PROFILE_PATH, profile())?;
    // An operator's own entry, with its own line; not yet the default.
    let entry = node.ok(&format!(
        "awk '/^menuentry /,/^}}/' /boot/grub/grub.cfg | \
         sed -E \"1s/.*/menuentry 'Mine' --id mine {{/; s/^(\\s*linux\\s.*)/\\1 {MINE}/\""
    ))?;
    node.put("/etc/grub.d/41_mine", format!("#!/bin/sh\ncat <<'EOF'\n{entry}\nEOF\n"))?;
    node.ok("chmod 755 /etc/grub.d/41_mine && update-grub")?;
    node.expect(3, "bedplate apply --yes")?;

    node.step("chosen for one boot by grub-reboot: noticed before, and told from a change that waits after");
    node.ok("grub-reboot mine && sync")?;
    passed_over(&node, "Mine", "grub-editenv - unset next_entry")?;
    node.reboot()?;
    let words = guest::running(&node)?;
    check!(words.contains(&MINE.to_owned()), "GRUB took another entry: {words:?}");
    check!(!words.contains(&"iommu=pt".to_owned()), "the entry has it after all: {words:?}");
    check!(guest::groups(&node)?.values().all(|kind| kind == "DMA"), "the groups have changed");
    waits_for_boot(&node)?;
    node.reboot()?;
    check!(
        guest::groups(&node)?.values().all(|kind| kind == "identity"),
        "the next boot was not the default one"
    );
    node.expect(0, "bedplate plan --exit-code")?;

    node.step("chosen for good, in the configuration");
    node.ok("sed -i 's/^GRUB_DEFAULT=.*/GRUB_DEFAULT=mine/' /etc/default/grub && update-grub")?;
    passed_over(&node, "Mine", "GRUB_DEFAULT=0")?;

    node.step("chosen for good, in the environment block: the recovery entry");
    node.ok(
        "sed -i 's/^GRUB_DEFAULT=.*/GRUB_DEFAULT=saved/' /etc/default/grub && update-grub && \
         sub=$(grep -o 'gnulinux-advanced-[0-9a-f-]*' /boot/grub/grub.cfg | head -n1) && \
         entry=$(grep -o 'gnulinux-[^ ]*-recovery-[0-9a-f-]*' /boot/grub/grub.cfg | head -n1) && \
         grub-set-default \"$sub>$entry\"",
    )?;
    passed_over(&node, "recovery mode", "grub-set-default 0")?;
    node.step("the fix helps");
    node.ok("grub-set-default 0")?;
    node.expect(0, "bedplate plan --exit-code")?;
    Ok(())
}

fn overriding_drop_in(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    node.put(PROFILE_PATH, profile())?;
    // Sorts after bedplate's drop-in and assigns another value.
    node.put(
        "/etc/default/grub.d/zzz-site.cfg",
        "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"console=ttyS0,115200 mitigations=off\"\n",
    )?;
    let before = guest::contents(&node)?;
    let blockers = guest::plan(&node)?["blockers"].to_string();
    check!(
        blockers.contains("zzz-site.cfg"),
        "the plan does not name the file that overrides: {blockers}"
    );
    node.expect(4, "bedplate apply --yes")?;
    same!(guest::contents(&node)?, before, "files after an apply that is blocked");
    Ok(())
}

fn edited_not_regenerated(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    node.put(PROFILE_PATH, profile())?;
    node.ok("sed -i 's/^GRUB_CMDLINE_LINUX_DEFAULT=.*/GRUB_CMDLINE_LINUX_DEFAULT=\"quiet iommu=pt\"/' /etc/default/grub")?;
    node.step("configured by hand, grub.cfg older: update-grub is all that is planned");
    let plan = guest::plan(&node)?;
    check!(regenerates(&plan), "the plan does not regenerate: {plan}");
    node.expect(3, "bedplate apply --yes")?;
    check!(guest::grub_lines(&node)?[0].contains("iommu=pt"), "update-grub was not run");
    node.step("written and regenerated, not booted: nothing to do but wait");
    waits_for_boot(&node)?;
    node.reboot()?;
    node.step(
        "booted with it, then switched off by hand for one boot: running differs from next boot",
    );
    node.ok("cp /boot/grub/grub.cfg /var/tmp/kept && sed -i 's/ iommu=pt//' /boot/grub/grub.cfg && sync")?;
    let plan = guest::plan(&node)?;
    check!(regenerates(&plan), "a default entry that lost the argument goes unnoticed: {plan}");
    check!(
        guest::groups(&node)?.values().all(|kind| kind == "identity"),
        "effective: the boot had it"
    );
    Ok(())
}
