//! Data Direct with runtime-only ACS bits: IOMMU groups are built at boot, before any runtime write, and the NVIDIA driver
//! requires one group unless a module parameter overrides that. Pure.

use crate::desired::{AcsPersistence, AcsPolicy, Desired, WantedOption};
use crate::kind::modules::topo_check::{PARAMETER, can_override};
use crate::kind::some_of;
use crate::plan::Rationale;
use bedplate_base::Reading;
use bedplate_facts::pci::PciTree;
use bedplate_facts::topology::{Pair, Peer, Topology};
use bedplate_facts::{Facts, Os};

use super::NAME;
use super::shared_group::{ACCEPTING, SharedGroup, pasids_in_shared_group};
use super::support::{Support, of_next_boot};

/// Returns pairs of GPU and Data Direct function that are known to be in different IOMMU groups.
pub(crate) fn pairs_in_different_groups(topology: &Topology, tree: &PciTree) -> Vec<Pair> {
    let group = |address| tree.get(address).map(|function| &function.iommu_group);
    let are_apart = |pair: &Pair| match (group(pair.gpu), group(pair.peer)) {
        (Some(Reading::Known(gpu)), Some(Reading::Known(peer))) => gpu != peer,
        (Some(Reading::Known(_)), Some(Reading::Absent)) => true,
        (Some(Reading::Absent), Some(Reading::Known(_))) => true,
        _ => false,
    };
    let pairs = topology.pairs().into_iter().filter(|pair| pair.kind == Peer::DataDirect);
    pairs.filter(are_apart).collect()
}

/// Adds the parameter to the desired state, or a blocker if it would not help.
pub(super) fn resolve(facts: &Facts, desired: &mut Desired) {
    let Some(tree) = facts.pci.known() else { return };
    if desired.acs.policy != AcsPolicy::DirectP2p
        || desired.acs.persistence != AcsPersistence::Live
        || desired.acs.ports.is_empty()
    {
        return;
    }
    let pairs = pairs_in_different_groups(&Topology::new(tree), tree);
    if pairs.is_empty() {
        return;
    }
    let named = pairs.iter().map(|pair| format!("GPU {} and function {}", pair.gpu, pair.peer));
    let subject = some_of(named, 2, "pairs");
    let is_set = desired.modules.options.iter().any(|option| option.parameter == PARAMETER);
    match &facts.gpu.nvidia {
        _ if is_set => {}
        Reading::Known(driver) if can_override(driver) => {
            let why = Rationale::new(
                "runtime writes change no IOMMU group, and without this option the driver maps GPU memory for a Data \
                 Direct function only within one group",
                "open-gpu-kernel-modules kernel-open/nvidia/nv-pci.c; handbook §6.3",
            );
            let Ok(module) = "nvidia".parse() else { return };
            let (parameter, value) = (PARAMETER.to_owned(), "1".to_owned());
            desired.modules.options.push(WantedOption { module, parameter, value, why: vec![why] });
            desired.modules.options.sort_by(|a, b| {
                (a.module.as_str(), &a.parameter).cmp(&(b.module.as_str(), &b.parameter))
            });
        }
        Reading::Unknown(why) => {
            let reason = format!("cannot tell whether the NVIDIA driver lets them reach each other: {why}");
            desired.unknowns.push(NAME.unknown(subject, reason));
        }
        Reading::Known(_) | Reading::Absent => desired.blockers.push(NAME.blocker(
            subject,
            "in different IOMMU groups, which runtime register writes cannot change; this NVIDIA driver refuses \
             DMA-BUF between groups (open-gpu-kernel-modules kernel-open/nvidia/nv-pci.c; handbook §6.3)",
            other_kernel(&facts.os),
        )),
    }
}

/// Returns the fix if only one IOMMU group helps.
fn other_kernel(os: &Os) -> String {
    let is_possible = of_next_boot(os).is_ok_and(|(release, support)| {
        support == Support::ConfigAcs
            && pasids_in_shared_group(release, os) == SharedGroup::NotKnown
    });
    let insist = match is_possible {
        true => {
            ". Does this kernel's vendor have the fix? Then set acs.persistence = \"cmdline\" instead"
        }
        false => "",
    };
    format!("boot a kernel with pci=config_acs= (Linux {ACCEPTING}){insist}")
}
