//! Differences between an NCCL topology file and sysfs, as far as NCCL uses the file (handbook §8.7). Pure.
//!
//! NCCL accepts a bridge from the file even if sysfs lacks it: cloud providers' files put GPUs and NICs below bridges
//! that their VMs do not show. NCCL adds GPUs and nets that are missing from the file.

use std::collections::{BTreeMap, BTreeSet};

use super::comparison_result::{ComparisonResult, Finding, HostValue, affinity_of};
use super::nccl::{File, Function};
use crate::nets;
use bedplate_base::value::PciAddress;
use bedplate_facts::pci;
use bedplate_facts::topology::cpulist;
use bedplate_facts::topology::devices::DeviceClass;

/// Compares the file with this host.
pub(super) fn compare(file: &File, here: HostValue, compared: &mut ComparisonResult) {
    if let Some(finding) = of_another_machine(file, here) {
        compared.findings.push(finding);
        return;
    }
    let wanted = here.library.topology_version().to_string();
    let version = file.version.as_ref().map_or("none".to_owned(), |version| format!("{version:?}"));
    let takes = format_args!("{wanted}: {} accepts no other", here.library);
    compared.check(file.version.as_ref() == Some(&wanted), "version", version, takes);
    cpus(file, here, compared);
    let mut seen: BTreeMap<PciAddress, &Function> = BTreeMap::new();
    for function in &file.functions {
        let about = format!("busid {:?}", function.busid);
        let Ok(address) = function.busid.parse::<PciAddress>() else {
            compared.check(false, about, "a bus id", "not a PCI address");
            continue;
        };
        let once = seen.insert(address, function).is_none();
        compared.check(once, about, "twice", "once");
        of_function(function, address, here, compared);
    }
    nodes(&seen, here, compared);
    added(&seen, file, here, compared);
}

/// Returns the single finding for a file of which at least half of the GPUs and NICs are not on this host.
fn of_another_machine(file: &File, here: HostValue) -> Option<Finding> {
    let count = |is: fn(&Function) -> bool| {
        let said = file.functions.iter().filter(|function| is(function));
        let missing = said.clone().filter(|function| match function.busid.parse() {
            Ok(address) if function.is_gpu() => {
                !here.topology.tree().get(address).is_some_and(pci::Function::is_gpu)
            }
            Ok(address) => !is_on_host(function, address, here),
            Err(_) => true,
        });
        (said.count(), missing.count())
    };
    let (gpus, nics) = (count(Function::is_gpu), count(Function::is_nic));
    let (all, missing) = (gpus.0 + nics.0, gpus.1 + nics.1);
    (missing > 0 && 2 * missing >= all).then(|| Finding {
        about: "the machine".to_owned(),
        file: "another one".to_owned(),
        here: format!(
            "{} of the file's {} GPUs and {} of its {} NICs are missing",
            gpus.1, gpus.0, nics.1, nics.0
        ),
    })
}

fn cpus(file: &File, here: HostValue, compared: &mut ComparisonResult) {
    let mut nodes = BTreeSet::new();
    for (numaid, affinity) in &file.cpus {
        let about = format!("cpu numaid={numaid}");
        compared.check(nodes.insert(numaid), &about, "twice", "once");
        let node = numaid.parse().ok();
        let known =
            node.is_some_and(|node| node == -1 || here.placement.node_cpus.contains_key(&node));
        let all: Vec<String> = here.placement.node_cpus.keys().map(i32::to_string).collect();
        if !all.is_empty() {
            let nodes = format!("only NUMA nodes {}", all.join(", "));
            compared.check(known, &about, "a NUMA node", nodes);
        }
        let cpus = affinity.as_deref().map(cpulist::of_mask);
        if let (Some(cpus), true, Some(node)) = (cpus, known, node) {
            affinity_of(here, node, cpus, &about, compared);
        }
    }
}

/// Whether sysfs has a function, or NCCL itself would create it for a NIC of this host.
fn is_on_host(function: &Function, address: PciAddress, here: HostValue) -> bool {
    here.topology.tree().get(address).is_some()
        || function.nets.iter().any(|net| {
            let rdma = named(net.strip_suffix("_dma").unwrap_or(net), here);
            rdma.is_some_and(|nic| nets::place(nic.address) == address)
        })
}

fn of_function(
    function: &Function,
    address: PciAddress,
    here: HostValue,
    compared: &mut ComparisonResult,
) {
    let own = here.topology.tree().get(address);
    if own.is_none() && function.is_bridge() {
        compared.unknown += 1;
        return;
    }
    if let Some(own) = own {
        identity(function, own, compared);
    } else {
        let is_here = is_on_host(function, address, here);
        compared.check(is_here, address, "a PCI function", "no such function");
        if !is_here {
            return;
        }
    }
    let above = nets::switches(here.topology, address).first().copied();
    let below = |above: Option<String>| {
        above.map_or("directly below the CPU".to_owned(), |above| format!("below {above}"))
    };
    let said = function.above.as_ref().map(|above| above.parse::<PciAddress>().ok());
    match said {
        // The bridge is not in sysfs, and sysfs has no switch above this function.
        Some(Some(bridge)) if above.is_none() && here.topology.tree().get(bridge).is_none() => {
            compared.unknown += 1;
        }
        _ => {
            let found = below(above.map(|above| above.to_string()));
            compared.check(said == above.map(Some), address, below(function.above.clone()), found);
        }
    }
    nets(function, address, here, compared);
}

