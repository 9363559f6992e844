//! Where NCCL sees functions, which is not always where they are (handbook §8.1; NCCL 2.30 src/transport/net_ib/init.cc,
//! src/graph/xml.cc). Pure.
//!
//! NCCL puts every RDMA device at device 0, function 0 of its bus, so that the ports and the VFs (NCCL_IB_MERGE_VFS) of an adapter
//! are one NIC to it. Where that bus has no such function, sysfs has nothing to say of the NIC, and NCCL puts it below a CPU of
//! NUMA node −1.

use std::collections::{BTreeMap, BTreeSet};

use bedplate_base::value::PciAddress;
use bedplate_facts::pci::Function;
use bedplate_facts::placement::Placement;
use bedplate_facts::topology::Topology;
use bedplate_facts::topology::devices::{Device, DeviceClass};

/// A net of NCCL's: an active port of an RDMA device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Net {
    /// `mlx5_0`, or `mlx5_0_dma` where the way is that of a Data Direct function.
    pub name: String,
    /// The function that NCCL puts it at, which need not be there.
    pub place: PciAddress,
    /// The port's number: where several devices are one NIC, the number among all of their ports.
    pub port: u32,
    /// Its rate in Mb/s.
    pub megabits: Option<u32>,
}

/// Where NCCL puts an RDMA device that has no Data Direct function.
pub(crate) fn place(function: PciAddress) -> PciAddress {
    PciAddress { device: 0, function: 0, ..function }
}

/// The nets of a host in NCCL's order, that of the PCI addresses of the devices (NCCL_IB_DEVICE_PCI_ORDER). NICs with a Data
/// Direct function are where that is (NCCL_IB_DATA_DIRECT, since 2.27).
pub fn nets(topology: &Topology, nics: &[Device], placement: &Placement) -> Vec<Net> {
    let direct = by_data_direct(nics);
    let mut nets = Vec::new();
    // How many were put on a bus so far.
    let mut ports: BTreeMap<(u32, u8), u32> = BTreeMap::new();
    for function in topology.tree().functions.values() {
        let dma = direct.get(&function.address).copied();
        for name in &function.infiniband {
            for port in placement.ports.get(name).into_iter().flatten().filter(|port| port.active) {
                let place = dma.unwrap_or(place(function.address));
                let before = ports.entry((place.domain, place.bus)).or_default();
                let name = if dma.is_some() { format!("{name}_dma") } else { name.clone() };
                let port_number = u32::from(port.number) + *before;
                nets.push(Net { name, place, port: port_number, megabits: port.megabits });
                *before += 1;
            }
        }
    }
    nets
}

/// The RDMA devices of physical functions as nets, whether their ports are ACTIVE or not. VFs come and go, and a container's are
/// not the host's.
pub(crate) fn physical(topology: &Topology, nics: &[Device]) -> Vec<Net> {
    let direct = by_data_direct(nics);
    let functions = topology.tree().functions.values().filter(|function| !function.is_vf());
    let net = |(function, name): (&Function, &String)| match direct.get(&function.address) {
        Some(dma) => Net { name: format!("{name}_dma"), place: *dma, port: 1, megabits: None },
        None => {
            let place = place(function.address);
            Net { name: name.clone(), place, port: 1, megabits: None }
        }
    };
    let devices = functions.flat_map(|one| one.infiniband.iter().map(move |name| (one, name)));
    devices.map(net).collect()
}

/// NIC → its Data Direct function.
fn by_data_direct(nics: &[Device]) -> BTreeMap<PciAddress, PciAddress> {
    let dmas = nics.iter().filter(|device| device.class == DeviceClass::DataDirect);
    dmas.flat_map(|dma| dma.of.iter().map(|nic| (*nic, dma.address()))).collect()
}

/// RDMA NICs that NCCL takes for ports of one, though they are not: several devices on a bus of the CPU itself, as in virtual
/// machines without bridges. In the order of their buses; those of a bridge's bus are one card.
pub fn merged_by_nccl<'d, 'a>(nics: &'d [Device<'a>]) -> Vec<Vec<&'d Device<'a>>> {
    let mut buses: BTreeMap<(u32, u8), Vec<&Device>> = BTreeMap::new();
    // Those with a Data Direct function are where that is.
    let dmas = nics.iter().filter(|device| device.class == DeviceClass::DataDirect);
    let direct: Vec<PciAddress> = dmas.flat_map(|dma| &dma.of).copied().collect();
    let nets = nics.iter().filter(|nic| nic.class == DeviceClass::Nic);
    for nic in nets.filter(|nic| !nic.function.infiniband.is_empty()) {
        let PciAddress { domain, bus, .. } = nic.address();
        let is_on_root_bus = nic.spot.root == format!("pci{domain:04x}:{bus:02x}");
        if is_on_root_bus && !direct.contains(&nic.address()) {
            buses.entry((domain, bus)).or_default().push(nic);
        }
    }
    let slots = |nics: &Vec<&Device>| {
        nics.iter().map(|nic| nic.address().device).collect::<BTreeSet<u8>>().len()
    };
    buses.into_values().filter(|nics| slots(nics) > 1).collect()
}

