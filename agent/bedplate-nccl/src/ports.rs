//! The RDMA ports of a host, each with how near its NIC is to a GPU.

use bedplate_base::value::PciAddress;
use bedplate_facts::pci::PciTree;
use bedplate_facts::rdma::RdmaPort;
use bedplate_facts::topology::devices::{Device, DeviceClass, Devices};
use bedplate_facts::topology::{Distance, Topology};
use bedplate_facts::{placement, rdma};
use bedplate_host::Reader;

/// A port and its distance.
#[derive(Debug)]
pub struct PlacedPort {
    /// The port.
    pub port: RdmaPort,
    /// The function by which its NIC reaches the nearest GPU: its own, or a Data Direct function that is nearer.
    pub way: PciAddress,
    /// From there to that GPU; `None`: there is no GPU. What a guest has does not count.
    pub distance: Option<Distance>,
}

/// How far away a port may be to be near GPUs, of all ports of a host. Where GPUs of a superchip have NICs behind switches of their
/// own (Data Direct), those are meant and not what else their CPU has.
pub fn within(distances: impl Iterator<Item = Distance>, reach: Distance) -> Distance {
    let nearest = distances.min().filter(|nearest| *nearest <= Distance::Pxb);
    nearest.map_or(reach, |_| reach.min(Distance::Pxb))
}

/// The ports of the NICs that no guest has, by address of the NIC.
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
