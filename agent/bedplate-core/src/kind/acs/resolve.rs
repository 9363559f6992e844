//! Resolves `[acs]` of a profile on given facts: ports, bits, and persistence. Pure; no comparison with the current state.

use std::collections::{BTreeMap, BTreeSet};

use crate::desired::{AcsPersistence, AcsPolicy, Desired, WantedAcs};
use crate::kind::cmdline::{iommu_after, iommu_now};
use crate::kind::some_of;
use crate::ledger::Ledger;
use crate::plan::{Device, DeviceRole, Rationale};
use crate::profile::model::Profile;
use bedplate_base::Reading;
use bedplate_base::value::{AcsBits, PciAddress};
use bedplate_facts::Facts;
use bedplate_facts::pci::{Acs, PciTree};
use bedplate_facts::topology::{Peer, Topology};
use bedplate_host::HostKind;

use super::KEPT;
use super::fabric::{Fabric, Target, Targets, fabrics};
use super::guests::{guests_below, refuse_arguments};
use super::isolation::{self, Intent};
use super::merged_groups;
use super::missing_device::carried_over;
use super::persist::{RedirectOnly, persist};
use super::planned_guests::planned_guests;
use super::previous_argument::{above_guests, covers_more, has_argument};
use super::register_reads::{ReadablePorts, readings, report_others};
use super::resolved::ResolvedAcs;
use super::section::{self, AcsPersist};
use super::shape::{ALL_OFF, NO_REDIRECT};
use super::shared_group;
use super::support;
use super::topo_override;

/// Adds the result to the desired state. The kernel argument follows the profile's own arguments, from which those that
/// would remove a VM's isolation are dropped.
pub(super) fn resolve_into(
    profile: &Profile,
    facts: &Facts,
    ledger: &Ledger,
    desired: &mut Desired,
) {
    let to_come = planned_guests(profile, facts);
    desired.blockers.extend(refuse_arguments(&mut desired.cmdline.set, facts, &to_come));
    let section = &profile.acs;
    let beside = PlanContext {
        iommu: Iommu { now: iommu_now(facts), next: iommu_after(facts, &desired.cmdline) },
        to_come: &to_come,
    };
    let resolved = resolve_beside(section, facts, beside);
    let ResolvedAcs { acs, arg, kept_unsure, blockers, unknowns, mut notes, .. } = resolved;
    let tree = facts.pci.known();
    // An unreadable function may be the one that a port was configured for, and a function with an unreadable driver may be
    // unassigned.
    let unread = |tree: &PciTree| !tree.unread().is_empty() || !tree.unread_drivers.is_empty();
    let unsure = !unknowns.is_empty() || tree.is_some_and(unread);
    let (arg, missing) = match unsure {
        true => (arg, None),
        false => carried_over(arg, section, &acs, tree, &to_come, ledger),
    };
    notes.extend(missing);
    if has_argument(ledger) {
        desired.unknowns.extend(kept_unsure);
    }
    let above_guests = above_guests(ledger, facts, &to_come);
    match arg {
        Reading::Known(arg)
            if !above_guests.is_empty() || !unsure || !covers_more(&arg.token, ledger) =>
        {
            desired.cmdline.set.push(arg);
        }
        Reading::Absent | Reading::Unknown(_) if !above_guests.is_empty() => {
            desired.cmdline.absent.extend(above_guests);
        }
        Reading::Absent => {}
        // Some or all ports are unreadable here: an earlier run's argument for them stays on the command line.
        Reading::Known(_) | Reading::Unknown(_) => {
            desired.cmdline.keep.extend(KEPT.map(str::to_owned));
        }
    }
    desired.acs = acs;
    desired.blockers.extend(blockers);
    desired.unknowns.extend(unknowns);
    desired.notes.extend(notes);
    topo_override::resolve(facts, desired);
}

/// Returns the desired bits of the ports, and their persistence, assuming that nothing else changes.
pub fn resolve(profile: &section::Acs, facts: &Facts) -> ResolvedAcs {
    let now = iommu_now(facts);
    resolve_beside(profile, facts, PlanContext { iommu: Iommu { now, next: now }, to_come: &[] })
}

fn resolve_beside(profile: &section::Acs, facts: &Facts, beside: PlanContext<'_>) -> ResolvedAcs {
    let mut resolved = ResolvedAcs::nothing(profile.policy);
    match &facts.pci {
        Reading::Known(tree) => on_tree(profile, facts, beside, tree, &mut resolved),
        Reading::Absent => {}
        Reading::Unknown(_) if profile.policy == AcsPolicy::Keep => {}
        Reading::Unknown(reason) => {
            // An image has no PCI devices; its plan reports that itself, by a deferred change.
            if facts.host != HostKind::Image {
                resolved.unknown("PCI functions", reason.to_string());
            }
            resolved.arg = Reading::unknown(reason.clone());
        }
    }
    resolved
}

