//! Positions of GPUs and NICs.

use std::collections::{BTreeMap, BTreeSet};

use super::super::unread::OrUnread as _;
use super::super::{
    Check, CheckInput, Evidence, Group, Judgement, Outcome, Severity, TopologyFinding,
};
use super::{FEW, addresses, named};
use crate::kind::some_of;
use bedplate_base::value::PciAddress;
use bedplate_base::{Reading, counted};
use bedplate_facts::pci::Function;
use bedplate_facts::superchip::{Superchip, superchip};
use bedplate_facts::topology::pci_path::PciPath;
use bedplate_facts::topology::{Distance, Peer, Role, Topology};

/// Source of evidence about distances.
pub(super) const PLACES: &str = "places in /sys/bus/pci/devices";

pub(crate) const PAIRING: Check = Check {
    id: "topology.pairing",
    group: Group::Topology,
    verifies: "every GPU has an RDMA NIC within NCCL's default GDR level",
    severity: Severity::Warn,
    needs_root: false,
    what: "The nearest RDMA NIC of each GPU is below the same switches (PIX, PXB), or reached through its Data Direct \
           function. On Arm CPUs of NVIDIA with attached GPUs (C2C), the same NUMA node suffices.",
    why: "By default NCCL uses GPUDirect RDMA up to PXB, and P2C on such superchips; beyond that it stages in host memory. \
          The layout of a machine is fixed, so this is a warning about the expected bandwidth.",
    source: "handbook §8.1, §8.3, §8.4",
    how: "places in the PCI tree, port types, numa_node",
    judge: pairing,
};

/// NICs and their positions, computed once for all GPUs.
pub(super) struct Candidates<'t, 'a> {
    topology: &'t Topology<'a>,
    nics: Vec<(&'t Function, Option<PciPath<'a>>)>,
}

impl<'t, 'a> Candidates<'t, 'a> {
    pub(super) fn new(topology: &'t Topology<'a>, nics: &[&'t Function]) -> Self {
        let nics = nics.iter().map(|nic| (*nic, topology.path_of(nic.address))).collect();
        Candidates { topology, nics }
    }

    /// Returns the NICs nearest to a GPU, and their distance.
    pub(super) fn nearest(&self, gpu: &Function) -> Option<(Distance, Vec<&'t Function>)> {
        let gpu = self.topology.path_of(gpu.address);
        let distance = |nic: &Option<PciPath<'a>>| match (&gpu, nic) {
            (Some(gpu), Some(nic)) => self.topology.between(gpu, nic),
            _ => Distance::Unknown,
        };
        let far: Vec<Distance> = self.nics.iter().map(|(_, spot)| distance(spot)).collect();
        let least = *far.iter().min()?;
        let nics = self.nics.iter().zip(far).filter(|(_, distance)| *distance == least);
        Some((least, nics.map(|((nic, _), _)| *nic).collect()))
    }
}

/// Lists devices below the switches of GPUs without an RDMA NIC there: NICs that do not count, and empty ports.
fn not_counted(
    input: &CheckInput<'_>,
    topology: &Topology<'_>,
    gpus: &[&Function],
) -> Vec<Evidence> {
    let tree = topology.tree();
    let near = |function: &&Function| {
        let distance = |gpu: &&Function| topology.distance(gpu.address, function.address);
        gpus.iter().any(|gpu| distance(gpu) <= Distance::Pxb)
    };
    let is_other = |function: &&Function| {
        function.is_nic() && !input.rdma_nics.iter().any(|nic| nic.address == function.address)
    };
    let nics = tree.functions.values().filter(is_other).filter(near).map(|nic| {
        let why = match (nic.vfio, nic.driver.as_deref()) {
            (true, _) => "assigned to a VM (VFIO)".to_owned(),
            (false, None) => "no driver".to_owned(),
            (false, Some(driver)) => format!("{driver}, no RDMA device"),
        };
        Evidence { value: format!("NIC {}: {why}", nic.address), source: nic.attribute("uevent") }
    });
    let path: BTreeSet<_> = gpus.iter().flat_map(|gpu| tree.path_up(gpu.address)).collect();
    let is_empty = |port: &&Function| {
        let above = tree.path_up(port.address);
        topology.role(port.address) == Role::Downstream
            && topology.below(port.address).is_empty()
            && above.first().is_some_and(|above| path.contains(above))
    };
    let empty = tree.functions.values().filter(is_empty).map(|port| {
        Evidence::new(format!("port {}, in a switch with such a GPU: empty", port.address), PLACES)
    });
    nics.chain(empty).collect()
}

