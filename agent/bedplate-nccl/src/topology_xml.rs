//! Generator for the file that NCCL dumps (NCCL_TOPO_DUMP_FILE) and reads (NCCL_TOPO_FILE), limited to data in sysfs
//! (handbook §8.7; NCCL src/graph/xml.cc). Pure.
//!
//! NCCL climbs two levels of sysfs at a time, so only the upstream port of each switch is present, and root ports are
//! not. All RDMA devices of a bus are one NIC at its function 00.0 (`topology::nccl`); their active ports are nets
//! below it. Attributes follow NCCL's order. Data from CUDA, NVML and verbs is left out; NCCL adds it when it reads the
//! file on its host: `sm`, `rank` and `gdr` of GPUs, `nvlink`, `c2c`, `latency`, `guid`, `maxconn` and `gdr` of NICs.
//!
//! CPUs need all attributes. NCCL adds missing ones only above GPUs of its own process, and since 2.22 merges the files
//! of all processes, in which elements are the same only if all attributes are (handbook §8.7).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::library::Library;
use crate::nets::{self, Net};
use bedplate_base::Arch;
use bedplate_base::Reading;
use bedplate_base::value::PciAddress;
use bedplate_facts::pci::{Function, Link};
use bedplate_facts::placement::Placement;
use bedplate_facts::topology::devices::{Device, Devices};
use bedplate_facts::topology::{Topology, cpulist};
use bedplate_facts::{CpuId, Facts};

/// Data source of the file.
#[derive(Debug, Clone, Copy)]
pub struct Machine<'a> {
    /// Facts, for CPUs.
    pub facts: &'a Facts,
    /// PCI functions with their links.
    pub topology: &'a Topology<'a>,
    /// GPUs and NICs.
    pub devices: &'a Devices<'a>,
    /// NUMA nodes and ports.
    pub placement: &'a Placement,
}

/// Detail of GPUs and nets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// As NCCL dumps it: numbers of GPUs, and ACTIVE ports with number and rate.
    Dump,
    /// For every process on the machine, whichever part it sees: only locations of GPUs and of RDMA devices of physical
    /// functions. NCCL removes entries that it cannot use (since 2.8). Numbers are left out, because NCCL would use
    /// them and those in a container differ. So NCCL queries them itself, and the file does not change with port
    /// states.
    Places,
}

/// An XML element.
struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    below: Vec<Element>,
}

impl Element {
    fn new(name: &'static str, attributes: Vec<(&'static str, String)>) -> Self {
        Element { name, attributes, below: Vec::new() }
    }

    /// Writes the element with two blanks per level, as ncclTopoDumpXmlRec does.
    fn write(&self, indent: usize, out: &mut String) {
        let blanks = " ".repeat(indent);
        let _ = write!(out, "{blanks}<{}", self.name);
        for (key, value) in &self.attributes {
            let _ = write!(out, " {key}=\"{}\"", escaped(value));
        }
        if self.below.is_empty() {
            out.push_str("/>\n");
            return;
        }
        out.push_str(">\n");
        self.below.iter().for_each(|element| element.write(indent + 2, out));
        let _ = writeln!(out, "{blanks}</{}>", self.name);
    }
}

/// Filters a value for NCCL, which reads up to the next quote and does not decode entities. Characters that end the
/// value and control characters are removed. NCCL accepts 255 bytes.
fn escaped(value: &str) -> String {
    let plain =
        |c: &char| c.is_ascii_graphic() && !matches!(c, '"' | '\'' | '<' | '>' | '&') || *c == ' ';
    value.chars().filter(plain).take(255).collect()
}

/// Returns the reason why the file would lack attributes of CPUs, if any.
pub fn unknown_cpu(facts: &Facts) -> Option<String> {
    let why = match (&facts.arch, &facts.cpu.id) {
        (Reading::Unknown(why), _) | (Reading::Known(Arch::X86_64), Reading::Unknown(why)) => {
            why.to_string()
        }
        (Reading::Known(Arch::X86_64), Reading::Absent) => {
            "/proc/cpuinfo has no vendor_id, cpu family or model".to_owned()
        }
        _ => return None,
    };
    Some(format!("the CPU model cannot be read ({why}): NCCL may reject the file"))
}

