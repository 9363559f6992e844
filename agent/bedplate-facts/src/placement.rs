//! Locality data that reports show next to the PCI tree: CPUs and socket of each NUMA node, disk names, and ports of
//! RDMA devices. Only the commands that show it read it; planning does not need it.

use std::collections::BTreeMap;

use super::pci::{Function, PciTree};
use bedplate_base::Reading;
use bedplate_base::value::PciAddress;
use bedplate_host::Reader;

/// Directory of the NUMA nodes.
const NODES: &str = "/sys/devices/system/node";
/// Directory of the CPUs.
const CPUS: &str = "/sys/devices/system/cpu";

/// Port of an RDMA device (handbook §5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RdmaPort {
    /// Port number, from 1.
    pub number: u8,
    /// `rate`, in Mb/s.
    pub megabits: Option<u32>,
    /// Whether `state` is ACTIVE.
    pub active: bool,
}

/// Locality data of a host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    /// `cpulist` of every NUMA node: `0-55,112-167`.
    pub node_cpus: BTreeMap<i32, Reading<String>>,
    /// Socket by NUMA node: `physical_package_id` of its first CPU. Nodes without CPUs or with an unknown socket are
    /// left out.
    pub sockets: BTreeMap<i32, u32>,
    /// Controllers of NVMe functions: `nvme0`.
    pub disks: BTreeMap<PciAddress, Vec<String>>,
    /// Ports of RDMA devices, by the device's name.
    pub ports: BTreeMap<String, Vec<RdmaPort>>,
}

/// Reads the data. Unreadable values are left out, except CPU lists.
pub fn observe(reader: &dyn Reader, tree: &PciTree) -> Placement {
    let (node_cpus, sockets) = nodes(reader);
    let mut found = Placement { node_cpus, sockets, ..Placement::default() };
    for function in tree.functions.values() {
        if function.is_nvme() {
            let names = reader.list(&function.attribute("nvme")).unwrap_or_default();
            let names = names.into_iter().filter(|name| name.starts_with("nvme")).collect();
            found.disks.insert(function.address, names);
        }
        for name in &function.infiniband {
            found.ports.insert(name.clone(), ports(reader, function, name));
        }
    }
    found
}

/// Reads the CPUs of every NUMA node, and the sockets of those nodes that have a known one.
pub fn nodes(reader: &dyn Reader) -> (BTreeMap<i32, Reading<String>>, BTreeMap<i32, u32>) {
    let names = reader.list(NODES).unwrap_or_default();
    let number = |name: &String| name.strip_prefix("node")?.parse::<u16>().ok().map(i32::from);
    let cpus = |node| {
        let text = reader.attribute(&format!("{NODES}/node{node}/cpulist"));
        (node, Reading::from_result(text))
    };
    let cpus: BTreeMap<i32, Reading<String>> = names.iter().filter_map(number).map(cpus).collect();
    let socket = |(node, cpus): (&i32, &Reading<String>)| Some((*node, socket(reader, cpus)?));
    let sockets = cpus.iter().filter_map(socket).collect();
    (cpus, sockets)
}

/// Returns the socket of a NUMA node. A node never spans sockets, so any of its CPUs determines the socket. The kernel
/// reports −1 if the firmware does not provide it (Documentation/ABI/stable/sysfs-devices-system-cpu).
fn socket(reader: &dyn Reader, cpus: &Reading<String>) -> Option<u32> {
    let first: u32 = cpus.known()?.split([',', '-']).next()?.parse().ok()?;
    let file = format!("{CPUS}/cpu{first}/topology/physical_package_id");
    reader.attribute(&file).ok()?.parse().ok()
}

fn ports(reader: &dyn Reader, function: &Function, device: &str) -> Vec<RdmaPort> {
    let directory = function.attribute(&format!("infiniband/{device}/ports"));
    let numbers = reader.list(&directory).unwrap_or_default();
    let mut ports: Vec<RdmaPort> = numbers
        .iter()
        .filter_map(|name| name.parse().ok())
        .map(|number| {
            let text = |name| reader.attribute(&format!("{directory}/{number}/{name}")).ok();
            let active = text("state").is_some_and(|state| state.contains("ACTIVE"));
            RdmaPort { number, megabits: text("rate").and_then(|rate| megabits(&rate)), active }
        })
        .collect();
    ports.sort_by_key(|port| port.number);
    ports
}

/// Converts `400 Gb/sec (4X NDR)`, `2.5 Gb/sec (1X SDR)` to Mb/s (drivers/infiniband/core/sysfs.c, rate_show).
fn megabits(rate: &str) -> Option<u32> {
    let number = rate.strip_suffix(')')?.split(" Gb/sec").next()?;
    let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
    let tenths: u32 = tenths.parse().ok().filter(|tenths| *tenths < 10)?;
    whole.parse::<u32>().ok()?.checked_mul(1000)?.checked_add(tenths * 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Depth, scan};
    use bedplate_host::snapshot::{Node, Snapshot};
    use bedplate_testhosts as demo;

    #[test]
    fn kernel_rate_texts_are_parsed() {
        assert_eq!(megabits("400 Gb/sec (4X NDR)"), Some(400_000));
        assert_eq!(megabits("2.5 Gb/sec (1X SDR)"), Some(2_500));
        for nonsense in ["", "fast", "400", "1.99 Gb/sec (x)", "99999999999 Gb/sec (x)"] {
            assert_eq!(megabits(nonsense), None, "{nonsense}");
        }
    }

    /// GPU memory is a node without CPUs; an offline CPU has no topology; −1 is not a socket.
    #[test]
    fn unknown_sockets_are_left_out() {
        let mut host = Snapshot::new(true);
        let mut file = |path: String, text: &str| host.insert(&path, Node::File(text.into()));
        for (node, cpus) in ["2-3,8", "4", "5-7", "", "words"].into_iter().enumerate() {
            file(format!("{NODES}/node{node}/cpulist"), &format!("{cpus}\n"));
        }
        for (cpu, socket) in [(2, "1"), (3, "9"), (4, "-1")] {
            let socket = format!("{socket}\n");
            file(format!("{CPUS}/cpu{cpu}/topology/physical_package_id"), &socket);
        }
        host.complete();
        let (cpus, sockets) = nodes(&host);
        assert_eq!(cpus.len(), 5);
        assert_eq!(sockets, [(0, 1)].into());
    }

    #[test]
    fn demo_host_has_cpus_disks_and_ports() {
        let host = demo::snapshot("gb200").unwrap();
        let Reading::Known(tree) = scan::scan(&host, Depth::Plan) else { panic!() };
        let found = observe(&host, &tree);
        assert_eq!(found.node_cpus[&1], Reading::Known("72-143".to_owned()));
        assert_eq!(found.sockets, [(0, 0), (1, 1)].into());
        assert_eq!(found.disks.values().next().unwrap(), &["nvme0"]);
        let port = RdmaPort { number: 1, megabits: Some(400_000), active: true };
        assert_eq!(found.ports["mlx5_0"], [port]);
    }
}