fn pairing(input: &CheckInput<'_>) -> Judgement {
    let topology = input.topology()?;
    let (gpus, nics) = (&input.gpus, &input.rdma_nics);
    if gpus.is_empty() || nics.is_empty() {
        return Ok(Outcome::not_applicable("no GPU or no RDMA NIC used by the host itself"));
    }
    let pairs = topology.pairs();
    let has_data_direct = |gpu: &Function| {
        pairs.iter().any(|pair| pair.gpu == gpu.address && pair.kind == Peer::DataDirect)
    };
    let reach = match superchip(input.facts) {
        Superchip::No => Distance::Pxb,
        _ => Distance::Node,
    };
    let candidates = Candidates::new(topology, nics);
    let (mut far, mut unknown, mut seen) = (Vec::new(), Vec::new(), Vec::new());
    for gpu in gpus.iter().filter(|gpu| !has_data_direct(gpu)) {
        let Some((distance, near)) = candidates.nearest(gpu) else { continue };
        let near = near.iter().map(|nic| nic.address.to_string());
        let near = some_of(near, FEW, "NICs");
        seen.push(Evidence::new(format!("GPU {}: {distance} to NIC {near}", gpu.address), PLACES));
        match distance {
            Distance::Unknown => unknown.push(*gpu),
            distance if distance > reach => far.push(*gpu),
            _ => {}
        }
    }
    if !far.is_empty() {
        return Ok(no_near_nic(input, topology, &far, seen));
    }
    Ok(match unknown.is_empty() {
        false => distance_unknown(&unknown).all_evidence(seen),
        true => Outcome::pass(format!(
            "each of {} has an RDMA NIC within NCCL's GDR level",
            counted(gpus.len(), "GPU")
        ))
        .all_evidence(seen),
    })
}

fn distance_unknown(gpus: &[&Function]) -> Outcome {
    Outcome::unknown(format!(
        "the distance of GPU {} to RDMA NICs is unknown: the firmware reports no NUMA node",
        named(gpus, "GPUs")
    ))
    .hint("see firmware.numa")
}

/// Returns the outcome for GPUs without a near NIC.
fn no_near_nic(
    input: &CheckInput<'_>,
    topology: &Topology<'_>,
    far: &[&Function],
    seen: Vec<Evidence>,
) -> Outcome {
    let conf = &input.observed.nccl_conf;
    if conf.topology_file == Reading::Known(true) {
        return Outcome::pass(format!(
            "{}: NCCL reads their positions from a topology file (NCCL_TOPO_FILE in {})",
            counted(input.gpus.len(), "GPU"),
            conf.path
        ))
        .all_evidence(seen);
    }
    Outcome::warn([TopologyFinding::NoNearNic { gpus: addresses(far) }])
        .all_evidence(seen)
        .all_evidence(not_counted(input, topology, far))
}

pub(crate) const NUMA_BALANCE: Check = Check {
    id: "topology.numa",
    group: Group::Topology,
    verifies: "every NUMA node with GPUs has an RDMA NIC of its own",
    severity: Severity::Warn,
    needs_root: false,
    what: "GPUs and RDMA NICs are counted by NUMA node; a node with GPUs but no RDMA NIC is a warning. The layout of a \
           machine is fixed, but a card may be in the wrong slot, or missing.",
    why: "GPUs of such a node reach the network only across the link between sockets, which they share with all other \
          traffic there.",
    source: "handbook §8.1, §8.3",
    how: "numa_node of each GPU and RDMA NIC",
    judge: numa_balance,
};

pub(crate) const SHARING: Check = Check {
    id: "topology.sharing",
    group: Group::Topology,
    verifies: "GPUs are spread evenly across RDMA NICs",
    severity: Severity::Warn,
    needs_root: false,
    what: "Each GPU is assigned to its nearest RDMA NIC, or of several equally near ones to that with the fewest GPUs. All \
           NICs in use have the same number of GPUs; unused ones (storage, management) do not count.",
    why: "The NIC with the most GPUs sets the pace of collectives. On a machine that was balanced before, a NIC is missing \
          or in the wrong slot.",
    source: "handbook §8.1, §8.3; `bedplate topology`",
    how: "places in the PCI tree, numa_node",
    judge: sharing,
};

