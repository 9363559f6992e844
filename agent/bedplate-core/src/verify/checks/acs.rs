//! PCIe ACS: whether P2P traffic below a shared switch stays in the switch, and whether guests stay isolated. The resource
//! type (`kind::acs`) decides the bits of a port: the checks require what `apply` would set.

use std::collections::BTreeSet;

use super::super::unread::{OrUnread as _, fix};
use super::super::{AcsFinding, Check, CheckInput, Evidence, Group, Judgement, Outcome, Severity};
use crate::desired::WantedAcs;
use crate::kind::acs::isolation_gone;
use crate::plan::Unknown;
use bedplate_base::value::{AcsBits, PciAddress};
use bedplate_base::{Reading, counted};
use bedplate_facts::pci::{Acs, PciTree};
use bedplate_facts::topology::{Pair, Peer, Role, Topology};

pub(crate) const PATH: Check = Check {
    id: "acs.path",
    group: Group::Acs,
    verifies: "P2P traffic below a shared switch stays in the switch",
    severity: Severity::Fail,
    needs_root: true,
    what: "No port between a GPU and a NIC or another GPU below a shared switch redirects requests that should pass directly \
           (RR, CR, EC): neither the downstream ports of both path segments nor the upstream port where they meet. Bits that \
           a Data Direct function or guests need are exempt.",
    why: "With a redirect bit on, every transfer goes up to the root complex and, with an IOMMU, through its translation: a \
          fraction of the bandwidth, and on many machines none. `iommu=pt` does not change this.",
    source: "handbook §3.2, §14.1; Linux drivers/pci/p2pdma.c; rdma-core kernel-boot/rdma_topo",
    how: "ACS control register of each bridge, in its config space (root only)",
    judge: path,
};

pub(crate) const SHAPE: Check = Check {
    id: "acs.shape",
    group: Group::Acs,
    verifies: "the other ACS bits match the PCIe topology, including those that must be on",
    severity: Severity::Fail,
    needs_root: true,
    what: "Every ACS bit that the topology class specifies is as specified, except the redirect bits, which `acs.path` \
           checks. Translated requests may pass directly (DT) where guests get the devices, isolation stays on where \
           required, and the root port matches the ports below. Root ports of Grace and Vera outside such topologies have \
           the bits that Linux sets. Only a missing DT fails.",
    why: "Without DT, requests that a NIC has translated for a guest go through the root complex. The other bits decide the \
          IOMMU groups after the next boot.",
    source: "handbook §14.1; rdma-core kernel-boot/rdma_topo",
    how: "ACS capability and control register of each bridge, in its config space (root only)",
    judge: shape,
};

pub(crate) const ISOLATION: Check = Check {
    id: "acs.isolation",
    group: Group::Acs,
    verifies: "guests are as isolated as their IOMMU groups report",
    severity: Severity::Fail,
    needs_root: true,
    what: "No port above a function assigned to a VM (VFIO) has lost an isolating ACS bit since the IOMMU groups were built.",
    why: "Groups are built once, when a device appears. Disabling redirect on a port later does not change them: a guest can \
          then reach neighbours outside its group.",
    source: "handbook §3.3; Linux drivers/iommu/iommu.c pci_device_group",
    how: "ACS control register of each bridge; iommu_group of each function and of the bridge above it",
    judge: isolation,
};

/// A port, its register, and whether it is a root port.
type Port<'a> = (&'a WantedAcs, &'a Acs, bool);

/// Returns the ports with required bits and a readable register.
fn ports<'a>(input: &'a CheckInput<'_>, topology: &'a Topology<'_>) -> Vec<Port<'a>> {
    let found = |wanted: &'a WantedAcs| {
        let acs = topology.tree().get(wanted.port)?.acs.known()?;
        Some((wanted, acs, topology.role(wanted.port) == Role::RootPort))
    };
    input.acs.acs.ports.iter().filter_map(found).collect()
}

/// Returns the bits that redirect traffic that should pass directly.
fn redirects((wanted, acs, is_root): &Port<'_>) -> AcsBits {
    match is_root {
        // Traffic that stays in a switch below never reaches the root port.
        true => AcsBits(0),
        false => wanted.redirects(acs.control),
    }
}

fn seen((wanted, acs, _): &Port<'_>, what: String) -> Evidence {
    port_evidence(wanted.port, acs, &what)
}

pub(super) fn port_evidence(port: PciAddress, acs: &Acs, what: &str) -> Evidence {
    let at = format!("config {:#05x}", acs.control_offset());
    Evidence { value: format!("port {port}: {what}"), source: at }
}

