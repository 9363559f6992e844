//! PCIe registers: payloads, read requests, ordering, and error counters.

use std::collections::BTreeMap;

use super::super::unread::{some, unread};
use super::super::{
    Check, CheckInput, Evidence, Group, Judgement, Outcome, PcieFinding, PcieLinkFinding, Severity,
};
use super::{addresses, named};
use bedplate_base::value::PciAddress;
use bedplate_base::{Reading, Reason};
use bedplate_facts::aer::AerTotals;
use bedplate_facts::pci::{DeviceControl, Function};
use bedplate_facts::topology::Topology;

/// No threshold is published. A link with this many corrected errors has retrained or replayed a lot; a few at power-on
/// are usual.
const MANY_CORRECTED: u64 = 1000;

const COUNTERS: &str = "aer_dev_fatal, aer_dev_nonfatal, aer_dev_correctable";

pub(crate) const MPS: Check = Check {
    id: "pcie.mps",
    group: Group::Pcie,
    verifies: "both ends of every link between a GPU or RDMA NIC and the root complex use the same payload size",
    severity: Severity::Fail,
    needs_root: true,
    what: "Max_Payload_Size is the same at both ends of each link, and on all links between a GPU and its peers below a \
           shared switch.",
    why: "A receiver treats a packet larger than its own setting as malformed, which is a fatal error by default. A switch \
          does not split packets. The kernel itself recommends `pci=pcie_bus_safe`.",
    source: "handbook §7, §11; Linux drivers/pci/probe.c pci_configure_mps",
    how: "device control, bits 7:5, in config space (root only)",
    judge: mps,
};

pub(crate) const MRRS: Check = Check {
    id: "pcie.mrrs",
    group: Group::Pcie,
    verifies: "RDMA NICs of one model use read requests of the same size, and not the smallest",
    severity: Severity::Warn,
    needs_root: true,
    what: "Max_Read_Request_Size of RDMA NICs of one model is the same, and more than 128 bytes.",
    why: "Small requests slow down a NIC's reads from GPUs and memory; a NIC that differs from its siblings is the slow one. \
          Drivers and firmware set the size; `pci=pcie_bus_perf` lowers it.",
    source: "handbook §1.4, §7",
    how: "device control, bits 14:12, of each PF in config space (root only)",
    judge: mrrs,
};

pub(crate) const RELAXED_ORDERING: Check = Check {
    id: "pcie.relaxed-ordering",
    group: Group::Pcie,
    verifies: "RDMA NICs may use relaxed ordering",
    severity: Severity::Warn,
    needs_root: true,
    what: "Relaxed Ordering is enabled in device control of every RDMA NIC. VFs are not checked: their bit is reserved.",
    why: "On many CPUs, strictly ordered writes are much slower. Linux clears the bit below root ports that do not support \
          it; a set bit does not prove that the NIC uses it.",
    source: "handbook §7, §11; Linux drivers/pci/probe.c pci_configure_relaxed_ordering",
    how: "device control, bit 4, of each PF in config space (root only)",
    judge: relaxed_ordering,
};

pub(crate) const AER: Check = Check {
    id: "pcie.aer",
    group: Group::Pcie,
    verifies: "GPUs, RDMA NICs and the ports above them have reported no lost transaction since boot",
    severity: Severity::Warn,
    needs_root: false,
    what: "Since boot, the counters of fatal and non-fatal errors are zero, and those of corrected errors below 1,000. If a \
           GPU or RDMA NIC has no counters (no AER capability), the result is unknown.",
    why: "Many corrected errors mean a bad contact, cable or retimer, and cost bandwidth long before a link fails; \
          uncorrected errors are lost transactions.",
    source: "handbook §7; Linux Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats",
    how: "aer_dev_correctable, aer_dev_nonfatal and aer_dev_fatal of each function in /sys/bus/pci/devices",
    judge: aer,
};