/// Returns GPUs, and RDMA NICs without VFs.
///
/// # Errors
/// The outcome to report if either is missing.
fn both<'a>(input: &CheckInput<'a>) -> Result<(Vec<&'a Function>, Vec<&'a Function>), Outcome> {
    let gpus = input.some_gpus()?.to_vec();
    Ok((gpus, input.some_rdma_pfs()?))
}

fn numa_balance(input: &CheckInput<'_>) -> Judgement {
    let (gpus, nics) = both(input)?;
    let mut nodes: BTreeMap<i32, (usize, usize)> = BTreeMap::new();
    for (function, is_gpu) in
        gpus.iter().map(|gpu| (*gpu, true)).chain(nics.iter().map(|nic| (*nic, false)))
    {
        let node =
            function.numa_node.or_unread(format_args!("the NUMA node of {}", function.address))?;
        let Some(node) = node.filter(|node| **node >= 0) else {
            // A single node has no number.
            if input.facts.cpu.nodes.known().is_some_and(|all| !all.contains(['-', ','])) {
                return Ok(Outcome::not_applicable("one NUMA node"));
            }
            let text = format!("the firmware reports no NUMA node for {}", function.address);
            return Ok(Outcome::unknown(text)
                .evidence("none", function.attribute("numa_node"))
                .hint("see firmware.numa"));
        };
        let (gpus, nics) = nodes.entry(*node).or_default();
        if is_gpu { *gpus += 1 } else { *nics += 1 }
    }
    let words = |(node, (gpus, nics)): (&i32, &(usize, usize))| {
        format!("node {node}: {}, {}", counted(*gpus, "GPU"), counted(*nics, "RDMA NIC"))
    };
    let all: Vec<String> = nodes.iter().map(words).collect();
    let all = all.join("; ");
    let without: Vec<i32> = nodes
        .iter()
        .filter(|(_, (gpus, nics))| *gpus > 0 && *nics == 0)
        .map(|(node, _)| *node)
        .collect();
    Ok(match without.is_empty() {
        true => Outcome::pass(all).evidence("numa_node of each", "/sys/bus/pci/devices"),
        false => Outcome::warn([TopologyFinding::NodeWithoutNic { nodes: without }])
            .evidence(all, "numa_node in /sys/bus/pci/devices"),
    })
}

fn sharing(input: &CheckInput<'_>) -> Judgement {
    let (gpus, nics) = both(input)?;
    let topology = input.topology()?;
    let of_nics = addresses(&nics);
    let candidates = Candidates::new(topology, &nics);
    let distant = |gpu: &&&Function| {
        candidates.nearest(gpu).is_some_and(|(distance, _)| distance == Distance::Unknown)
    };
    if let Some(gpu) = gpus.iter().find(distant) {
        return Ok(distance_unknown(&[gpu]));
    }
    let of_jobs = addresses(&gpus);
    let users = topology.gpus_per_nic(&of_jobs, &of_nics);
    let used: Vec<_> = users.iter().filter(|(_, count)| **count > 0).collect();
    let most = used.iter().map(|(_, count)| **count).max().unwrap_or(0);
    let least = used.iter().map(|(_, count)| **count).min().unwrap_or(0);
    if most == least {
        return Ok(Outcome::pass(format!(
            "{} of {} each",
            counted(used.len(), "RDMA NIC"),
            counted(most.into(), "GPU")
        ))
        .evidence("nearest to each GPU", PLACES));
    }
    let heavy = used.iter().filter(|(_, count)| **count == most);
    let heavy: Vec<PciAddress> = heavy.map(|(nic, _)| **nic).collect();
    let is_more = |(nic, count): &(&_, &u16)| {
        Evidence::new(format!("NIC {nic}: nearest to {}", counted((**count).into(), "GPU")), PLACES)
    };
    Ok(Outcome::warn([TopologyFinding::NicSharedUnevenly { nics: heavy, max: most, min: least }])
        .all_evidence(used.iter().map(is_more)))
}
