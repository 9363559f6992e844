//! Which functions are there for guests, and below which bridges: ACS that is opened above them takes their isolation away.
//! Pure.

use std::collections::BTreeMap;

use crate::cmdline::{CommandLine, pci_suboption};
use crate::desired::WantedArg;
use crate::facts::Facts;
use crate::facts::pci::{Function, PciTree};
use crate::kind::some_of;
use crate::plan::Blocker;
use crate::value::PciAddress;

use super::{NAME, token};

/// Functions for guests, under every bridge that is above them. Where a bridge above is hidden (a container with a filtered
/// `/sys`, part of a recording), nobody knows what else is: then each bridge of the same host bridge counts.
pub fn guests_below(tree: &PciTree) -> BTreeMap<PciAddress, Vec<PciAddress>> {
    let mut below: BTreeMap<PciAddress, Vec<PciAddress>> = BTreeMap::new();
    for function in tree.functions.values().filter(|function| function.vfio) {
        let mut above = tree.path_up(function.address);
        if is_hidden(tree, function, &above) {
            above = tree
                .functions
                .values()
                .filter(|bridge| bridge.is_bridge() && may_be_above(bridge, function))
                .map(|bridge| bridge.address)
                .collect();
        }
        for bridge in above {
            below.entry(bridge).or_default().push(function.address);
        }
    }
    below
}

/// Whether the way from a function to its host bridge has a part that cannot be seen.
fn is_hidden(tree: &PciTree, function: &Function, above: &[PciAddress]) -> bool {
    let pf_is_missing = function.physfn.is_some_and(|pf| tree.get(pf).is_none());
    function.root.is_empty()
        || pf_is_missing
        || above.iter().any(|bridge| tree.get(*bridge).is_none())
}

/// Host bridges are told apart where the function's is known; else only the domain is.
fn may_be_above(bridge: &Function, function: &Function) -> bool {
    match function.root.is_empty() || bridge.root.is_empty() {
        true => bridge.address.domain == function.address.domain,
        false => bridge.root == function.root,
    }
}

/// Takes those of the profile's own arguments away that would open a port above a guest's function at the next boot.
pub fn refuse_arguments(args: &mut Vec<WantedArg>, facts: &Facts) -> Vec<Blocker> {
    let guests = facts.pci.known().map(guests_below).unwrap_or_default();
    let mut blockers = Vec::new();
    args.retain(|arg| {
        let line = CommandLine::parse(&arg.token);
        let (config, redir) =
            (pci_suboption(&line, "config_acs"), pci_suboption(&line, "disable_acs_redir"));
        let opened =
            guests.iter().find(|(port, _)| token::may_open(config.as_deref(), redir.as_deref(), **port));
        let Some((port, functions)) = opened else { return true };
        let functions = some_of(functions.iter().map(PciAddress::to_string), 4, "functions");
        blockers.push(Blocker {
            kind: NAME,
            subject: format!("argument {}", arg.token),
            reason: format!(
                "it opens ACS on port {port}, below which VFIO uses {functions}: from the next boot on the guest's IOMMU group \
                 would hold its neighbours too (Linux drivers/iommu/iommu.c; handbook §3.3, §14.1)"
            ),
            remedy: "take the port out of the argument, or stop the guest and unbind the function from its VFIO driver"
                .to_owned(),
        });
        false
    });
    blockers
}
