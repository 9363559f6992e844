//! IOMMU groups compared with registers: reported isolation that no longer exists, and pairs with groups or ATS that do not
//! match their topology class. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::desired::AcsPolicy;
use crate::kind::some_of;
use crate::plan::{Blocker, Device, DeviceRole};
use bedplate_base::Reading;
use bedplate_base::value::{AcsBits, PciAddress};
use bedplate_facts::pci::{Acs, Function, PciTree};
use bedplate_facts::topology::{Pair, Peer, Role, Topology};

use super::NAME;
use super::fabric::Fabric;
use super::guests::{guests_below, reach_neighbours, used_by};
use super::resolved::{Ats, ResolvedAcs};
use super::shape::{Groups, Shape};

/// Desired state of a port with regard to isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intent {
    /// Redirect disabled.
    Open,
    /// Isolating.
    Closed,
}

/// Reports ports below which IOMMU groups show an isolation that the registers do not give (any more). Skips ports where
/// redirect should be disabled; a port that will isolate gets only a note, because the plan fixes it. Linux builds a group
/// once, when a device appears, from the registers at that time (drivers/iommu/iommu.c pci_device_group; handbook §3.3).
pub(crate) fn groups_without_isolation(
    tree: &PciTree,
    topology: &Topology,
    intents: &BTreeMap<PciAddress, Intent>,
    resolved: &mut ResolvedAcs,
) {
    let guests = guests_below(tree, &[]);
    let mut without_guests: BTreeMap<u16, (BTreeSet<PciAddress>, BTreeSet<PciAddress>)> =
        BTreeMap::new();
    for (port, missing) in tree.functions.values().filter_map(|port| open(port, topology)) {
        let exposed = exposed_below(tree, topology, port);
        if exposed.is_empty() || intents.get(&port) == Some(&Intent::Open) {
            continue;
        }
        let guests = guests.get(&port).into_iter().flatten();
        let guests: Vec<PciAddress> =
            guests.filter(|guest| exposed.contains(guest)).copied().collect();
        if guests.is_empty() {
            let (ports, functions) = without_guests.entry(missing.0).or_default();
            ports.insert(port);
            functions.extend(exposed);
        } else if intents.contains_key(&port) {
            let text = reach_neighbours(missing, &used_by(tree, &guests, " below it"));
            resolved.note(format!("port {port}"), text);
        } else {
            resolved.blockers.push(exposes_guests(tree, port, missing, &guests));
        }
    }
    for (missing, (ports, functions)) in without_guests {
        let text = format!(
            "{} off, while {} below it {} a separate IOMMU group: the reported isolation no longer exists; assign none \
             of these functions to a guest until the register is restored (Linux drivers/iommu/iommu.c; handbook §3.3)",
            AcsBits(missing),
            named(&functions, "functions"),
            if functions.len() == 1 { "has" } else { "have" }
        );
        let subject = format!("port {}", named(&ports, "ports"));
        resolved.notes.push(NAME.note(subject, text));
    }
}

/// Returns the ports that expose VMs, as blockers of a plan.
pub(crate) fn isolation_gone(topology: &Topology) -> Vec<Blocker> {
    let mut resolved = ResolvedAcs::nothing(AcsPolicy::Keep);
    groups_without_isolation(topology.tree(), topology, &BTreeMap::new(), &mut resolved);
    resolved.blockers
}

fn named(functions: &BTreeSet<PciAddress>, what: &str) -> String {
    some_of(functions.iter().map(PciAddress::to_string), 4, what)
}

fn exposes_guests(
    tree: &PciTree,
    port: PciAddress,
    missing: AcsBits,
    guests: &[PciAddress],
) -> Blocker {
    NAME.blocker(
        Device::new(DeviceRole::Port, port),
        reach_neighbours(missing, &used_by(tree, guests, " below it")),
        "stop the guest, find the writer of the register (a setpci loop?), then reboot or reset the port, so that \
         Linux enables ACS again",
    )
}

/// Returns a port that could isolate and does not, and the bits it lacks.
fn open(port: &Function, topology: &Topology) -> Option<(PciAddress, AcsBits)> {
    if !matches!(topology.role(port.address), Role::RootPort | Role::Downstream) {
        return None;
    }
    let acs: &Acs = port.acs.known()?;
    let missing = AcsBits::ISOLATION.and(acs.capable).without(acs.control);
    (!missing.is_empty()).then_some((port.address, missing))
}