/// Returns GPUs, RDMA NICs and Data Direct functions of the host, without VFs.
pub(super) fn endpoints<'a>(input: &CheckInput<'a>) -> Vec<&'a Function> {
    let mut all = [&input.gpus[..], &input.rdma_nics, &input.data_direct].concat();
    all.retain(|function| !function.has_reserved_registers());
    all
}

/// Returns both ends of each link from GPUs and RDMA NICs up: the lower function, and the port above.
pub(super) fn links<'a>(
    topology: &Topology<'a>,
    endpoints: &[&'a Function],
) -> Vec<(&'a Function, &'a Function)> {
    use bedplate_facts::topology::Role::{Downstream, RootPort, Upstream};
    let tree = topology.tree();
    let mut links = BTreeMap::new();
    for endpoint in endpoints {
        let bridges = tree.path_up(endpoint.address).into_iter().filter_map(|at| tree.get(at));
        let path: Vec<&Function> = [*endpoint].into_iter().chain(bridges).collect();
        for pair in path.windows(2) {
            let (below, above) = (pair[0], pair[1]);
            // Inside a switch there is no link.
            let is_end = !below.is_bridge() || topology.role(below.address) == Upstream;
            if is_end && matches!(topology.role(above.address), RootPort | Downstream) {
                links.insert(below.address, (below, above));
            }
        }
    }
    links.into_values().collect()
}

fn control(function: &Function) -> Result<Option<DeviceControl>, &Reason> {
    let Some(detail) = &function.detail else { return Ok(None) };
    Ok(detail.control.optional()?.copied())
}

fn mps(input: &CheckInput<'_>) -> Judgement {
    let topology = input.topology()?;
    let links = links(topology, &endpoints(input));
    let (mut wrong, mut unknown, mut unanswered) = (Vec::new(), None, None);
    let mut sizes: BTreeMap<u16, usize> = BTreeMap::new();
    for (below, above) in &links {
        match (control(below), control(above)) {
            (Ok(Some(one)), Ok(Some(other))) => {
                *sizes.entry(one.max_payload).or_default() += 1;
                if one.max_payload != other.max_payload {
                    wrong.push((*below, *above, one.max_payload, other.max_payload));
                }
            }
            (Ok(None), Ok(Some(_))) => drop(unanswered.get_or_insert(*below)),
            (Ok(Some(_)), Ok(None)) => drop(unanswered.get_or_insert(*above)),
            (Err(why), _) => drop(unknown.get_or_insert((*below, why))),
            (_, Err(why)) => drop(unknown.get_or_insert((*above, why))),
            _ => {}
        }
    }
    if !wrong.is_empty() {
        let functions = addresses(wrong.iter().map(|(below, ..)| below));
        return Ok(Outcome::fail([PcieFinding::PayloadDiffers { functions }]).all_evidence(
            wrong.iter().map(|(below, above, own, theirs)| {
                Evidence::new(
                    format!("{}: {own} bytes; port {}: {theirs}", below.address, above.address),
                    "config space, device control",
                )
            }),
        ));
    }
    if let Some((function, why)) = unknown {
        return Ok(unread(format_args!("device control of {}", function.address), why));
    }
    if let Some(function) = unanswered {
        let text = format!(
            "{} shows no device control, but the other end of its link does",
            function.address
        );
        return Ok(Outcome::unknown(text).evidence("not there", function.attribute("config")));
    }
    if let Some(gap) = input.gap_above() {
        return Ok(gap);
    }
    if sizes.is_empty() {
        return Ok(Outcome::not_applicable("no GPU and no RDMA NIC below a port"));
    }
    if let Some(outcome) = uneven_path(topology) {
        return Ok(outcome);
    }
    let sizes: Vec<String> =
        sizes.iter().map(|(bytes, count)| format!("{count} × {bytes} bytes")).collect();
    Ok(Outcome::pass(format!("both ends agree on {} links", links.len()))
        .evidence(sizes.join(", "), "config space, device control"))
}

