//! Which functions are there for guests, and below which bridges: ACS that is opened above them takes their isolation away.
//! Pure.

use std::collections::BTreeMap;

use crate::cmdline::{CommandLine, pci_suboption};
use crate::desired::WantedArg;
use crate::facts::Facts;
use crate::facts::pci::{Function, PciTree, is_xen_back};
use crate::host::Reading;
use crate::kind::some_of;
use crate::plan::Blocker;
use crate::value::{AcsBits, PciAddress};

use super::{NAME, token};

/// Functions for guests, under every bridge that is above them. Where a bridge above is hidden (a container with a filtered
/// `/sys`, part of a recording), nobody knows what else is: then each bridge of the same host bridge counts.
pub fn guests_below(tree: &PciTree) -> BTreeMap<PciAddress, Vec<PciAddress>> {
    let mut below: BTreeMap<PciAddress, Vec<PciAddress>> = BTreeMap::new();
    let mut add =
        |guest: PciAddress, root: &str, mut above: Vec<PciAddress>, pf_is_missing: bool| {
            let is_hidden = root.is_empty()
                || pf_is_missing
                || above.iter().any(|bridge| tree.get(*bridge).is_none());
            if is_hidden {
                let bridges = tree.functions.values();
                let perhaps = bridges
                    .filter(|bridge| bridge.is_bridge() && may_be_above(bridge, guest, root));
                above.extend(perhaps.map(|bridge| bridge.address));
                above.sort_unstable();
                above.dedup();
            }
            for bridge in above {
                below.entry(bridge).or_default().push(guest);
            }
        };
    for function in tree.functions.values().filter(|function| function.vfio) {
        let pf_is_missing = function.physfn.is_some_and(|pf| tree.get(pf).is_none());
        add(function.address, &function.root, tree.path_up(function.address), pf_is_missing);
    }
    for guest in &tree.unlisted_guests {
        add(guest.address, &guest.root, guest.above.clone(), false);
    }
    below
}

/// Host bridges are told apart where the function's is known; else only the domain is.
fn may_be_above(bridge: &Function, guest: PciAddress, root: &str) -> bool {
    match root.is_empty() || bridge.root.is_empty() {
        true => bridge.address.domain == guest.domain,
        false => bridge.root == root,
    }
}

/// By what guests have these functions: `VFIO`, `Xen`, or both.
pub fn handed_out_by(facts: &Facts, guests: &[PciAddress]) -> &'static str {
    let by_xen = |guest: &&PciAddress| {
        let driver = facts.pci.known().and_then(|tree| tree.get(**guest)?.driver.as_deref());
        driver.is_some_and(is_xen_back)
    };
    match guests.iter().filter(by_xen).count() {
        0 => "VFIO",
        all if all == guests.len() => "Xen (pciback)",
        _ => "VFIO and Xen (pciback)",
    }
}

/// Why these bits of a port's ACS control must not go while the machine runs: functions for guests are, or may be, below it.
/// `None` = nothing isolates by them, or no guest.
pub fn guests_exposed(facts: &Facts, port: PciAddress, lost: AcsBits) -> Option<String> {
    if lost.and(AcsBits::ISOLATION.or(AcsBits::EC)).is_empty() {
        return None;
    }
    let tree = match &facts.pci {
        Reading::Known(tree) => tree,
        Reading::Absent => return None,
        Reading::Unknown(reason) => {
            return Some(format!("whether a guest has functions below it is not known: {reason}"));
        }
    };
    let below = guests_below(tree);
    let guests = below.get(&port)?;
    let by = handed_out_by(facts, guests);
    let functions = some_of(guests.iter().map(PciAddress::to_string), 4, "functions");
    Some(format!(
        "{by} uses {functions} below it: without {lost} the guest could reach its neighbours past the IOMMU (Linux \
         drivers/iommu/iommu.c; handbook §3.3)"
    ))
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
        let by = handed_out_by(facts, functions);
        let functions = some_of(functions.iter().map(PciAddress::to_string), 4, "functions");
        blockers.push(Blocker {
            kind: NAME,
            subject: format!("argument {}", arg.token),
            reason: format!(
                "it opens ACS on port {port}, below which {by} uses {functions}: from the next boot on the guest's IOMMU group \
                 would hold its neighbours too (Linux drivers/iommu/iommu.c; handbook §3.3, §14.1)"
            ),
            remedy: "take the port out of the argument (or give it `1` for each of SV, RR, CR and UF in config_acs), or stop the \
                     guest and unbind the function from its driver"
                .to_owned(),
        });
        false
    });
    blockers
}