/// Returns functions below a port in another group than the bridge above them. With redirect disabled on this port at boot,
/// Linux would have put them into the bridge's group.
fn exposed_below(tree: &PciTree, topology: &Topology, port: PciAddress) -> Vec<PciAddress> {
    let mut below = topology.below(port);
    below.retain(|address| {
        let function = tree.get(*address);
        let above = function.and_then(|f| tree.get(f.parent?));
        match (function.map(|f| &f.iommu_group), above.map(|f| &f.iommu_group)) {
            (Some(Reading::Known(own)), Some(Reading::Known(above))) => own != above,
            _ => false,
        }
    });
    below
}

/// Notes groups that do not match although the registers are right.
pub(crate) fn expectations(
    fabric: &Fabric,
    tree: &PciTree,
    root_port: bool,
    resolved: &mut ResolvedAcs,
) {
    let row = fabric.row();
    let is_right = |(port, target): (&PciAddress, &super::fabric::Target)| match tree
        .get(*port)
        .map(|f| &f.acs)
    {
        Some(Reading::Known(acs)) => target.bits.limited_to(acs.capable.0).are_in(acs.control.0),
        Some(Reading::Absent) => true,
        // An unreadable port is not known to have redirect disabled.
        Some(Reading::Unknown(_)) | None => false,
    };
    let targets = fabric.targets(root_port);
    if !targets.iter().all(is_right) {
        return;
    }
    // Below an isolating root port, Linux gives each port with redirect disabled its own group (drivers/iommu/iommu.c
    // pci_device_group). To share one, redirect must be disabled on the root port too.
    let can_fit = |pair: &&Pair| {
        row.groups == Groups::Apart
            || pair.root_port.is_some_and(|root| targets.contains_key(&root))
    };
    let group = |address| tree.get(address).and_then(|f| f.iommu_group.known().copied());
    let wrong: Vec<&Pair> = fabric
        .pairs_of(row)
        .filter(|pair| match (group(pair.gpu), group(pair.peer)) {
            (Some(gpu), Some(peer)) => (gpu == peer) != (row.groups == Groups::Together),
            _ => false,
        })
        .filter(|pair| pair.kind != Peer::Gpu || row.groups == Groups::Together)
        .filter(can_fit)
        .collect();
    if wrong.is_empty() {
        return;
    }
    let named = some_of(wrong.iter().map(|pair| fabric.named(pair)), 2, "pairs");
    let text = match row.shape {
        Shape::DataDirect => {
            "in different IOMMU groups, so the NVIDIA driver refuses DMA-BUF between them (except drivers 570 to 590 \
             with NVreg_GrdmaPciTopoCheckOverride=1). Groups are built at boot from the ACS bits: reboot with the bits \
             on the kernel command line (handbook §6.3, §14.1)"
        }
        // Its pairs share no switch.
        Shape::RootPortEach => return,
        Shape::SwitchForGuests => {
            "in one IOMMU group although the ports between them isolate: groups are built at boot; before the next \
             one, a guest gets both or neither (handbook §14.1)"
        }
        Shape::Switch => {
            "in different IOMMU groups although redirect is disabled between them: the groups date from the last boot \
             and overstate isolation; assign none of these functions to a guest (Linux drivers/iommu/iommu.c; handbook \
             §3.3)"
        }
    };
    resolved.notes.push(NAME.note(named, text.to_owned()));
}

/// Reports NICs with an ATS state that does not fit their topology class, and NICs that decided the class by their ATS.
pub(crate) fn ats(fabrics: &[Fabric], tree: &PciTree, resolved: &mut ResolvedAcs) {
    let mut found = Ats::default();
    let (mut decisive, mut unsure) = (Vec::new(), Vec::new());
    for fabric in fabrics.iter().filter(|fabric| fabric.wants(Peer::Nic)) {
        for nic in fabric.nics() {
            match (fabric.row().ats, fabric.ats(nic)) {
                (Some(true), Reading::Absent) => found.lacking.push(nic),
                // If the port above is unreadable too, only that is reported.
                (Some(true), Reading::Unknown(reason)) if above_is_read(tree, nic) => {
                    found.unread.push((nic, reason));
                }
                (Some(false), Reading::Known(_))
                    if fabric.depends_on_ats() && fabric.is_mixed() =>
                {
                    found.mixed.push(nic);
                }
                (Some(false), Reading::Known(_)) if !fabric.serves_guests() => {
                    found.needless.push(nic);
                }
                (Some(true), Reading::Known(_)) => {
                    found.wanted.push(nic);
                    if fabric.depends_on_ats() {
                        decisive.push(nic);
                    }
                }
                (Some(false), Reading::Absent) => found.without.push(nic),
                // Not decisive here. Reported only for ConnectX: ATS of other NICs on root ports is not read
                // (facts/scan/adapters.rs).
                (Some(false), Reading::Unknown(reason)) if is_connectx(tree, nic) => {
                    unsure.push((nic, reason));
                }
                _ => {}
            }
        }
    }
    // Every GPU on a root port yields the same NICs.
    found.needless.sort_unstable();
    found.needless.dedup();
    found.without.sort_unstable();
    found.without.dedup();
    report_ats(&found, &decisive, tree, resolved);
    found.unread.extend(unsure);
    resolved.ats = found;
}

