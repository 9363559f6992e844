//! RDMA ports of a host, with the distance of their NICs to the nearest GPU.

use bedplate_base::some_of;
use bedplate_base::value::PciAddress;
use bedplate_facts::pci::{Function, PciTree};
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
    placed(reader, tree, |nic| rdma::ports(reader, nic))
}

/// NIC that a plugin of NCCL drives instead of NCCL itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginNic {
    /// Slingshot, by libfabric (HPE cxi_ss1 driver, cass_core.h: Cassini 1 and 2).
    Slingshot,
    /// EFA, by libfabric (Linux drivers/infiniband/hw/efa/efa_main.c).
    Efa,
    /// Google's gVNIC, by GPUDirect-TCPX or TCPXO (Linux drivers/net/ethernet/google/gve/gve.h).
    Gvnic,
}

/// Returns the plugin's kind of a NIC; `None`: NCCL itself drives it.
pub fn plugin_nic(nic: &Function) -> Option<PluginNic> {
    match (nic.vendor.0, nic.device.0) {
        (0x17db, 0x0501) | (0x1590, 0x0371) => Some(PluginNic::Slingshot),
        (0x1d0f, 0xefa0..=0xefaf) => Some(PluginNic::Efa),
        (0x1ae0, 0x0042) => Some(PluginNic::Gvnic),
        _ => None,
    }
}

/// Returns the interfaces of NICs that plugins drive without verbs, as ports.
pub fn of_plugins(reader: &dyn Reader, tree: &PciTree) -> Vec<PlacedPort> {
    placed(reader, tree, |nic| {
        let is_one = plugin_nic(nic).is_some() && nic.infiniband.is_empty();
        let port = is_one.then(|| rdma::interface_port(reader, nic)).flatten();
        port.into_iter().collect()
    })
}

fn placed(
    reader: &dyn Reader,
    tree: &PciTree,
    ports: impl Fn(&Function) -> Vec<RdmaPort>,
) -> Vec<PlacedPort> {
    let topology = Topology::new(tree);
    let devices = Devices::find(&topology, &placement::observe(reader, tree), false);
    let nics =
        devices.nics.iter().filter(|one| one.class == DeviceClass::Nic && !one.function.vfio);
    let of_nic = |nic: &Device| {
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
        let ports = ports(nic.function).into_iter();
        ports.map(|port| PlacedPort { port, way, distance }).collect::<Vec<_>>()
    };
    nics.flat_map(of_nic).collect()
}

/// Returns the value of `NCCL_IB_HCA` that names exactly these ports, in order of name.
pub fn exact_port_list<'a>(ports: impl Iterator<Item = &'a RdmaPort>) -> String {
    format!("={}", names(ports).join(","))
}

/// Returns the name of a port in the lists of NCCL and other libraries, `mlx5_2:1`.
pub fn listed_name(port: &RdmaPort) -> String {
    port.name.replacen('/', ":", 1)
}

/// Whether a list can contain the name of a port.
pub fn is_listable(port: &RdmaPort) -> bool {
    port.name.chars().all(|c| c.is_ascii_alphanumeric() || "_.:/-".contains(c))
}

/// Returns the names in NCCL's format, in numerical order.
pub(crate) fn names<'a>(ports: impl Iterator<Item = &'a RdmaPort>) -> Vec<String> {
    let mut names: Vec<String> = ports.map(listed_name).collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_base::value::PciId;
    use bedplate_base::{Reading, Reason};
    use bedplate_testhosts::fixture::{Files, Machine};

    #[test]
    fn names_that_would_break_a_list_are_recognized() {
        let nic: PciAddress = "0000:18:00.0".parse().unwrap();
        let port = |name| RdmaPort::unread(nic, name, &Reason::from("not read"));
        for name in ["mlx5_0/1", "bnxt_re-bond0/1", "rocep1s0f0.1/2"] {
            assert!(is_listable(&port(name)), "{name}");
        }
        for name in ["a\nb/1", "a,b/1", "a b/1", "a=b/1", "a\u{2028}b/1", "#a/1"] {
            assert!(!is_listable(&port(name)), "{name:?}");
        }
    }

    /// The interface of a Slingshot NIC counts as a port, unlike that of an Ethernet NIC.
    #[test]
    fn interface_of_a_plugin_nic_is_a_port() {
        let mut machine = Machine::default();
        machine.nic("0000:21:00.0", None).net = vec!["hsn0".into()];
        let nic = machine.get("0000:21:00.0");
        (nic.vendor, nic.device) = (PciId(0x17db), PciId(0x0501));
        machine.nic("0000:31:00.0", None);
        let files = Files::new(&[
            ("/sys/class/net/hsn0/operstate", "up\n"),
            ("/sys/class/net/hsn0/speed", "200000\n"),
        ]);
        let found = of_plugins(&files, &machine.tree);
        let [PlacedPort { port, .. }] = &found[..] else { panic!("{found:?}") };
        assert_eq!((port.name.as_str(), port.is_active()), ("hsn0", true));
        assert_eq!(port.rate, Reading::Known("200 Gb/sec".to_owned()));
    }
}