/// Counts the pairs for which the ACS state of every port in between is known.
fn judged(pairs: &[Pair], tree: &PciTree) -> usize {
    let is_known = |at: &PciAddress| {
        tree.get(*at).is_some_and(|port| !matches!(port.acs, Reading::Unknown(_)))
    };
    pairs.iter().filter(|pair| is_known(&pair.switch) && pair.legs.iter().all(is_known)).count()
}

pub(super) fn unknown(unknown: &Unknown, tree: &PciTree) -> Outcome {
    let text = format!("{}: {}", unknown.subject, unknown.reason);
    let fix = tree.functions.values().find_map(|function| match &function.acs {
        Reading::Unknown(why) if function.is_bridge() => fix(why.cause),
        _ => None,
    });
    Outcome { fix: fix.map(str::to_owned), ..Outcome::unknown(text) }
}

fn addresses(ports: &[&Port<'_>]) -> Vec<PciAddress> {
    ports.iter().map(|(wanted, ..)| wanted.port).collect()
}

fn path(input: &CheckInput<'_>) -> Judgement {
    let topology = input.topology()?;
    let pairs = input.pairs(|peer| peer != Peer::Nvme)?;
    let ports = ports(input, topology);
    let redirecting: Vec<&Port<'_>> =
        ports.iter().filter(|port| !redirects(port).is_empty()).collect();
    let (for_guests, open): (Vec<_>, Vec<_>) =
        redirecting.iter().partition(|(wanted, ..)| !wanted.vfio_below.is_empty());
    let on_path = |pair: &&Pair, ports: &[&Port<'_>]| {
        let ports: BTreeSet<PciAddress> = ports.iter().map(|(wanted, ..)| wanted.port).collect();
        ports.contains(&pair.switch) || pair.legs.iter().any(|leg| ports.contains(leg))
    };
    let shown = |ports: &[&Port<'_>]| -> Vec<Evidence> {
        ports.iter().map(|port| seen(port, format!("{} on", redirects(port)))).collect()
    };
    let detoured = pairs.iter().filter(|pair| on_path(pair, &open)).count();
    let known = judged(&pairs, topology.tree());
    let so_far = format!("ACS is known for {known} of {} pairs", pairs.len());
    if detoured > 0 {
        let partly = input.gap_above().filter(|_| known == pairs.len());
        let partly = partly.map(|gap| format!("{}: pairs below are not counted", gap.finding));
        let partly = partly.or_else(|| (known < pairs.len()).then(|| so_far.clone()));
        let partly =
            partly.map(|what| Evidence { value: what, source: "/sys/bus/pci/devices".to_owned() });
        return Ok(Outcome::fail([AcsFinding::Redirected {
            detoured,
            pairs: pairs.len(),
            ports: addresses(&open),
        }])
        .all_evidence(partly)
        .all_evidence(shown(&open)));
    }
    if let Some(first) = input.acs.unknowns.first() {
        return Ok(unknown(first, topology.tree()).evidence(so_far, "ACS control registers"));
    }
    if let Some(gap) = input.gap_above() {
        return Ok(gap.evidence(so_far, "ACS control registers"));
    }
    if pairs.is_empty() {
        return Ok(Outcome::not_applicable(
            "no GPU shares a switch with a NIC or another GPU, so ACS has no effect on P2P; with DMA translation on, \
             all_reduce has hung on such hosts until ACS was off (NVIDIA/nccl issue 2079)",
        ));
    }
    let detoured = pairs.iter().filter(|pair| on_path(pair, &for_guests)).count();
    if detoured > 0 {
        return Ok(Outcome::warn([AcsFinding::RedirectedForGuests {
            detoured,
            pairs: pairs.len(),
            ports: addresses(&for_guests),
        }])
        .all_evidence(shown(&for_guests)));
    }
    Ok(Outcome::pass(passed_text(pairs.len(), &ports)).all_evidence(
        ports.iter().map(|port| seen(port, format!("control {:#06x}", port.1.control.0))),
    ))
}

fn passed_text(pairs: usize, ports: &[Port<'_>]) -> String {
    let is_on =
        |(_, acs, is_root): &&Port<'_>| !is_root && !acs.control.and(AcsBits::REDIRECT).is_empty();
    let pairs = counted(pairs, "GPU–NIC/GPU–GPU pair");
    match ports.iter().filter(is_on).count() {
        0 => format!("{pairs}, no redirect in between"),
        on => format!(
            "{pairs} pass directly; redirect stays on at {}, as guests or a Data Direct function need",
            counted(on, "port")
        ),
    }
}

/// Root ports of Grace and Vera (rdma-core kernel-boot/rdma_topo; pci.ids).
const SUPERCHIP_PORTS: [u16; 5] = [0x22b1, 0x22b2, 0x22b8, 0x2f95, 0x2f96];
/// Bits that Linux sets, if the port has them (drivers/pci/pci.c, pci_std_enable_acs): Vera's ports have no CR.
const LINUX_SETS: AcsBits = AcsBits(0x1d);

/// Checks GPUs and NICs at root ports of NVIDIA's Arm CPUs. Their traffic must pass the IOMMU, so bits that Linux sets
/// must be on.
fn not_as_linux_sets(input: &CheckInput<'_>, topology: &Topology<'_>) -> Option<Outcome> {
    let tree = topology.tree();
    let ends = [&input.gpus[..], &input.rdma_nics].concat();
    let roots: BTreeSet<PciAddress> =
        ends.iter().filter_map(|end| tree.path_up(end.address).last().copied()).collect();
    let off = |at: PciAddress| {
        let port = tree.get(at)?;
        let acs = port.acs.known()?;
        let is_superchips = port.vendor.0 == 0x10de && SUPERCHIP_PORTS.contains(&port.device.0);
        let off = LINUX_SETS.and(acs.capable).without(acs.control);
        (is_superchips && !off.is_empty()).then_some((at, acs, off))
    };
    let off: Vec<(PciAddress, &Acs, AcsBits)> = roots.into_iter().filter_map(off).collect();
    if off.is_empty() {
        return None;
    }
    let ports = off.iter().map(|(at, ..)| *at).collect();
    let seen = off.iter().map(|(at, acs, off)| port_evidence(*at, acs, &format!("{off} off")));
    Some(Outcome::warn([AcsFinding::LinuxBitsOff { ports }]).all_evidence(seen))
}

fn shape(input: &CheckInput<'_>) -> Judgement {
    let topology = input.topology()?;
    let ports = ports(input, topology);
    let off = |port: &Port<'_>| {
        let (wanted, acs, _) = port;
        wanted.bits.limited_to(acs.capable.0).on().without(acs.control)
    };
    let on = |port: &Port<'_>| {
        let (wanted, acs, _) = port;
        acs.control.and(wanted.bits.off()).without(redirects(port))
    };
    let without_dt: Vec<&Port<'_>> =
        ports.iter().filter(|port| !off(port).and(AcsBits::DT).is_empty()).collect();
    if !without_dt.is_empty() {
        return Ok(Outcome::fail([AcsFinding::DtOff { ports: addresses(&without_dt) }])
            .all_evidence(without_dt.iter().map(|port| seen(port, format!("{} off", off(port))))));
    }
    // Above functions assigned to VMs, isolating bits stay on, whatever the topology class requires.
    let wrong = ports.iter().filter(|port| port.0.vfio_below.is_empty());
    let wrong: Vec<&Port<'_>> =
        wrong.filter(|port| !off(port).is_empty() || !on(port).is_empty()).collect();
    if !wrong.is_empty() {
        let words = |port: &&Port<'_>| {
            let words = [(off(port), "off, should be on"), (on(port), "on, should be off")];
            let words = words.iter().filter(|(bits, _)| !bits.is_empty());
            let words: Vec<String> = words.map(|(bits, what)| format!("{bits} {what}")).collect();
            seen(port, words.join(", "))
        };
        return Ok(Outcome::warn([AcsFinding::AcsBitsDiffer { ports: addresses(&wrong) }])
            .all_evidence(wrong.iter().map(words)));
    }
    Ok(match (input.acs.unknowns.first(), ports.len()) {
        (Some(first), _) => unknown(first, topology.tree()),
        (None, 0) => not_as_linux_sets(input, topology).unwrap_or_else(|| {
            Outcome::not_applicable("no PCIe topology here needs other ACS bits than Linux sets")
        }),
        (None, count) => Outcome::pass(format!(
            "{}, all with the ACS bits that their PCIe topology requires",
            counted(count, "port")
        )),
    })
}

fn isolation(input: &CheckInput<'_>) -> Judgement {
    let topology = input.topology()?;
    let guests = &input.guests;
    if guests.is_empty() {
        return Ok(Outcome::not_applicable("no function assigned to a VM (VFIO)"));
    }
    if let Some(blocker) = isolation_gone(topology).first() {
        return Ok(Outcome::fail([AcsFinding::GuestExposed {
            port: blocker.subject.clone(),
            reason: blocker.reason.clone(),
            fix: blocker.fix.clone(),
        }])
        .evidence(&blocker.subject.text, "ACS control register"));
    }
    let tree = topology.tree();
    let above: BTreeSet<PciAddress> =
        guests.iter().flat_map(|guest| tree.path_up(*guest)).collect();
    for bridge in above {
        let acs = tree.get(bridge).map(|function| &function.acs);
        acs.or_unread(format_args!("ACS of port {bridge}"))?;
    }
    let functions = counted(guests.len(), "function");
    Ok(Outcome::pass(format!("the ports above {functions} assigned to VMs isolate")))
}
