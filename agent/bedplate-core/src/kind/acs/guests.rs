//! Functions assigned to VMs, and the bridges above them: disabling redirect on such a bridge removes their isolation.
//! Pure.

use std::collections::BTreeMap;

use crate::desired::KernelArg;
use crate::kind::some_of;
use crate::plan::Blocker;
use bedplate_base::value::{AcsBits, PciAddress};
use bedplate_cmdline::CommandLine;
use bedplate_facts::Facts;
use bedplate_facts::pci::{Function, PciTree, is_xen_back, serves_guests};

use super::{BootArguments, NAME, token};

/// Returns the functions assigned to VMs, under every bridge above them. If a bridge above is hidden (a container with a
/// filtered `/sys`, a partial snapshot), every bridge of the same host bridge may be above.
///
/// PFs in `to_come` count like their VFs.
pub(crate) fn guests_below(
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
    let is_guests = |f: &&Function| tree.may_be_a_guests(f) || to_come.contains(&f.address);
    for function in tree.functions.values().filter(is_guests) {
        let pf_is_missing = function.physfn.is_some_and(|pf| tree.get(pf).is_none());
        add(function.address, &function.root, tree.path_up(function.address), pf_is_missing);
    }
    for guest in &tree.unlisted_guests {
        add(guest.address, &guest.root, guest.above.clone(), false);
    }
    below
}

/// Whether a bridge may be above a function: same host bridge, or same domain if the host bridge is unknown.
fn may_be_above(bridge: &Function, guest: PciAddress, root: &str) -> bool {
    match root.is_empty() || bridge.root.is_empty() {
        true => bridge.address.domain == guest.domain,
        false => bridge.root == root,
    }
}

/// Known use of a function that counts as assigned to a VM.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Assigned to a VM, or may be assigned at any time.
    Guests,
    /// PF of the host, with VFs planned for VMs.
    ToCome,
    /// Its driver could not be read.
    Unread,
}

fn use_of(tree: &PciTree, guest: PciAddress) -> Use {
    let is_the_hosts = |driver: &str| !serves_guests(driver);
    match tree.get(guest) {
        Some(function) if function.vfio => Use::Guests,
        _ if tree.unread_drivers.contains_key(&guest) => Use::Unread,
        Some(function) if function.driver.as_deref().is_some_and(is_the_hosts) => Use::ToCome,
        _ => Use::Guests,
    }
}

/// Describes the fault if `guests` (as named by [`used_by`]) are below a port without the isolating bits.
pub(crate) fn reach_neighbours(missing: AcsBits, guests: &str) -> String {
    format!(
        "{missing} off, while {guests}: the guest can reach neighbours that its IOMMU group reports as isolated (Linux \
         drivers/iommu/iommu.c; handbook §3.3)"
    )
}

/// Describes the use of these functions: `VFIO uses 0000:18:00.0 below it`; before any use, `VFIO will get VFs of …`;
/// with an unreadable driver, the reason why a VM may use it. `place` follows their names.
pub(crate) fn used_by(tree: &PciTree, guests: &[PciAddress], place: &str) -> String {
    let of = |wanted: Use| -> Vec<PciAddress> {
        guests.iter().copied().filter(|guest| use_of(tree, *guest) == wanted).collect()
    };
    let (used, to_come, unread) = (of(Use::Guests), of(Use::ToCome), of(Use::Unread));
    let named = |functions: &[PciAddress]| {
        some_of(functions.iter().map(PciAddress::to_string), 4, "functions") + place
    };
    let mut parts = Vec::new();
    if !used.is_empty() {
        parts.push(format!("{} uses {}", assigned_by(tree, &used), named(&used)));
    } else if !to_come.is_empty() {
        parts.push(format!("{} will get VFs of {}", assigned_by(tree, &to_come), named(&to_come)));
    }
    if let Some(reason) = unread.first().and_then(|guest| tree.unread_drivers.get(guest)) {
        let them = if unread.len() == 1 { "it" } else { "them" };
        parts.push(format!(
            "the driver of {} is unknown ({reason}), so a guest may use {them}",
            named(&unread)
        ));
    }
    parts.join(", and ")
}

/// Whether one of them is certainly assigned to a VM, or has VFs reserved for one.
pub(crate) fn are_certain(tree: &PciTree, guests: &[PciAddress]) -> bool {
    guests.iter().any(|guest| use_of(tree, *guest) != Use::Unread)
}

