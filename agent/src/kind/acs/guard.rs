//! Which functions are there for guests, and below which bridges: ACS that is opened above them takes their isolation away.
//! Pure.

use std::collections::BTreeMap;

use crate::cmdline::{CommandLine, pci_suboption};
use crate::desired::WantedArg;
use crate::facts::Facts;
use crate::facts::pci::{Function, PciTree, is_xen_back, serves_guests};
use crate::kind::some_of;
use crate::plan::Blocker;
use crate::value::PciAddress;

use super::{NAME, token};

/// Functions for guests, under every bridge that is above them. Where a bridge above is hidden (a container with a filtered
/// `/sys`, part of a recording), nobody knows what else is: then each bridge of the same host bridge counts.
///
/// PFs whose VFs are `to_come` count like their VFs.
pub fn guests_below(
    tree: &PciTree,
    to_come: &[PciAddress],
) -> BTreeMap<PciAddress, Vec<PciAddress>> {
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
    let is_guests = |f: &&Function| f.vfio || to_come.contains(&f.address);
    for function in tree.functions.values().filter(is_guests) {
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

/// Those of them that are in use: the others are PFs whose VFs are to come.
pub fn in_use(facts: &Facts, guests: &[PciAddress]) -> Vec<PciAddress> {
    let tree = facts.pci.known();
    let is_the_hosts = |guest: &&PciAddress| {
        let function = tree.and_then(|tree| tree.get(**guest)).filter(|function| !function.vfio);
        function.and_then(|function| function.driver.as_deref()).is_some_and(|d| !serves_guests(d))
    };
    guests.iter().filter(|guest| !is_the_hosts(guest)).copied().collect()
}

/// `VFIO uses a, b`; where none is in use yet, `VFIO is to have VFs of a`.
pub fn used_by(facts: &Facts, guests: &[PciAddress]) -> String {
    let used = in_use(facts, guests);
    let (verb, functions) = match used.is_empty() {
        true => ("is to have VFs of", guests),
        false => ("uses", &used[..]),
    };
    let named = some_of(functions.iter().map(PciAddress::to_string), 4, "functions");
    format!("{} {verb} {named}", handed_out_by(facts, functions))
}

/// By what guests have these functions: `VFIO`, `Xen`, or both.
fn handed_out_by(facts: &Facts, guests: &[PciAddress]) -> &'static str {
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

/// Takes those of the profile's own arguments away that would open a port above a guest's function at the next boot.
pub fn refuse_arguments(
    args: &mut Vec<WantedArg>,
    facts: &Facts,
    to_come: &[PciAddress],
) -> Vec<Blocker> {
    let guests = facts.pci.known().map(|tree| guests_below(tree, to_come)).unwrap_or_default();
    let mut blockers = Vec::new();
    loop {
        let before = args.len();
        // What `config_acs` says for a port counts for another argument's `disable_acs_redir`, as long as it stays.
        let all: Vec<&str> = args.iter().map(|arg| arg.token.as_str()).collect();
        let config = pci_suboption(&CommandLine::parse(&all.join(" ")), "config_acs");
        args.retain(|arg| match refused(arg, config.as_deref(), &guests, facts) {
            Some(blocker) => {
                blockers.push(blocker);
                false
            }
            None => true,
        });
        if args.len() == before {
            return blockers;
        }
    }
}

fn refused(
    arg: &WantedArg,
    config: Option<&str>,
    guests: &BTreeMap<PciAddress, Vec<PciAddress>>,
    facts: &Facts,
) -> Option<Blocker> {
    let line = CommandLine::parse(&arg.token);
    let (own, redir) =
        (pci_suboption(&line, "config_acs"), pci_suboption(&line, "disable_acs_redir"));
    let (own, redir) = (own.as_deref(), redir.as_deref());
    let (port, functions) = guests.iter().find(|(port, _)| {
        token::may_open(own, redir, **port) && token::may_open(own.or(config), redir, **port)
    })?;
    let used = used_by(facts, functions);
    Some(Blocker {
        kind: NAME,
        subject: format!("argument {}", arg.token),
        reason: format!(
            "it opens ACS on port {port}, below which {used}: from the next boot on the guest's IOMMU group \
             would hold its neighbours too (Linux drivers/iommu/iommu.c; handbook §3.3, §14.1)"
        ),
        remedy: "take the port out of the argument (or give it `1` for each of SV, RR, CR and UF in config_acs), or stop the \
                 guest and unbind the function from its driver"
            .to_owned(),
    })
}
