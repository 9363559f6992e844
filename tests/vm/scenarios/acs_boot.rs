//! ACS by the kernel's own argument, before any program of bedplate runs.

use std::collections::BTreeMap;

use bedplate_tests::lab::machine::{Arch, BOOKWORM, TRIXIE};
use bedplate_tests::lab::{Case, Node, Result, Scenario};

use super::guest::{self, OTHER_PORTS, PATH_PORTS, PROFILE, PROFILE_PATH, check, same};

pub const SCENARIOS: &[Scenario] =
    &[("acs_boot::config_acs", config_acs), ("acs_boot::older_kernel", older_kernel)];

fn config_acs(case: &mut Case) -> Result<()> {
    let node = case.node(TRIXIE)?;
    node.put(PROFILE_PATH, guest::profile_with_vfs(1))?;
    let before = guest::acs(&node)?;
    node.expect(3, "bedplate apply --yes")?;
    let line = guest::grub_lines(&node)?.swap_remove(0);
    check!(line.contains("pci=config_acs="), "config_acs is not in the default entry: {line}");

    node.step("the boot alone, with no unit of ours, sets the planned ports");
    node.reboot()?;
    configured_by_kernel(&node)?;
    let after = guest::acs(&node)?;
    same!(guest::bits_of(&after, &PATH_PORTS), ["0000"; 6], "ACS of the planned ports");
    let others = |acs: &BTreeMap<String, String>| -> Vec<(String, String)> {
        acs.iter()
            .filter(|(port, _)| !PATH_PORTS.contains(&port.as_str()))
            .map(|(p, v)| (p.clone(), v.clone()))
            .collect()
    };
    same!(others(&after), others(&before), "ACS of the other ports");
    same!(guest::bits_of(&after, &OTHER_PORTS), ["001d"; 2], "ACS of the empty root ports");
    let left = guest::kinds(&guest::plan(&node)?);
    check!(
        !left.contains_key("acs") && !left.contains_key("cmdline"),
        "no live write is needed, yet: {left:?}"
    );
    Ok(())
}

/// The kernel has configured the planned ports by its argument, before it built the IOMMU groups.
pub(super) fn configured_by_kernel(node: &Node) -> Result<()> {
    let word = guest::running(node)?
        .into_iter()
        .find(|word| word.starts_with("pci=config_acs="))
        .unwrap_or_default();
    for port in PATH_PORTS {
        check!(word.contains(&format!("@{port}")), "{port} is not in {word}");
    }
    let log = node.ok("dmesg")?;
    same!(
        log.matches("Configured ACS to").count(),
        PATH_PORTS.len(),
        "ports that the kernel says it configured"
    );
    for (gpu, port, nic) in [
        ("0000:23:00.0", "0000:22:01.0", "0000:24:00.0"),
        ("0000:83:00.0", "0000:82:01.0", "0000:84:00.0"),
    ] {
        // Before Linux 6.15 a function behind an SMMU has no group until a driver is bound, and this GPU has none.
        let other = if node.machine.arch == Arch::Arm { port } else { gpu };
        same!(
            guest::group_of(node, other)?,
            guest::group_of(node, nic)?,
            "the group of {other} and of {nic}"
        );
    }
    Ok(())
}

/// Linux 6.1 does not know `config_acs`, and must not be given unknown arguments.
fn older_kernel(case: &mut Case) -> Result<()> {
    let node = case.node(BOOKWORM)?;
    node.put(PROFILE_PATH, PROFILE)?;
    node.step("what it does know is used, and said");
    let plan = guest::plan(&node)?.to_string();
    check!(!plan.contains("config_acs="), "config_acs is planned for a kernel that ignores it");
    check!(
        plan.contains("pci=disable_acs_redir="),
        "disable_acs_redir, which it knows since 4.19, is not planned"
    );

    node.step("a policy that no argument of this kernel can express falls back to live writes, and says so");
    node.put(PROFILE_PATH, guest::profile_with_vfs(1).replace("direct-p2p", "clear"))?;
    let shown = node.ok("bedplate plan -v")?;
    check!(!shown.contains("+ pci="), "an argument is planned that does not do it:\n{shown}");
    let plan = guest::plan(&node)?;
    let changes = plan["changes"].as_array().ok_or("a plan without changes")?;
    let acs: Vec<_> = changes.iter().filter(|change| change["kind"] == "acs").collect();
    check!(
        !acs.is_empty() && acs.iter().all(|change| change["effect"] == "every-boot"),
        "the plan does not say that live writes are lost: {acs:?}"
    );
    node.expect(3, "bedplate apply --yes")?;
    let acs = guest::acs(&node)?;
    check!(acs.values().all(|control| control == "0000"), "ACS after a live clear: {acs:?}");
    Ok(())
}