/// Returns the fix for functions that are, will be, or may be assigned to VMs.
pub(crate) fn set_free(tree: &PciTree, guests: &[PciAddress]) -> &'static str {
    let all = |wanted: Use| guests.iter().all(|guest| use_of(tree, *guest) == wanted);
    if all(Use::ToCome) {
        "give these VFs another driver (vf_driver in [[sriov.devices]])"
    } else if all(Use::Unread) {
        "run bedplate as root, so that it can read all of /sys"
    } else {
        "stop the guest and unbind the function from its driver"
    }
}

/// Names the mechanism that assigns these functions: `VFIO`, `Xen`, or both.
fn assigned_by(tree: &PciTree, guests: &[PciAddress]) -> &'static str {
    let by_xen = |guest: &&PciAddress| {
        let driver = tree.get(**guest).and_then(|function| function.driver.as_deref());
        driver.is_some_and(is_xen_back)
    };
    match guests.iter().filter(by_xen).count() {
        0 => "VFIO",
        all if all == guests.len() => "Xen (pciback)",
        _ => "VFIO and Xen (pciback)",
    }
}

/// Returns the reason why these bits of a port's ACS control must stay set at runtime: functions below it are, or may be,
/// assigned to VMs. `None` if the bits do not isolate, or no such function is below.
pub(crate) fn guests_exposed(facts: &Facts, port: PciAddress, lost: AcsBits) -> Option<String> {
    if lost.and(AcsBits::ISOLATION.or(AcsBits::EC)).is_empty() {
        return None;
    }
    let tree = match facts.pci.optional() {
        Ok(tree) => tree?,
        Err(why) => {
            return Some(format!("cannot tell whether a guest uses functions below it: {why}"));
        }
    };
    let below = guests_below(tree, &[]);
    let guests = below.get(&port)?;
    Some(format!(
        "{}: without {lost} the guest could reach its neighbours without IOMMU checks (Linux drivers/iommu/iommu.c; \
         handbook §3.3)",
        used_by(tree, guests, " below it")
    ))
}

/// Removes the profile's own arguments that would disable redirect above a VM's function at the next boot.
pub(crate) fn refuse_arguments(
    args: &mut Vec<KernelArg>,
    facts: &Facts,
    to_come: &[PciAddress],
) -> Vec<Blocker> {
    let Some(tree) = facts.pci.known() else { return Vec::new() };
    let guests = guests_below(tree, to_come);
    let mut blockers = Vec::new();
    loop {
        let before = args.len();
        // A port's `config_acs` entry overrides another argument's `disable_acs_redir`, as long as it stays.
        let all = CommandLine::from_tokens(args.iter().map(|arg| arg.token.clone()));
        let config = BootArguments::of_line(&all).config_acs;
        args.retain(|arg| match refused(arg, config.as_deref(), &guests, tree) {
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
    arg: &KernelArg,
    config: Option<&str>,
    guests: &BTreeMap<PciAddress, Vec<PciAddress>>,
    tree: &PciTree,
) -> Option<Blocker> {
    let said = BootArguments::parse(arg.token.as_str());
    let (own, redir) = (said.config_acs.as_deref(), said.disable_redir.as_deref());
    let (port, functions) = guests.iter().find(|(port, _)| {
        token::may_open(own, redir, **port) && token::may_open(own.or(config), redir, **port)
    })?;
    let used = used_by(tree, functions, "");
    Some(NAME.blocker(
        format!("argument {}", arg.token),
        format!(
            "clears isolation bits of port {port}, below which {used}: from the next boot the guest's IOMMU group \
             would include its neighbours (Linux drivers/iommu/iommu.c; handbook §3.3, §14.1)"
        ),
        format!(
            "remove the port from the argument (or set `1` for each of SV, RR, CR and UF in config_acs), or {}",
            set_free(tree, functions)
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_base::Reading;
    use bedplate_testhosts::fixture::{at, facts, lab};

    #[test]
    fn isolating_bits_stay_if_guests_cannot_be_read() {
        let port = at("0000:22:00.0");
        let unseen = facts(Reading::unknown("no /sys"));
        let why = guests_exposed(&unseen, port, AcsBits::RR).unwrap();
        assert!(why.contains("below it: no /sys"), "{why}");
        assert_eq!(guests_exposed(&unseen, port, AcsBits::DT), None);
        assert_eq!(guests_exposed(&lab().facts(), port, AcsBits::RR), None);
    }
}
