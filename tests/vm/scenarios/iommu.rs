//! The kernel's view of its IOMMU compared with the facts (handbook §1.3): a machine with an IOMMU, one with the IOMMU
//! disabled, one without any that still logs "IOMMU enabled", and AMD's.

use bedplate_tests::lab::machine::{AMD, NO_IOMMU, TRIXIE};
use bedplate_tests::lab::{Case, Node, Result, Scenario};
use serde_json::Value;

use super::guest::{self, PROFILE, PROFILE_PATH, check, same};

pub const SCENARIOS: &[Scenario] = &[
    ("iommu::intel_off", intel_off),
    ("iommu::none", none),
    ("iommu::amd_passthrough", amd_passthrough),
];

/// Adds words to every entry for the next boot, without the tools that bedplate watches.
fn boot_with(node: &Node, words: &str) -> Result<()> {
    node.ok(&format!(
        "sed -i -E '/^[[:space:]]*linux[[:space:]]/ s/$/ {words}/' /boot/grub/grub.cfg && sync"
    ))?;
    node.reboot()
}

/// Names of the active IOMMUs and types of the groups from `inspect`; both must be known.
fn facts(node: &Node) -> Result<(Vec<String>, Vec<String>)> {
    let ours = guest::json(node, "bedplate inspect --json --all")?;
    let iommu = &ours["iommu"];
    same!(iommu["active"]["state"], "known", "whether an IOMMU is active");
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let active = iommu["active"]["value"].as_array().into_iter().flatten().map(text).collect();
    let types = iommu["groups"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(_, group)| text(&group["value"]))
        .collect();
    Ok((active, types))
}

/// The same data from the kernel, sorted alike.
fn kernel(node: &Node) -> Result<(Vec<String>, Vec<String>)> {
    let active = node.ok("ls /sys/class/iommu")?.split_whitespace().map(str::to_owned).collect();
    let types = guest::groups(node)?;
    let mut groups: Vec<(u32, String)> =
        types.into_iter().map(|(group, kind)| (group.parse().unwrap_or(u32::MAX), kind)).collect();
    groups.sort();
    Ok((active, groups.into_iter().map(|(_, kind)| kind).collect()))
}

fn intel_off(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    node.put(PROFILE_PATH, PROFILE)?;
    node.step("with VT-d and nothing on the command line, Debian translates");
    let (active, types) = facts(&node)?;
    same!((active.clone(), types.clone()), kernel(&node)?, "facts and kernel");
    check!(active == ["dmar0"] && types.iter().all(|kind| kind == "DMA"), "{active:?} {types:?}");

    node.step("intel_iommu=off: the firmware offers one, the kernel uses none");
    boot_with(&node, "intel_iommu=off")?;
    same!(facts(&node)?, kernel(&node)?, "facts and kernel");
    same!(facts(&node)?, (Vec::new(), Vec::new()), "active IOMMUs and groups");
    check!(
        node.ok("dmesg")?.contains("DMAR: IOMMU disabled"),
        "the kernel does not say that it is off"
    );
    same!(
        guest::json(&node, "bedplate inspect --json")?["iommu"]["firmware"]["value"],
        "DMAR",
        "what firmware offers"
    );
    // Linux enables redirection only with an active IOMMU (drivers/pci/pci.c pci_request_acs).
    same!(
        guest::bits_of(&guest::acs(&node)?, &guest::PATH_PORTS),
        ["0000"; 6],
        "ACS without an IOMMU"
    );
    check!(!guest::kinds(&guest::plan(&node)?).contains_key("acs"), "there is nothing to clear");
    let shown = node.ok("bedplate plan -v")?;
    check!(shown.contains("no IOMMU group"), "the plan hides that no IOMMU is in use:\n{shown}");
    Ok(())
}

fn none(case: &mut Case) -> Result<()> {
    let node = case.node(NO_IOMMU)?;
    node.put(PROFILE_PATH, PROFILE)?;
    boot_with(&node, "intel_iommu=on iommu=pt")?;
    // The message is about the argument; hosts without VT-d print it, and how-tos mistake it for proof.
    check!(
        node.ok("dmesg")?.contains("DMAR: IOMMU enabled"),
        "this kernel no longer prints the misleading line"
    );
    same!(facts(&node)?, kernel(&node)?, "facts and kernel");
    same!(facts(&node)?, (Vec::new(), Vec::new()), "active IOMMUs and groups");
    same!(
        guest::json(&node, "bedplate inspect --json")?["iommu"]["firmware"]["state"],
        "absent",
        "the DMAR table"
    );
    let shown = node.ok("bedplate inspect")?;
    check!(shown.contains("not supported by firmware; not active"), "inspect says:\n{shown}");
    Ok(())
}

fn amd_passthrough(case: &mut Case) -> Result<()> {
    // This machine cannot be saved and cloned: it boots from its disk.
    let node = case.node(AMD)?;
    node.put(PROFILE_PATH, guest::profile_with_vfs(1))?;
    let (active, types) = facts(&node)?;
    same!((active.clone(), types.clone()), kernel(&node)?, "facts and kernel");
    check!(active == ["ivhd0"] && types.iter().all(|kind| kind == "DMA"), "{active:?} {types:?}");
    node.expect(3, "bedplate apply --yes")?;
    let lines = guest::grub_lines(&node)?;
    check!(
        lines[0].contains(" iommu=pt") && !lines[0].contains("intel_iommu"),
        "the default entry: {lines:#?}"
    );
    node.reboot()?;
    let (active, types) = facts(&node)?;
    same!((active.clone(), types.clone()), kernel(&node)?, "facts and kernel after the boot");
    check!(
        active == ["ivhd0"] && types.iter().all(|kind| kind == "identity"),
        "{active:?} {types:?}"
    );
    Ok(())
}