/// Whether an IOMMU is in use: now, which decides the registers, and at the next boot, which decides the ACS argument.
#[derive(Clone, Copy)]
struct Iommu {
    now: bool,
    next: bool,
}

/// Context from the rest of the plan.
#[derive(Clone, Copy)]
struct PlanContext<'a> {
    iommu: Iommu,
    /// PFs with VFs reserved for VMs.
    to_come: &'a [PciAddress],
}

fn on_tree(
    profile: &section::Acs,
    facts: &Facts,
    beside: PlanContext<'_>,
    tree: &PciTree,
    resolved: &mut ResolvedAcs,
) {
    let topology = Topology::new(tree);
    merged_groups::report(tree, &topology, &facts.os, resolved);
    let has_iommu =
        if profile.policy == AcsPolicy::Keep { beside.iommu.now } else { beside.iommu.next };
    let guests = guests_below(tree, beside.to_come);
    let mut fabrics = fabrics(profile, has_iommu, &guests, tree, &topology);
    match profile.policy {
        AcsPolicy::DirectP2p => set_aside(&mut fabrics, tree, resolved),
        AcsPolicy::Keep => fabrics.retain(|fabric| fabric.data_direct_obstacle().is_none()),
        AcsPolicy::Clear => {}
    }
    let mut today: Vec<Fabric> =
        fabrics.iter().map(|fabric| fabric.with_iommu(beside.iommu.now)).collect();
    today.retain(|fabric| beside.iommu.now == beside.iommu.next || fabric.ats_unknown().is_empty());
    let root_port = profile.root_port && profile.policy == AcsPolicy::DirectP2p;
    let targets = |fabrics: &[Fabric]| match profile.policy {
        AcsPolicy::Clear => all_ports(tree),
        _ => fabrics.iter().flat_map(|fabric| fabric.targets(root_port)).collect(),
    };
    let (later, others) = readings(tree, &topology, targets(&fabrics));
    report_others(others, tree, resolved);
    // The same ports with other bits; the omitted ports have been reported already.
    let readable = match beside.iommu.now == beside.iommu.next {
        true => later.clone(),
        false => readings(tree, &topology, targets(&today)).0,
    };
    if profile.policy == AcsPolicy::Keep {
        report_redirects(&readable, resolved);
        isolation::groups_without_isolation(tree, &topology, &BTreeMap::new(), resolved);
        return;
    }
    if profile.policy == AcsPolicy::DirectP2p {
        isolation::ats(&fabrics, tree, resolved);
        for fabric in &today {
            isolation::expectations(fabric, tree, root_port, resolved);
            isolation::cannot_pass(fabric, resolved);
        }
        let intent = |target: &Target| match target.bits.on().and(AcsBits::ISOLATION).is_empty() {
            true => Intent::Open,
            false => Intent::Closed,
        };
        let intents = readable.iter().map(|(port, _, target)| (*port, intent(target))).collect();
        isolation::groups_without_isolation(tree, &topology, &intents, resolved);
        remark_on_topology(&topology, &fabrics, tree, resolved);
    }
    if later != readable {
        resolved.note("IOMMU", changes_shape(beside.iommu.next));
    }
    let shares_groups = shared_group::is_made_by(profile.policy, root_port, &fabrics, tree);
    let ports = PolicyPorts { today: &readable, later: &later, guests: &guests, shares_groups };
    plan_persistence(profile, facts, beside, tree, ports, resolved);
}

fn changes_shape(next: bool) -> &'static str {
    match next {
        true => {
            "on from the next boot: switches with guests below and ATS in their NICs are then set for guests, and the \
             ACS kernel argument has those bits; until then registers get the bits for a host without an IOMMU \
             (handbook §14.1)"
        }
        false => {
            "off from the next boot: no switch is then set for guests, whatever ATS its NICs have, and the ACS kernel \
             argument has those bits; until then registers get the bits for a host with an IOMMU (handbook §14.1)"
        }
    }
}

/// Ports of the policy, and what decides how their bits persist.
struct PolicyPorts<'a> {
    /// Ports with the bits for the current state of the IOMMU.
    today: &'a ReadablePorts,
    /// The same ports with the bits for its state from the next boot on.
    later: &'a ReadablePorts,
    /// Functions of VMs, by the bridges above them.
    guests: &'a BTreeMap<PciAddress, Vec<PciAddress>>,
    /// Whether the bits put GPUs into IOMMU groups with bridges ([`shared_group::is_made_by`]).
    shares_groups: bool,
}