/// Generates the file with GPUs and RDMA devices.
pub fn xml(machine: Machine, detail: Detail) -> String {
    let Machine { facts, topology, devices, placement } = machine;
    let version = Library::of_host(facts).topology_version();
    let nets = match detail {
        Detail::Dump => nets::nets(topology, &devices.nics, placement),
        Detail::Places => nets::physical(topology, &devices.nics),
    };
    let mut nics: BTreeMap<PciAddress, Vec<(usize, Net)>> = BTreeMap::new();
    for (dev, net) in nets.into_iter().enumerate() {
        nics.entry(net.place).or_default().push((dev, net));
    }
    let (children, cpus) = (BTreeMap::new(), BTreeMap::new());
    let mut tree = Tree { machine, detail, nics, children, cpus };
    let nics: Vec<PciAddress> = tree.nics.keys().copied().collect();
    for address in devices.gpus.iter().map(Device::address).chain(nics) {
        tree.add(address);
    }
    let mut system = Element::new("system", vec![("version", version.to_string())]);
    let cpus = std::mem::take(&mut tree.cpus);
    for (node, functions) in cpus {
        let mut cpu = tree.cpu(node);
        cpu.below = functions.into_iter().map(|function| tree.pci(function)).collect();
        system.below.push(cpu);
    }
    let mut out = String::new();
    system.write(0, &mut out);
    out
}

struct Tree<'a> {
    machine: Machine<'a>,
    detail: Detail,
    /// Nets with their numbers, by the function that represents their NIC.
    nics: BTreeMap<PciAddress, Vec<(usize, Net)>>,
    /// Functions directly below a switch, sorted.
    children: BTreeMap<PciAddress, Vec<PciAddress>>,
    /// Functions directly below a CPU, by NUMA node (−1: unknown), sorted.
    cpus: BTreeMap<i32, Vec<PciAddress>>,
}

impl Tree<'_> {
    /// Adds a function, and the switches above it.
    fn add(&mut self, address: PciAddress) {
        let mut at = address;
        for switch in nets::switches(self.machine.topology, address) {
            insert(self.children.entry(switch).or_default(), at);
            at = switch;
        }
        insert(self.cpus.entry(nets::numa_node(self.machine.topology, address)).or_default(), at);
    }

    fn cpu(&self, node: i32) -> Element {
        let facts = self.machine.facts;
        let mut attributes = vec![("numaid", node.to_string())];
        let list = self.machine.placement.node_cpus.get(&node).and_then(Reading::known);
        let online = facts.cpu.online.known().and_then(|online| cpulist::of_list(online));
        let last = online.and_then(|online| online.last().copied()).unwrap_or(0);
        // NCCL writes an empty text, too, if it cannot read the list.
        let mask = list.and_then(|list| cpulist::mask(list, last));
        attributes.push(("affinity", mask.unwrap_or_default()));
        let arch = match facts.arch {
            Reading::Known(Arch::X86_64) => Some("x86_64"),
            Reading::Known(Arch::Aarch64) => Some("arm64"),
            _ => None,
        };
        attributes.extend(arch.map(|arch| ("arch", arch.to_owned())));
        if let Reading::Known(CpuId { vendor, family, model }) = &facts.cpu.id {
            attributes.push(("vendor", vendor.clone()));
            attributes.push(("familyid", family_id(*family).to_string()));
            attributes.push(("modelid", model.to_string()));
        }
        Element::new("cpu", attributes)
    }

    fn pci(&mut self, address: PciAddress) -> Element {
        let mut attributes = vec![("busid", address.to_string())];
        if let Some(function) = self.machine.topology.tree().get(address) {
            attributes.extend(identity(function));
            attributes.extend(self.link(function));
        }
        let mut pci = Element::new("pci", attributes);
        let below = self.children.remove(&address).unwrap_or_default();
        pci.below = below.into_iter().map(|child| self.pci(child)).collect();
        let gpus = &self.machine.devices.gpus;
        if let Some(dev) = gpus.iter().position(|gpu| gpu.address() == address) {
            let dev = match self.detail {
                Detail::Dump => vec![("dev", dev.to_string())],
                Detail::Places => Vec::new(),
            };
            pci.below.push(Element::new("gpu", dev));
        }
        if let Some(nets) = self.nics.remove(&address) {
            let mut nic = Element::new("nic", Vec::new());
            nic.below = nets.iter().map(|(dev, net)| element(*dev, net, self.detail)).collect();
            pci.below.push(nic);
        }
        pci
    }

    /// Returns the lower speed and the lower width of the function and the port above it.
    fn link(&self, function: &Function) -> Vec<(&'static str, String)> {
        let tree = self.machine.topology.tree();
        let of = |function: &Function| function.detail.as_ref().map(|detail| detail.link.clone());
        let own = of(function).unwrap_or_default();
        let port = function.parent.and_then(|port| of(tree.get(port)?)).unwrap_or_default();
        let speed = match (speed(&own), speed(&port)) {
            (Some(own_speed), Some(port_speed)) if port_speed < own_speed => port.max_speed,
            (None, _) => port.max_speed,
            _ => own.max_speed,
        };
        let width = own.max_width.into_iter().chain(port.max_width).min();
        let speed = ("link_speed", speed.unwrap_or_default());
        vec![speed, ("link_width", width.map(|width| width.to_string()).unwrap_or_default())]
    }
}

