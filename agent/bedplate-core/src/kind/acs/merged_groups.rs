//! Functions in one IOMMU group although every port between them isolates: caused by kernels that enable ACS only after
//! building the groups (handbook §3.4). Pure.

use std::collections::BTreeSet;

use crate::kind::some_of;
use bedplate_base::value::{AcsBits, KernelVersion, PciAddress};
use bedplate_facts::Os;
use bedplate_facts::pci::PciTree;
use bedplate_facts::topology::{Role, Topology};

use super::NAME;
use super::resolved::ResolvedAcs;
use super::support::version;

/// Releases with the backport of commit c41e2fb67e26 and without its revert: the first with it, and the first fixed one.
/// Below 6.15 pci_dma_configure(), to which it moves pci_enable_acs(), runs after iommu_init_device(). 5.10.252 and the end
/// of the 6.12 range are inferred: 6.12.82 already has the revert.
const LATE: [(KernelVersion, KernelVersion); 5] = [
    (version(5, 10, 252), version(5, 10, 253)),
    (version(5, 15, 202), version(5, 15, 203)),
    (version(6, 1, 165), version(6, 1, 169)),
    (version(6, 6, 128), version(6, 6, 135)),
    (version(6, 12, 75), version(6, 12, 82)),
];

/// Whether a kernel enables ACS after building the IOMMU groups.
fn enables_acs_late(release: &str) -> bool {
    let version = KernelVersion::from_release(release);
    version.is_some_and(|version| LATE.iter().any(|(from, to)| (*from..*to).contains(&version)))
}

/// Notes functions that share a group although every port between them isolates.
pub(crate) fn report(tree: &PciTree, topology: &Topology, os: &Os, resolved: &mut ResolvedAcs) {
    let Some(release) = os.kernel.known().filter(|release| enables_acs_late(release)) else {
        return;
    };
    let ports: BTreeSet<PciAddress> =
        tree.functions.keys().copied().filter(|port| is_collapsed(*port, tree, topology)).collect();
    if ports.is_empty() {
        return;
    }
    let named = some_of(ports.iter().map(PciAddress::to_string), 4, "ports");
    let text = format!(
        "devices below share an IOMMU group with others although the ports isolate: Linux {release} builds the groups \
         before it enables ACS (commit c41e2fb67e26, reverted in later releases of its series; bugzilla.kernel.org \
         221234; handbook §3.4). Boot another kernel if guests need these devices in separate groups"
    );
    resolved.notes.push(NAME.note(format!("port {named}"), text));
}

/// Whether an isolating port, below isolating ports, has a function below it that shares a group with one elsewhere.
fn is_collapsed(port: PciAddress, tree: &PciTree, topology: &Topology) -> bool {
    let is_closed = |address: PciAddress| match topology.role(address) {
        Role::RootPort | Role::Downstream => tree.get(address).is_some_and(|function| {
            let acs = function.acs.known();
            acs.is_some_and(|acs| {
                AcsBits::ISOLATION.and(acs.capable).without(acs.control).is_empty()
            })
        }),
        _ => true,
    };
    let is_port = matches!(topology.role(port), Role::RootPort | Role::Downstream);
    if !is_port || !is_closed(port) || !tree.path_up(port).into_iter().all(is_closed) {
        return false;
    }
    let below: BTreeSet<PciAddress> = topology.below(port).into_iter().collect();
    let group = |address: &PciAddress| tree.get(*address)?.iommu_group.known().copied();
    let groups: BTreeSet<u32> = below.iter().filter_map(group).collect();
    let elsewhere =
        tree.functions.keys().filter(|address| **address != port && !below.contains(address));
    elsewhere.filter_map(group).any(|group| groups.contains(&group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_with_late_acs_are_detected() {
        for late in ["6.12.75", "6.12.76+deb13-amd64", "6.6.134", "6.1.165", "5.15.202"] {
            assert!(enables_acs_late(late), "{late}");
        }
        for right in [
            "6.12.74",
            "6.12.117+deb13-amd64",
            "6.6.135",
            "6.1.169",
            "5.15.203",
            "6.18.16",
            "7.0",
            "6.8.0-45-generic",
            "",
        ] {
            assert!(!enables_acs_late(right), "{right}");
        }
    }
}
