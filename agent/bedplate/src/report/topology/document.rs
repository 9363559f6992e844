//! `bedplate topology --json`: a versioned format. Fields are only added; a change of meaning is a new version.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::variables::Variables;
use super::{Options, TopologyView, labels};
use crate::report::names;
use bedplate_base::value::PciAddress;
use bedplate_facts::topology::devices::{Device, DeviceClass};
use bedplate_facts::topology::pairing::{Candidates, Choice};
use bedplate_facts::topology::{Distance, Role};

/// Output of `bedplate topology --json`: GPUs, NICs and NVMe disks of a host with their PCI locations, distances, and
/// recommended pairs.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schemars", schemars(title = "bedplate topology"))]
pub(crate) struct Document<'a> {
    /// Version of this format, 1.
    bedplate_topology: u32,
    /// Snapshot file of the host; only present if several hosts are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    /// The host: machine, operating system, kernel.
    host: String,
    /// NUMA nodes.
    numa_nodes: Vec<Node<'a>>,
    /// GPUs, in PCI order.
    gpus: Vec<Entry<'a>>,
    /// NICs in PCI order, each followed by its Data Direct functions and, with `--vfs`, its VFs.
    nics: Vec<Entry<'a>>,
    /// NVMe disks, in PCI order.
    nvmes: Vec<Entry<'a>>,
    /// Recommended devices of each GPU, in PCI order.
    pairing: Vec<Pair>,
    /// Candidate NICs that no GPU should use.
    spare_nics: Vec<PciAddress>,
    /// Candidate NICs: `rdma`, those with an RDMA device; `all`, because no NIC has one.
    candidates: &'static str,
    /// PCI functions that could not be read, so that their class is unknown.
    unread: Vec<PciAddress>,
    /// Variables that give a library the recommended NICs; only with `--for`.
    #[serde(skip_serializing_if = "Option::is_none")]
    variables: Option<&'a Variables>,
}

/// A NUMA node.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct Node<'a> {
    /// Number of the node.
    node: i32,
    /// CPUs of the node, in the kernel's list format; `null`: unknown.
    cpus: Option<&'a str>,
    /// Socket of the node (`physical_package_id`); `null`: unknown.
    socket: Option<u32>,
}

/// A GPU, NIC, Data Direct function, VF or disk.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct Entry<'a> {
    /// Number within its class: `GPU0`, `NIC0`, `NIC0v3` (a VF without an RDMA device), `DMA0`, `NVMe0`. In PCI order;
    /// NICs as in `nvidia-smi topo -m`, those with an RDMA device first, by its name.
    id: &'a str,
    /// Common name: RDMA device, interface, controller.
    name: Option<&'a str>,
    /// Device class.
    class: DeviceClass,
    /// PCI address.
    address: PciAddress,
    /// PCI ids: vendor:device.
    ids: String,
    /// PCI ids of the subsystem.
    subsystem_ids: String,
    /// Name in the host's pci.ids file.
    product: Option<String>,
    /// Driver bound to the device.
    driver: Option<&'a str>,
    /// NUMA node; `null`: not assigned by firmware, or unreadable.
    numa_node: Option<i32>,
    /// CPUs of that node.
    cpus: Option<&'a str>,
    /// Root bus as sysfs names it.
    root: &'a str,
    /// Root port above.
    root_port: Option<PciAddress>,
    /// Nearest switch above, by its upstream port.
    switch: Option<PciAddress>,
    /// All bridges above, nearest first.
    path: &'a [PciAddress],
    /// IOMMU group.
    iommu_group: Option<u32>,
    /// NICs of a Data Direct function, or PF of a VF.
    of: &'a [PciAddress],
    /// Network interfaces.
    net: &'a [String],
    /// RDMA devices.
    rdma: &'a [String],
    /// Controllers of a disk.
    nvme: &'a [String],
    /// Maximum speed of the link, in the format of sysfs.
    max_link_speed: Option<&'a str>,
    /// Maximum number of lanes of the link.
    max_link_width: Option<u8>,
    /// All other devices by their distance; only for GPUs, unless `--all`.
    distances: BTreeMap<Distance, Vec<PciAddress>>,
}

/// Recommended devices of a GPU.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct Pair {
    /// GPU.
    gpu: PciAddress,
    /// Recommended NICs, its own first.
    nics: Vec<Chosen>,
    /// Recommended NVMe disks, its own first.
    nvmes: Vec<Chosen>,
}