/// Chooses the persistence, and the ports to write now.
fn plan_persistence(
    profile: &section::Acs,
    facts: &Facts,
    beside: PlanContext<'_>,
    tree: &PciTree,
    PolicyPorts { today, later, guests, shares_groups }: PolicyPorts<'_>,
    resolved: &mut ResolvedAcs,
) {
    let redirect_only =
        RedirectOnly::from_targets(profile.policy, later.iter().map(|(.., target)| target));
    let ports = |persistence| wanted_ports(profile, persistence, later, guests);
    let live = ports(AcsPersistence::Live);
    if profile.persistence == AcsPersist::Auto
        && resolved.unknowns.is_empty()
        && support::left_to_firmware(facts)
        && !beside.iommu.next
        && live.iter().all(|wanted| is_set(wanted, tree))
    {
        resolved.acs.ports = live;
        // An earlier run's argument may be the cause of this state.
        resolved.arg = Reading::unknown("without an IOMMU the ports stay unchanged");
        return;
    }
    let unread = tree.unread();
    if !resolved.unknowns.is_empty() || !unread.is_empty() || !live.is_empty() {
        persist(profile, &facts.os, redirect_only, shares_groups, &ports, resolved);
    }
    if later != today && !resolved.acs.ports.is_empty() {
        let refused = resolved.acs.ports.drain(..).filter(WantedAcs::exposes_guests);
        let refused: Vec<WantedAcs> = refused.collect();
        let now = wanted_ports(profile, resolved.acs.persistence, today, guests);
        let is_refused = |port: &WantedAcs| refused.iter().any(|other| other.port == port.port);
        resolved.acs.ports = now.into_iter().filter(|port| !is_refused(port)).collect();
        resolved.acs.ports.extend(refused);
        resolved.acs.ports.sort_by_key(|wanted| wanted.port);
    }
    // Nothing can be computed here, so an earlier run's argument stays. Unknown PCIe trees do not prevent an argument for
    // the known ones (except as in `previous_argument`).
    let unknown = resolved.unknowns.first().map(|one| format!("{}: {}", one.subject, one.reason));
    let unknown = unknown.or_else(|| unread.first().map(|gap| gap.reason.to_string()));
    if let (Some(unknown), Reading::Absent, true) =
        (unknown, &resolved.arg, resolved.acs.persistence != AcsPersistence::Live)
    {
        resolved.arg = Reading::unknown(unknown);
    }
}

fn is_set(wanted: &WantedAcs, tree: &PciTree) -> bool {
    let acs = tree.get(wanted.port).and_then(|port| port.acs.known());
    acs.is_some_and(|acs| wanted.bits.are_in(acs.control.0))
}

/// Reports PCIe trees with unknown requirements and removes them: nothing is planned for their ports.
fn set_aside(fabrics: &mut Vec<Fabric>, tree: &PciTree, resolved: &mut ResolvedAcs) {
    fabrics.retain(|fabric| {
        if let Some(reason) = fabric.data_direct_obstacle() {
            let path = fabric.pairs.iter().find(|pair| pair.kind == Peer::DataDirect);
            let subject = path.map_or("Data Direct".to_owned(), |pair| fabric.named(pair));
            resolved.unknown(subject, reason);
            return false;
        }
        if let Some((port, reason)) = fabric.dt_unknown() {
            let why =
                "cannot tell whether it has DT, and thus whether its switch is set for guests";
            let port = Device::new(DeviceRole::Port, port);
            resolved.unknown(port, format!("{why}: {reason}"));
            return false;
        }
        let unread = fabric.ats_unknown();
        // If the ports are unreadable too, only that is reported.
        let is_read = |port: &PciAddress| {
            tree.get(*port).is_some_and(|port| !matches!(port.acs, Reading::Unknown(_)))
        };
        match unread.first() {
            Some((_, reason)) if fabric.targets(false).keys().all(is_read) => {
                let named = some_of(unread.iter().map(|(nic, _)| nic.to_string()), 4, "NICs");
                resolved.unknown(format!("ATS of NIC {named}"), (*reason).to_owned());
                false
            }
            _ => true,
        }
    });
}

fn all_ports(tree: &PciTree) -> Targets {
    let bridges = tree.functions.values().filter(|function| function.is_bridge());
    let why = || vec![Rationale::because("policy `clear` clears ACS on every port")];
    bridges.map(|f| (f.address, Target { bits: ALL_OFF, why: why() })).collect()
}

