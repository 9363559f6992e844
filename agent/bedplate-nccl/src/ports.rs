//! RDMA ports of a host, with the distance of their NICs to the nearest GPU.

use bedplate_base::some_of;
use bedplate_base::value::PciAddress;
use bedplate_facts::pci::PciTree;
use bedplate_facts::rdma::RdmaPort;
use bedplate_facts::topology::devices::{Device, DeviceClass, Devices};
use bedplate_facts::topology::{Distance, Topology};
use bedplate_facts::{placement, rdma};
use bedplate_host::Reader;

/// A port and its distance to the nearest GPU.
#[derive(Debug)]
pub struct PlacedPort {
    /// The port.
    pub port: RdmaPort,
    /// Function through which the NIC reaches the nearest GPU: its own, or a nearer Data Direct function.
    pub way: PciAddress,
    /// Distance from `way` to that GPU; `None`: no GPU outside of VMs.
    pub distance: Option<Distance>,
}

/// Returns the maximum distance of ports that serve GPUs, given the distances of all ports. If GPUs of a superchip have
/// NICs behind their own switches (Data Direct), only those qualify, not other NICs of the CPU.
pub fn within(distances: impl Iterator<Item = Distance>, reach: Distance) -> Distance {
    let nearest = distances.min().filter(|nearest| *nearest <= Distance::Pxb);
    nearest.map_or(reach, |_| reach.min(Distance::Pxb))
}

/// Returns the ports of NICs not assigned to VMs, by address of the NIC.
pub fn of_host(reader: &dyn Reader, tree: &PciTree) -> Vec<PlacedPort> {
    let topology = Topology::new(tree);
    let devices = Devices::find(&topology, &placement::observe(reader, tree), false);
    let nics =
        devices.nics.iter().filter(|one| one.class == DeviceClass::Nic && !one.function.vfio);
    let placed = |nic: &Device| {
        let address = nic.address();
        let ways = devices.nics.iter().filter(|device| {
            device.address() == address
                || device.class == DeviceClass::DataDirect && device.of.contains(&address)
        });
        let gpus = || devices.gpus.iter().filter(|gpu| !gpu.function.vfio);
        let nearest = |way: &Device| gpus().map(|gpu| topology.between(&gpu.spot, &way.spot)).min();
        let ways = ways.filter_map(|way| Some((nearest(way)?, way.address())));
        let nearest = ways.min_by_key(|(distance, _)| *distance);
        let (distance, way) = nearest.map_or((None, address), |(near, way)| (Some(near), way));
        let ports = rdma::ports(reader, nic.function).into_iter();
        ports.map(|port| PlacedPort { port, way, distance }).collect::<Vec<_>>()
    };
    nics.flat_map(placed).collect()
}

/// Returns the value of `NCCL_IB_HCA` that names exactly these ports, in order of name.
pub fn exact_port_list<'a>(ports: impl Iterator<Item = &'a RdmaPort>) -> String {
    format!("={}", names(ports).join(","))
}

/// Returns the names in NCCL's format, `mlx5_2:1`, in numerical order.
pub(crate) fn names<'a>(ports: impl Iterator<Item = &'a RdmaPort>) -> Vec<String> {
    let mut names: Vec<String> = ports.map(|port| port.name.replacen('/', ":", 1)).collect();
    names.sort_by_key(|name| natural(name));
    names
}

/// Names ports in a sentence.
pub fn named<'a>(ports: impl Iterator<Item = &'a RdmaPort>) -> String {
    const FEW: usize = 8;
    some_of(names(ports).into_iter(), FEW, "ports")
}

/// Returns the sort key that orders `mlx5_2:1` before `mlx5_10:1`.
pub(crate) fn natural(name: &str) -> (String, u32, u32) {
    let (device, port) = name.split_once(':').unwrap_or((name, "0"));
    let stem = device.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let number = device[stem.len()..].parse().unwrap_or(0);
    (stem.to_owned(), number, port.parse().unwrap_or(0))
}