/// A NIC or disk recommended for a GPU.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct Chosen {
    /// NIC or disk.
    address: PciAddress,
    /// Data Direct function through which the GPU reaches the NIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    via: Option<PciAddress>,
    /// Distance to the GPU.
    distance: Distance,
    /// Other GPUs that use the same device.
    shared_with: Vec<PciAddress>,
    /// Reason for the choice.
    why: String,
}

/// Returns the output of `bedplate topology --json`.
pub fn document<'s>(
    shown: &'s TopologyView,
    options: Options,
    file: Option<&'s str>,
    variables: Option<&'s Variables>,
) -> impl Serialize + use<'s> {
    let with: BTreeSet<PciAddress> = shown.rows(options).iter().map(|row| row.address()).collect();
    let list = |devices| entries_of(shown, devices, &with);
    let gpus = shown.paired_gpus();
    let pairing = gpus.map(|(gpu, pairing)| Pair {
        gpu: pairing.gpu,
        nics: chosen(shown, gpu, &pairing.nics, labels::NIC),
        nvmes: chosen(shown, gpu, &pairing.nvmes, labels::DISK),
    });
    let cpus = shown.placement.node_cpus.iter();
    let unread = shown.topology.tree().unread();
    Document {
        bedplate_topology: 2,
        file,
        host: shown.facts.label(),
        numa_nodes: cpus
            .map(|(node, cpus)| Node {
                node: *node,
                cpus: cpus.known().map(String::as_str),
                socket: shown.placement.sockets.get(node).copied(),
            })
            .collect(),
        gpus: list(&shown.devices.gpus),
        nics: list(&shown.devices.nics),
        nvmes: list(&shown.devices.nvmes),
        pairing: pairing.collect(),
        spare_nics: shown.pairings.spare_nics.clone(),
        candidates: match shown.pairings.candidates {
            Candidates::Rdma => "rdma",
            Candidates::All => "all",
        },
        unread: unread.iter().map(|gap| gap.address).collect(),
        variables,
    }
}

/// JSON Schema (draft 2020-12) of [`document()`].
pub const SCHEMA: &str = include_str!("../../../schemas/topology.json");

fn entries_of<'s>(
    shown: &'s TopologyView,
    devices: &'s [Device],
    with: &BTreeSet<PciAddress>,
) -> Vec<Entry<'s>> {
    let own = |device: &Device| with.contains(&device.address());
    devices.iter().map(|device| entry(shown, device, own(device))).collect()
}

fn entry<'s>(shown: &'s TopologyView, device: &'s Device, distances: bool) -> Entry<'s> {
    let function = device.function;
    let path = device.spot.path.as_slice();
    let role = |wanted| path.iter().copied().find(|at| shown.topology.role(*at) == wanted);
    let link = function.detail.as_ref().map(|detail| &detail.link);
    Entry {
        id: &device.id,
        name: device.name.as_deref(),
        class: device.class,
        address: function.address,
        ids: format!("{}:{}", function.vendor, function.device),
        subsystem_ids: format!("{}:{}", function.subsystem.0, function.subsystem.1),
        product: names::name(shown.names, function),
        driver: function.driver.as_deref(),
        numa_node: device.spot.node,
        cpus: shown.cpus(device),
        root: device.spot.root,
        root_port: path.last().copied().filter(|at| shown.topology.role(*at) == Role::RootPort),
        switch: role(Role::Upstream),
        path,
        iommu_group: function.iommu_group.known().copied(),
        of: &device.of,
        net: &function.net,
        rdma: &function.infiniband,
        nvme: shown.placement.disks.get(&function.address).map_or(&[], Vec::as_slice),
        max_link_speed: link.and_then(|link| link.max_speed.as_deref()),
        max_link_width: link.and_then(|link| link.max_width),
        distances: if distances { by_distance(shown, device) } else { BTreeMap::new() },
    }
}

fn by_distance(shown: &TopologyView, device: &Device) -> BTreeMap<Distance, Vec<PciAddress>> {
    let mut found: BTreeMap<Distance, Vec<PciAddress>> = BTreeMap::new();
    for other in shown.devices.all().filter(|other| other.address() != device.address()) {
        let distance = shown.topology.between(&device.spot, &other.spot);
        found.entry(distance).or_default().push(other.address());
    }
    found
}

fn chosen(
    shown: &TopologyView,
    gpu: &Device,
    choices: &[Choice],
    what: labels::Noun,
) -> Vec<Chosen> {
    let one = |(nth, choice): (usize, &Choice)| Chosen {
        address: choice.peer,
        via: choice.via,
        distance: choice.distance,
        shared_with: choice.shared_with(gpu.address()),
        why: labels::reason(shown, gpu, choice, what, nth > 0),
    };
    choices.iter().enumerate().map(one).collect()
}
