//! IOMMU groups of GPUs and the Data Direct functions of their NICs.

use super::super::unread::{OrUnread as _, unread};
use super::super::{AcsFinding, Check, CheckInput, Evidence, Group, Judgement, Outcome, Severity};
use crate::kind::acs::pairs_in_different_groups;
use crate::kind::modules::topo_check::{self, Access, DmaPath, PARAMETER, PARAMS};
use bedplate_base::value::PciAddress;
use bedplate_base::{Reading, counted};
use bedplate_facts::pci::PciTree;
use bedplate_facts::topology::{Pair, Peer};

pub(crate) const GROUPS: Check = Check {
    id: "acs.groups",
    group: Group::Acs,
    verifies: "the NVIDIA driver lets each GPU and its Data Direct function reach each other",
    severity: Severity::Fail,
    needs_root: false,
    what: "A GPU and the Data Direct function that shares a switch with it are in one IOMMU group, or neither has a group. \
           Drivers from R570 to R590 skip this test with NVreg_GrdmaPciTopoCheckOverride=1; R580 and R590 always refuse with \
           2.",
    why: "NCCL requests GPU memory over PCIe there. Between groups the driver answers ENOTSUPP, and setting up the job \
          fails. Groups are built at boot from the ACS bits of that moment; writing the registers later does not change them.",
    source: "handbook §6.3, §14.1; open-gpu-kernel-modules kernel-open/nvidia/nv-pci.c, nv-dmabuf.c; NCCL src/transport/net.cc",
    how: "iommu_group of each function in /sys/bus/pci/devices; /proc/driver/nvidia/version and params",
    judge: groups,
};

fn groups(input: &CheckInput<'_>) -> Judgement {
    let topology = input.topology()?;
    let tree = topology.tree();
    let pairs = input.pairs(|peer| peer == Peer::DataDirect)?;
    if pairs.is_empty() {
        return Ok(Outcome::not_applicable("no GPU shares a switch with a Data Direct function"));
    }
    let mut apart = pairs_in_different_groups(topology, tree);
    apart.retain(|pair| pairs.contains(pair));
    let Some(driver) = input.facts.gpu.nvidia.or_unread("the NVIDIA driver's version")? else {
        return Ok(Outcome::not_applicable("no NVIDIA driver is loaded"));
    };
    let access = |value| topo_check::access(driver, true, DmaPath::OverPcie, value);
    let access = match &input.observed.topo_check.running {
        Reading::Known(value) => access(*value),
        Reading::Absent => access(0),
        // If no value makes a difference, the value need not be known.
        Reading::Unknown(why) if (1..3).any(|value| access(value) != access(0)) => {
            return Ok(unread(PARAMETER, why));
        }
        Reading::Unknown(_) => access(0),
    };
    let refused = match access {
        Access::Allowed => Vec::new(),
        Access::InOneGroup => apart,
        Access::Denied => pairs.clone(),
    };
    if !refused.is_empty() {
        return Ok(refusal(tree, &refused, &driver.version));
    }
    if access == Access::InOneGroup {
        for at in pairs.iter().flat_map(|pair| [pair.gpu, pair.peer]) {
            let group = tree.get(at).map(|function| &function.iommu_group);
            group.or_unread(format_args!("the IOMMU group of {at}"))?;
        }
    }
    let count = counted(pairs.len(), "pair");
    Ok(Outcome::pass(format!("{count} of a GPU and its Data Direct function")))
}

/// Returns the outcome for pairs that the driver refuses.
fn refusal(tree: &PciTree, refused: &[Pair], version: &str) -> Outcome {
    let code = |pair: &Pair| AcsFinding::GroupsApart { gpu: pair.gpu, function: pair.peer };
    let shown = |at: PciAddress| match tree.get(at).map(|function| &function.iommu_group) {
        Some(Reading::Known(group)) => format!("{at}: group {group}"),
        _ => format!("{at}: no group"),
    };
    let seen = refused.iter().map(|pair| {
        Evidence::new(
            format!("{}, {}", shown(pair.gpu), shown(pair.peer)),
            "iommu_group in /sys/bus/pci/devices",
        )
    });
    Outcome::fail(refused.iter().map(code))
        .all_evidence(seen)
        .evidence(format!("driver {version}"), PARAMS)
}