/// Reports a pair below a shared switch whose two sides differ in payload size: a switch does not split packets.
fn uneven_path(topology: &Topology<'_>) -> Option<Outcome> {
    let tree = topology.tree();
    let payload = |at| control(tree.get(at)?).ok()?.map(|control| control.max_payload);
    let uneven = topology.pairs().into_iter().find_map(|pair| {
        let on_path = [pair.gpu, pair.peer].into_iter().chain(pair.legs.iter().copied());
        let sizes: Vec<_> = on_path.filter_map(|at| Some((at, payload(at)?))).collect();
        let least = *sizes.iter().min_by_key(|(_, bytes)| *bytes)?;
        let most = *sizes.iter().max_by_key(|(_, bytes)| *bytes)?;
        (least.1 != most.1).then_some((pair, least, most))
    });
    let (pair, least, most) = uneven?;
    let seen = |(at, bytes): (PciAddress, u16)| {
        Evidence::new(format!("{at}: {bytes} bytes"), "config space, device control")
    };
    let (gpu, peer, switch) = (pair.gpu, pair.peer, pair.switch);
    Some(
        Outcome::fail([PcieFinding::PayloadDiffersOnPath { gpu, peer, switch }])
            .all_evidence([seen(least), seen(most)]),
    )
}

/// Returns device control of each RDMA NIC of the host.
///
/// # Errors
/// The outcome to report if a register is unreadable, or no NIC has PCI Express.
fn of_nics<'a>(input: &CheckInput<'a>) -> Result<Vec<(&'a Function, DeviceControl)>, Outcome> {
    let mut found = Vec::new();
    for nic in input.some_rdma_pfs()? {
        match control(nic) {
            Ok(control) => found.extend(control.map(|control| (nic, control))),
            Err(why) => {
                return Err(unread(format_args!("device control of NIC {}", nic.address), why));
            }
        }
    }
    some(found, "no RDMA NIC with PCI Express")
}

fn mrrs(input: &CheckInput<'_>) -> Judgement {
    let nics = of_nics(input)?;
    let largest = |model: &Function| {
        let same =
            nics.iter().filter(|(nic, _)| (nic.vendor, nic.device) == (model.vendor, model.device));
        same.map(|(_, control)| control.max_read_request).max().unwrap_or_default()
    };
    let is_small = |(nic, control): &&(&Function, DeviceControl)| {
        control.max_read_request <= 128 || control.max_read_request < largest(nic)
    };
    let small: Vec<_> = nics.iter().filter(is_small).collect();
    let at = "config space, device control".to_owned();
    let seen = |(nic, control): &(&Function, DeviceControl)| {
        Evidence::new(
            format!("NIC {}: {} bytes", nic.address, control.max_read_request),
            at.clone(),
        )
    };
    if small.is_empty() {
        return Ok(Outcome::pass(format!(
            "{} RDMA NICs, none with smaller requests than others of its model",
            nics.len()
        ))
        .all_evidence(nics.iter().map(seen)));
    }
    let nics = addresses(small.iter().map(|(nic, _)| nic));
    Ok(Outcome::warn([PcieFinding::ReadRequestsSmall { nics }])
        .all_evidence(small.iter().map(|one| seen(one))))
}

fn relaxed_ordering(input: &CheckInput<'_>) -> Judgement {
    let nics = of_nics(input)?;
    let off: Vec<&Function> =
        nics.iter().filter(|(_, control)| !control.relaxed_ordering).map(|(nic, _)| *nic).collect();
    if off.is_empty() {
        return Ok(Outcome::pass(format!("enabled on {} RDMA NICs", nics.len()))
            .evidence("bit 4 is 1", "config space, device control"));
    }
    Ok(Outcome::warn([PcieFinding::RelaxedOrderingOff { nics: addresses(&off) }])
        .evidence("bit 4 is 0", "config space, device control"))
}