/// Node in the file → node in sysfs → functions that the file does not put below a bridge in sysfs.
type Nodes<'f> = BTreeMap<&'f str, BTreeMap<i32, Vec<PciAddress>>>;

/// Compares NUMA nodes of functions below a CPU, or below bridges that sysfs lacks. Nodes swapped as a whole are one
/// finding.
fn nodes(seen: &BTreeMap<PciAddress, &Function>, here: HostValue, compared: &mut ComparisonResult) {
    let tree = here.topology.tree();
    let mut nodes = Nodes::new();
    for (address, function) in seen.iter().filter(|(address, _)| tree.get(**address).is_some()) {
        let mut above = function.above.as_ref();
        let mut depth = 0;
        while let Some(bridge) = above.and_then(|above| above.parse::<PciAddress>().ok()) {
            depth += 1;
            if tree.get(bridge).is_some() || depth > seen.len() {
                break;
            }
            above = seen.get(&bridge).and_then(|bridge| bridge.above.as_ref());
        }
        if above.is_none() {
            let node = nets::numa_node(here.topology, *address);
            let said = nodes.entry(function.numaid.as_str()).or_default();
            said.entry(node).or_default().push(*address);
        }
    }
    let swapped = swapped_nodes(&nodes);
    if let Some((one, other)) = &swapped {
        let about = format_args!("NUMA nodes {one} and {other}");
        let found = format!("swapped: devices of node {one} are at node {other}, and vice versa");
        compared.check(false, about, "GPUs and NICs of both", found);
    }
    let is_swapped = |said: &str| {
        swapped.as_ref().is_some_and(|(one, other)| [one, other].iter().any(|node| **node == said))
    };
    for (said, found) in nodes.iter().filter(|(said, _)| !is_swapped(said)) {
        for (node, functions) in found {
            for address in functions {
                match (*said == node.to_string(), *node) {
                    // The node is not in sysfs.
                    (false, -1) => compared.unknown += 1,
                    (agrees, _) => {
                        let found = format_args!("NUMA node {node}");
                        compared.check(agrees, address, format_args!("NUMA node {said}"), found);
                    }
                }
            }
        }
    }
}

/// Finds two nodes that are swapped between file and sysfs.
fn swapped_nodes(nodes: &Nodes) -> Option<(String, String)> {
    let only = |said: &str| match nodes.get(said)?.keys().collect::<Vec<_>>()[..] {
        [node] => Some(node.to_string()),
        _ => None,
    };
    nodes.keys().find_map(|said| {
        let other = only(said)?;
        (other != *said && only(&other).as_deref() == Some(said))
            .then(|| ((*said).to_owned(), other))
    })
}

/// Compares kinds of functions. NCCL only distinguishes switches, GPUs and NICs.
fn identity(function: &Function, own: &pci::Function, compared: &mut ComparisonResult) {
    let whole = format!("0x{:06x}", own.class);
    if function.gpu {
        let what = format!("{}:{} of class {whole}", own.vendor, own.device);
        compared.check(own.is_gpu(), own.address, "a GPU", what);
    }
    if let Some(class) = &function.class {
        let fits = whole.starts_with(class.as_str())
            || (function.is_gpu() && own.is_gpu())
            || (function.is_nic() && own.is_nic());
        compared.check(fits, own.address, format_args!("class {class}"), whole);
    }
}

/// Returns the RDMA device with this name.
fn named<'h>(name: &str, here: HostValue<'h, '_>) -> Option<&'h pci::Function> {
    let functions = here.topology.tree().functions.values();
    functions.into_iter().find(|f| f.infiniband.iter().any(|own| own == name))
}

/// Compares the RDMA devices listed for a function.
fn nets(
    function: &Function,
    address: PciAddress,
    here: HostValue,
    compared: &mut ComparisonResult,
) {
    for net in &function.nets {
        let (name, direct) = match net.strip_suffix("_dma") {
            Some(name) => (name, true),
            None => (net.as_str(), false),
        };
        let (about, at) = (format!("net {net}"), format!("at {address}"));
        let Some(nic) = named(name, here) else {
            compared.check(false, about, at, "no such RDMA device");
            continue;
        };
        let dma = here.devices.nics.iter().any(|dma| {
            dma.class == DeviceClass::DataDirect
                && dma.address() == address
                && dma.of.contains(&nic.address)
        });
        let fits = if direct { dma } else { nets::may_be_at(nic, address) };
        let whose = if direct { "the NIC is at " } else { "at " };
        compared.check(fits, about, at, format_args!("{whose}{}", nic.address));
    }
}

/// Lists GPUs and nets that NCCL adds.
fn added(
    seen: &BTreeMap<PciAddress, &Function>,
    file: &File,
    here: HostValue,
    compared: &mut ComparisonResult,
) {
    let is_there = |address: PciAddress| seen.contains_key(&address);
    for gpu in here.devices.gpus.iter().filter(|gpu| !is_there(gpu.address())) {
        compared.added.push(format!("{} {}", gpu.id, gpu.address()));
    }
    let nets: BTreeSet<&str> =
        file.functions.iter().flat_map(|f| &f.nets).map(String::as_str).collect();
    for net in nets::nets(here.topology, &here.devices.nics, here.placement) {
        let name = net.name.strip_suffix("_dma").unwrap_or(&net.name);
        let is_named = nets.contains(name) || nets.contains(format!("{name}_dma").as_str());
        let at = named(name, here).map(|nic| nic.address);
        if !is_named && !is_there(net.place) && !at.is_some_and(is_there) {
            compared.added.push(format!("net {name}"));
        }
    }
}