fn wanted_ports(
    profile: &section::Acs,
    persistence: AcsPersistence,
    readable: &ReadablePorts,
    guests: &BTreeMap<PciAddress, Vec<PciAddress>>,
) -> Vec<WantedAcs> {
    let wanted = |(port, acs, target): &(PciAddress, Acs, Target)| {
        // `disable_acs_redir` leaves SV and UF to the kernel, which sets them at boot; requesting them clear would never
        // converge.
        let bits = match persistence {
            AcsPersistence::DisableAcsRedir if target.bits.on().is_empty() => NO_REDIRECT,
            // The missing DT is reported elsewhere; an argument with DT would never converge.
            _ => target.bits.limited_to(!AcsBits::DT.0 | acs.capable.0),
        };
        // An unimplemented bit cannot be written, and reads 0 as required.
        (bits.mask & acs.capable.0 != 0).then(|| WantedAcs {
            port: *port,
            bits,
            why: target.why.iter().chain(&profile.why).cloned().collect(),
            vfio_below: guests.get(port).cloned().unwrap_or_default(),
        })
    };
    readable.iter().filter_map(wanted).collect()
}

/// Reports redirect left on, in one note per combination of bits: a machine has dozens of ports.
fn report_redirects(readable: &ReadablePorts, resolved: &mut ResolvedAcs) {
    let mut alike: BTreeMap<String, Vec<(&PciAddress, &Target)>> = BTreeMap::new();
    for (port, acs, target) in readable {
        let unwanted = target.bits.off().and(AcsBits::REDIRECT);
        let redirect = acs.control.and(unwanted);
        if !redirect.is_empty() {
            alike.entry(redirect.to_string()).or_default().push((port, target));
        }
    }
    for (redirect, ports) in alike {
        let reason = match ports.as_slice() {
            [(_, target)] => {
                let reason = target.why.first().map_or("", |why| why.reason.as_str());
                format!("it is {reason}")
            }
            _ => "they are on the path between GPUs and their peers, whose traffic detours through the root complex"
                .to_owned(),
        };
        let named = some_of(ports.iter().map(|(port, _)| port.to_string()), 4, "ports");
        let text = format!("{redirect} is on, left by policy keep; {reason}");
        resolved.note(format!("port {named}"), text);
    }
}

/// Notes GPUs without a NIC on their switch, GPUs below hidden bridges, and unpaired Data Direct functions.
fn remark_on_topology(
    topology: &Topology,
    fabrics: &[Fabric],
    tree: &PciTree,
    resolved: &mut ResolvedAcs,
) {
    let pairs = topology.pairs();
    let to_a_nic = pairs.iter().filter(|p| matches!(p.kind, Peer::Nic | Peer::DataDirect));
    let with_nic: BTreeSet<PciAddress> = to_a_nic.map(|pair| pair.gpu).collect();
    let gpus = topology.gpus();
    let hidden =
        |gpu: &PciAddress| tree.path_up(*gpu).iter().any(|bridge| tree.get(*bridge).is_none());
    let (cut_off, alone): (Vec<_>, Vec<_>) =
        gpus.iter().filter(|gpu| !with_nic.contains(gpu)).partition(|gpu| hidden(gpu));
    let named = |gpus: Vec<&PciAddress>| {
        format!("GPU {}", some_of(gpus.iter().map(|gpu| gpu.to_string()), 8, "GPUs"))
    };
    if !alone.is_empty() {
        let text = "no PCIe switch shared with a NIC: their traffic passes the root complex, whatever the ACS bits \
                    (Linux drivers/pci/p2pdma.c; handbook §3.2)";
        resolved.note(named(alone), text);
    }
    if !cut_off.is_empty() {
        let reason = "a bridge above it is not visible (a container with a filtered /sys?), so its switch is unknown";
        resolved.unknown(named(cut_off), reason.to_owned());
    }
    let data_direct = fabrics.iter().flat_map(|fabric| &fabric.pairs);
    let unpaired = data_direct
        .filter(|pair| pair.kind == Peer::DataDirect && topology.nics_of(pair.peer).is_empty());
    let unpaired: Vec<String> = unpaired.map(|pair| pair.peer.to_string()).collect();
    if !unpaired.is_empty() {
        let text = "cannot tell which NIC this Data Direct function belongs to: Vital Product Data is unreadable or \
                    shares no serial number; the ACS bits do not depend on it (handbook §14.1)";
        resolved.note(some_of(unpaired.into_iter(), 8, "functions"), text);
    }
}