fn is_connectx(tree: &PciTree, nic: PciAddress) -> bool {
    tree.get(nic).is_some_and(|function| function.vendor.0 == 0x15b3)
}

fn above_is_read(tree: &PciTree, nic: PciAddress) -> bool {
    let port = tree.path_up(nic).first().and_then(|port| tree.get(*port));
    port.is_some_and(|port| !matches!(port.acs, Reading::Unknown(_)))
}

fn report_ats(found: &Ats, decisive: &[PciAddress], tree: &PciTree, resolved: &mut ResolvedAcs) {
    let Ats { lacking, unread, mixed, needless, .. } = found;
    if let Some((_, reason)) = unread.first() {
        let named = some_of(unread.iter().map(|(nic, _)| nic.to_string()), 4, "NICs");
        resolved.unknown(format!("ATS of NIC {named}"), reason.to_string());
    }
    let subject = |nics: &[PciAddress]| {
        format!("NIC {}", some_of(nics.iter().map(PciAddress::to_string), 4, "functions"))
    };
    // The tool supports only ConnectX and BlueField.
    let mlxconfig = |nics: &[PciAddress], value| {
        let nvidia = |nic: &&PciAddress| is_connectx(tree, **nic);
        nics.iter().find(nvidia).map(|nic| format!("`mlxconfig -d {nic} set ATS_ENABLED={value}`"))
    };
    if !lacking.is_empty() {
        let how = match mlxconfig(lacking, 1) {
            Some(command) => format!("enable it in the firmware ({command}, then a cold reboot)"),
            None => "enable ATS in the NIC's firmware, then reboot cold".to_owned(),
        };
        resolved.blockers.push(NAME.blocker(
            subject(lacking),
            "no ATS: a switch for guests passes only translated requests directly, and this NIC cannot translate \
             (rdma-core kernel-boot/rdma_topo; handbook §14.1)",
            format!("{how}, or set acs.guests = false if no guest uses it"),
        ));
    }
    let mut note = |nics: &[PciAddress], text: String| {
        resolved.notes.push(NAME.note(subject(nics), text));
    };
    if !needless.is_empty() {
        let how = mlxconfig(needless, 0).unwrap_or("disable ATS in the NIC's firmware".to_owned());
        let text = format!(
            "ATS is enabled in its firmware; NVIDIA requires it off on bare metal ({how}; handbook §14.1)"
        );
        note(needless, text);
    }
    if !mixed.is_empty() {
        let text = "ATS is enabled in its firmware, but not in other NICs of the switch, so the switch is set for bare \
                    metal. For guests, enable ATS in all of them and set acs.guests = true (handbook §14.1)";
        note(mixed, text.to_owned());
    }
    if !decisive.is_empty() {
        let text = "ATS is enabled in its firmware and a guest uses a function below its switch, so the switch is set \
                    for guests: isolation stays on, translated requests pass directly. Is the NIC the host's own? Set \
                    acs.guests = false (handbook §14.1)";
        note(decisive, text.to_owned());
    }
}

/// Reports ports of a tree for VMs that cannot pass translated requests.
pub(crate) fn cannot_pass(fabric: &Fabric, resolved: &mut ResolvedAcs) {
    if fabric.row().shape != Shape::SwitchForGuests {
        return;
    }
    let ports: BTreeSet<PciAddress> = fabric
        .pairs
        .iter()
        .filter(|pair| pair.kind == Peer::Nic)
        .filter_map(|pair| fabric.cannot_pass(pair))
        .collect();
    if !ports.is_empty() {
        let named = some_of(ports.iter().map(PciAddress::to_string), 4, "ports");
        resolved.blockers.push(NAME.blocker(
            format!("port {named}"),
            "no DT: translated requests cannot pass, so a guest's NIC reaches no GPU directly (handbook §14.1)",
            "set acs.guests = false, or policy = \"keep\" if isolation matters more",
        ));
    }
}