fn aer(input: &CheckInput<'_>) -> Judgement {
    let topology = input.topology()?;
    let ends = endpoints(input);
    if ends.is_empty() {
        return Ok(Outcome::not_applicable("no GPU and no RDMA NIC used by the host itself"));
    }
    let tree = topology.tree();
    let mut path: Vec<_> = ends.iter().flat_map(|end| tree.path_up(end.address)).collect();
    path.extend(ends.iter().map(|end| end.address));
    path.sort_unstable();
    path.dedup();
    let (mut bad, mut counting, mut unknown) = (Vec::new(), 0, None);
    let all = path.len();
    for at in path {
        match input.observed.aer.get(&at) {
            Some(Reading::Known(totals)) => {
                counting += 1;
                if is_bad(*totals) {
                    bad.push((at, *totals));
                }
            }
            Some(Reading::Unknown(why)) => drop(unknown.get_or_insert((at, why))),
            Some(Reading::Absent) | None => {}
        }
    }
    if !bad.is_empty() {
        let code = |(at, totals): &(PciAddress, AerTotals)| {
            Some(PcieLinkFinding::AerErrors {
                device: input.device(tree.get(*at)?),
                fatal: totals.fatal,
                nonfatal: totals.nonfatal,
                corrected: totals.correctable,
            })
        };
        let seen = |(at, totals): &(PciAddress, AerTotals)| {
            let AerTotals { fatal, nonfatal, correctable } = totals;
            let what =
                format!("{at}: {fatal} fatal, {nonfatal} non-fatal, {correctable} corrected");
            Evidence::new(what, COUNTERS)
        };
        return Ok(Outcome::warn(bad.iter().filter_map(code)).all_evidence(bad.iter().map(seen)));
    }
    if unknown.is_none()
        && let Some(gap) = input.gap_above()
    {
        return Ok(gap);
    }
    let counts =
        |end: &&Function| matches!(input.observed.aer.get(&end.address), Some(Reading::Known(_)));
    let silent: Vec<&Function> = ends.iter().copied().filter(|end| !counts(end)).collect();
    Ok(none_bad(input, unknown, counting, all, &silent))
}

/// Returns the outcome without significant errors. It depends on how many functions on the paths have counters.
fn none_bad(
    input: &CheckInput<'_>,
    unknown: Option<(PciAddress, &Reason)>,
    counting: usize,
    all: usize,
    silent: &[&Function],
) -> Outcome {
    match (unknown, counting) {
        (Some((at, why)), _) => unread(format_args!("the error counters of {at}"), why),
        (None, 0) if input.facts.cpu.is_virtual() => {
            Outcome::unknown("a virtual machine has no PCIe error counters of passed-through devices")
                .evidence("not there", COUNTERS)
                .hint("read the counters on the host of this virtual machine")
        }
        (None, 0) => {
            Outcome::unknown("this kernel counts no PCIe errors: the firmware handles them")
                .evidence("not there", COUNTERS)
                .hint("check the BMC's event log (`ipmitool sel list`)")
        }
        (None, count) if !silent.is_empty() => Outcome::unknown(format!(
            "no error counters for {}; {count} of {all} functions on the paths have counters, without significant errors",
            named(silent, "devices")
        ))
        .all_evidence(silent.iter().map(|end| Evidence::new("not there", end.attribute("aer_dev_fatal")))),
        (None, count) => {
            let outcome = Outcome::pass(format!("no significant PCIe errors on {count} functions"));
            match all - count {
                0 => outcome,
                others => outcome.evidence(
                    format!("{others} of {all} functions without counters"),
                    "aer_dev_fatal",
                ),
            }
        }
    }
}

fn is_bad(totals: AerTotals) -> bool {
    totals.fatal > 0 || totals.nonfatal > 0 || totals.correctable >= MANY_CORRECTED
}
