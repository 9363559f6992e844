//! PCI locations as NCCL sees them, which may differ from the real ones (handbook §8.1; NCCL 2.30
//! src/transport/net_ib/init.cc, src/graph/xml.cc). Pure.
//!
//! NCCL puts every RDMA device at device 0, function 0 of its bus, so that ports and VFs (NCCL_IB_MERGE_VFS) of an
//! adapter are one NIC. If that function does not exist on the bus, NCCL attaches the NIC to the first CPU of its file,
//! wherever the NIC is. Here it keeps its own location, which NCCL accepts from a file.

use std::collections::{BTreeMap, BTreeSet};

use bedplate_base::value::PciAddress;
use bedplate_facts::pci::Function;
use bedplate_facts::placement::Placement;
use bedplate_facts::topology::Topology;
use bedplate_facts::topology::devices::{Device, DeviceClass};

/// A net in NCCL's terms: an active port of an RDMA device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Net {
    /// `mlx5_0`, or `mlx5_0_dma` if the path is that of a Data Direct function.
    pub name: String,
    /// Function at which NCCL puts it, or its own if that one does not exist.
    pub place: PciAddress,
    /// Port number. If several devices are one NIC, the number among all their ports.
    pub port: u32,
    /// Rate in Mb/s.
    pub megabits: Option<u32>,
}

/// Returns the location that NCCL assigns to an RDMA device without a Data Direct function.
pub(crate) fn place(function: PciAddress) -> PciAddress {
    PciAddress { device: 0, function: 0, ..function }
}

/// Returns the location for NCCL of an RDMA device without a Data Direct function.
fn location(topology: &Topology, function: PciAddress) -> PciAddress {
    let merged = place(function);
    if topology.tree().get(merged).is_some() { merged } else { function }
}

/// Returns the nets of a host in NCCL's order: by PCI address of the device (NCCL_IB_DEVICE_PCI_ORDER). NICs with a Data
/// Direct function have its location (NCCL_IB_DATA_DIRECT, since 2.27).
pub fn nets(topology: &Topology, nics: &[Device], placement: &Placement) -> Vec<Net> {
    let direct = by_data_direct(nics);
    let mut nets = Vec::new();
    // Number of nets on each bus so far.
    let mut ports: BTreeMap<(u32, u8), u32> = BTreeMap::new();
    for function in topology.tree().functions.values() {
        let dma = direct.get(&function.address).copied();
        for name in &function.infiniband {
            for port in placement.ports.get(name).into_iter().flatten().filter(|port| port.active) {
                let place = dma.unwrap_or_else(|| location(topology, function.address));
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

/// Returns the RDMA devices of physical functions as nets, regardless of port state. VFs are left out: they change, and a
/// container has others than the host.
pub(crate) fn physical(topology: &Topology, nics: &[Device]) -> Vec<Net> {
    let direct = by_data_direct(nics);
    let functions = topology.tree().functions.values().filter(|function| !function.is_vf());
    let net = |(function, name): (&Function, &String)| match direct.get(&function.address) {
        Some(dma) => Net { name: format!("{name}_dma"), place: *dma, port: 1, megabits: None },
        None => {
            let place = location(topology, function.address);
            Net { name: name.clone(), place, port: 1, megabits: None }
        }
    };
    let devices = functions.flat_map(|one| one.infiniband.iter().map(move |name| (one, name)));
    devices.map(net).collect()
}

/// Maps NICs to their Data Direct function.
fn by_data_direct(nics: &[Device]) -> BTreeMap<PciAddress, PciAddress> {
    let dmas = nics.iter().filter(|device| device.class == DeviceClass::DataDirect);
    dmas.flat_map(|dma| dma.of.iter().map(|nic| (*nic, dma.address()))).collect()
}

/// Returns the RDMA NICs that NCCL wrongly treats as ports of one NIC: several devices on a bus of the CPU itself, as in
/// VMs without bridges. Ordered by bus. Devices on a bridge's bus are one card and are left out.
pub fn merged_by_nccl<'d, 'a>(nics: &'d [Device<'a>]) -> Vec<Vec<&'d Device<'a>>> {
    let mut buses: BTreeMap<(u32, u8), Vec<&Device>> = BTreeMap::new();
    // NICs with a Data Direct function have its location.
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

/// Whether NCCL may put an RDMA device of this function at `address`: at NCCL's location, or, without
/// NCCL_IB_MERGE_VFS, at function 0 of its device. A handwritten file may also name the function itself.
pub(crate) fn may_be_at(function: &Function, address: PciAddress) -> bool {
    let own = function.address;
    [own, PciAddress { function: 0, ..own }, place(own)].contains(&address)
}

/// Returns the switches above a function as NCCL sees them, nearest first. NCCL climbs two levels at a time, a downstream
/// port and the upstream port above it, and skips a root port (handbook §8.1).
pub fn switches(topology: &Topology, address: PciAddress) -> Vec<PciAddress> {
    topology.tree().path_up(address).chunks_exact(2).map(|ports| ports[1]).collect()
}

/// Returns the NUMA node below which NCCL puts a function: that of the last switch it climbs to; −1 if unknown.
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

    /// Ports, functions and VFs of one adapter are ports of one NIC; ports that are down do not count.
    #[test]
    fn adapter_with_several_functions_is_one_nic() {
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

    /// Functions of one device are one NIC, and so are devices below one bridge.
    #[test]
    fn nics_on_a_root_bus_are_merged() {
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
    fn file_may_name_the_function_itself() {
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