/// Whether NCCL may have put an RDMA device of this function there: at its own place, or, without NCCL_IB_MERGE_VFS, at function
/// 0 of its device. What people have written may name the function itself.
pub(crate) fn may_be_at(function: &Function, address: PciAddress) -> bool {
    let own = function.address;
    [own, PciAddress { function: 0, ..own }, place(own)].contains(&address)
}

/// The switches above a function as NCCL sees them, nearest first: it climbs two levels at a time, a downstream port and the
/// upstream port above it, and leaves out a root port (handbook §8.1).
pub fn switches(topology: &Topology, address: PciAddress) -> Vec<PciAddress> {
    topology.tree().path_up(address).chunks_exact(2).map(|ports| ports[1]).collect()
}

/// The NUMA node below which NCCL puts a function: that of the last switch that it climbs to; −1 where there is none.
pub(crate) fn numa_node(topology: &Topology, address: PciAddress) -> i32 {
    let last = switches(topology, address).last().copied().unwrap_or(address);
    topology.path_of(last).and_then(|spot| spot.node).unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_facts::placement::RdmaPort;
    use bedplate_facts::topology::devices::Devices;
    use bedplate_testhosts::fixture::{Machine, at};

    /// Ports, functions and VFs of one adapter are ports of one NIC; ports that are down are none.
    #[test]
    fn an_adapter_is_one_nic_however_many_functions_it_has() {
        let mut machine = Machine::default();
        machine.root_port("0000:10:00.0", 0);
        machine.nic("0000:11:00.0", Some("0000:10:00.0")).infiniband = vec!["a".into()];
        machine.nic("0000:11:00.1", Some("0000:10:00.0")).infiniband = vec!["b".into()];
        machine.vf("0000:11:00.2", "0000:11:00.0").infiniband = vec!["c".into()];
        let port = |number, active| RdmaPort { number, megabits: None, active };
        let ports = [
            ("a", vec![port(1, true), port(2, true)]),
            ("b", vec![port(1, false)]),
            ("c", vec![port(1, true)]),
        ];
        let ports = ports.map(|(name, ports)| (name.to_owned(), ports)).into_iter().collect();
        let placement = Placement { ports, ..Placement::default() };
        let topology = Topology::new(&machine.tree);
        let devices = Devices::find(&topology, &placement, false);
        let found = nets(&topology, &devices.nics, &placement);
        let found: Vec<(&str, String, u32)> =
            found.iter().map(|net| (net.name.as_str(), net.place.to_string(), net.port)).collect();
        let place = || "0000:11:00.0".to_owned();
        assert_eq!(found, [("a", place(), 1), ("a", place(), 3), ("c", place(), 3)]);
    }

    /// Functions of one device are one NIC, and so is what is below one bridge.
    #[test]
    fn nics_on_the_bus_of_a_cpu_are_taken_for_one() {
        let mut machine = Machine::default();
        for (address, name) in [
            ("0000:00:05.0", "a"),
            ("0000:00:05.1", "b"),
            ("0000:00:07.0", "c"),
            ("0000:80:01.0", "d"),
            ("0000:80:01.1", "e"),
            ("0001:00:03.0", "f"),
        ] {
            let nic = machine.nic(address, None);
            nic.infiniband = vec![name.into()];
            nic.root = format!("pci{}", &address[..7]);
        }
        machine.nic("0001:00:04.0", None).root = "pci0001:00".into();
        machine.root_port("0002:00:00.0", 0);
        machine.nic("0002:01:00.0", Some("0002:00:00.0")).infiniband = vec!["g".into()];
        machine.nic("0002:01:01.0", Some("0002:00:00.0")).infiniband = vec!["h".into()];
        let topology = Topology::new(&machine.tree);
        let devices = Devices::find(&topology, &Placement::default(), false);
        let found: Vec<Vec<&str>> = merged_by_nccl(&devices.nics)
            .iter()
            .map(|nics| nics.iter().map(|nic| nic.called()).collect())
            .collect();
        assert_eq!(found, [["a", "b", "c"]]);
    }

    #[test]
    fn a_file_may_name_the_function_itself() {
        let mut machine = Machine::default();
        let nic = machine.nic("0000:11:02.1", None);
        for (place, fits) in [("11:02.1", true), ("11:02.0", true), ("11:00.0", true)]
            .into_iter()
            .chain([("11:00.1", false), ("12:00.0", false), ("11:01.0", false)])
        {
            assert_eq!(may_be_at(nic, at(&format!("0000:{place}"))), fits, "{place}");
        }
    }
}