fn element(dev: usize, net: &Net, detail: Detail) -> Element {
    let mut attributes = vec![("name", net.name.clone())];
    if detail == Detail::Places {
        return Element::new("net", attributes);
    }
    attributes.push(("dev", dev.to_string()));
    attributes.extend(net.megabits.map(|megabits| ("speed", megabits.to_string())));
    attributes.push(("port", net.port.to_string()));
    Element::new("net", attributes)
}

/// Returns NCCL's number of a CPU family: it adds 16 times the extended family, Linux adds it once (NCCL
/// src/graph/xml.cc, Linux arch/x86/lib/cpu.c).
fn family_id(family: u32) -> u32 {
    let base = family.min(15);
    base + ((family - base) << 4)
}

fn insert(list: &mut Vec<PciAddress>, address: PciAddress) {
    if let Err(place) = list.binary_search(&address) {
        list.insert(place, address);
    }
}

fn identity(function: &Function) -> Vec<(&'static str, String)> {
    vec![
        ("class", format!("0x{:06x}", function.class)),
        ("vendor", format!("0x{}", function.vendor)),
        ("device", format!("0x{}", function.device)),
        ("subsystem_vendor", format!("0x{}", function.subsystem.0)),
        ("subsystem_device", format!("0x{}", function.subsystem.1)),
    ]
}

/// Parses `32.0 GT/s PCIe` into tenths of a GT/s.
fn speed(link: &Link) -> Option<u32> {
    let number = link.max_speed.as_deref()?.split(' ').next()?;
    let (whole, tenth) = number.split_once('.').unwrap_or((number, "0"));
    whole.parse::<u32>().ok()?.checked_mul(10)?.checked_add(tenth.parse::<u8>().ok()?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn family_numbers_are_those_of_nccl() {
        assert_eq!([6, 15, 23, 25].map(family_id), [6, 15, 143, 175]);
    }

    #[test]
    fn escaped_value_has_no_terminating_characters() {
        assert_eq!(escaped("mlx5_0"), "mlx5_0");
        assert_eq!(escaped("a\"/><b c='\u{1b}[31m&\u{e9}"), "a/b c=[31m");
        assert_eq!(escaped(&"x".repeat(300)).len(), 255);
    }
}
