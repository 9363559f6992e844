//! Where an imported topology and sysfs disagree. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::Imported;
use super::nccl::{File, Function};
use super::smi::{self, Matrix, Row};
use crate::facts::pci;
use crate::facts::placement::Placement;
use crate::host::Reading;
use crate::nccl::library::Library;
use crate::topology::devices::{Device, Devices, Sort};
use crate::topology::{Distance, Topology, cpulist, nccl};
use crate::value::PciAddress;

/// The host.
#[derive(Debug, Clone, Copy)]
pub struct Here<'h, 'a> {
    /// Its tree.
    pub topology: &'h Topology<'a>,
    /// Its devices.
    pub devices: &'h Devices<'a>,
    /// CPUs of its nodes.
    pub placement: &'h Placement,
    /// Library of its GPUs.
    pub library: Library,
}

/// One disagreement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Subject.
    pub about: String,
    /// Content of the file.
    pub file: String,
    /// What sysfs says, or what follows.
    pub here: String,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Compared {
    /// Where they disagree.
    pub findings: Vec<Finding>,
    /// Statements of the file that agree.
    pub agreeing: usize,
    /// Statements about which sysfs knows nothing.
    pub unknown: usize,
    /// NICs of a matrix that its legend does not name, so that nobody can say which they are.
    pub unnamed: usize,
}

impl Compared {
    fn check(&mut self, agrees: bool, finding: impl FnOnce() -> (String, String, String)) {
        if agrees {
            self.agreeing += 1;
            return;
        }
        let (about, file, here) = finding();
        let finding = Finding { about, file, here };
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }
}

/// Compares.
pub fn compare(imported: &Imported, here: Here) -> Compared {
    let mut compared = Compared::default();
    match imported {
        Imported::Nccl(file) => of_xml(file, here, &mut compared),
        Imported::Smi(matrix) => of_matrix(matrix, here, &mut compared),
    }
    compared
}

fn of_xml(file: &File, here: Here, compared: &mut Compared) {
    let wanted = here.library.topology_version().to_string();
    compared.check(file.version.as_ref() == Some(&wanted), || {
        let version =
            file.version.as_ref().map_or("none".to_owned(), |version| format!("{version:?}"));
        ("version".to_owned(), version, format!("{wanted}: {} takes no other", here.library))
    });
    let mut nodes = BTreeSet::new();
    for (numaid, affinity) in &file.cpus {
        let about = || format!("cpu numaid={numaid}");
        let once = nodes.insert(numaid);
        compared.check(once, || (about(), "twice".to_owned(), "once".to_owned()));
        let node = numaid.parse().ok();
        let known =
            node.is_some_and(|node| node == -1 || here.placement.node_cpus.contains_key(&node));
        let all: Vec<String> = here.placement.node_cpus.keys().map(i32::to_string).collect();
        if !all.is_empty() {
            let nodes = || format!("NUMA nodes {} alone", all.join(", "));
            compared.check(known, || (about(), "a NUMA node".to_owned(), nodes()));
        }
        let cpus = affinity.as_deref().map(cpulist::of_mask);
        if let (Some(cpus), true, Some(node)) = (cpus, known, node) {
            affinity_of(here, node, cpus, &about(), compared);
        }
    }
    let mut seen: BTreeMap<PciAddress, &Function> = BTreeMap::new();
    for function in &file.functions {
        let about = || format!("busid {:?}", function.busid);
        let Ok(address) = function.busid.parse::<PciAddress>() else {
            compared
                .check(false, || (about(), "a bus id".to_owned(), "not a PCI address".to_owned()));
            continue;
        };
        let once = seen.insert(address, function).is_none();
        compared.check(once, || (about(), "twice".to_owned(), "once".to_owned()));
        of_function(function, address, here, compared);
    }
    missing(&seen, file, here, compared);
}

fn of_function(function: &Function, address: PciAddress, here: Here, compared: &mut Compared) {
    let about = || address.to_string();
    match here.topology.tree().get(address) {
        Some(own) => identity(function, own, &about(), compared),
        None => {
            let made_up = function.nets.iter().any(|net| {
                let rdma = named(net.strip_suffix("_dma").unwrap_or(net), here);
                rdma.is_some_and(|nic| nccl::place(nic.address) == address)
            });
            let missing = || (about(), "a PCI function".to_owned(), "no such function".to_owned());
            compared.check(made_up, missing);
            if !made_up {
                return;
            }
        }
    }
    let above = here.topology.nccl_switches(address).first().copied();
    let below = |above: Option<String>| {
        above.map_or("directly below the CPU".to_owned(), |above| format!("below {above}"))
    };
    let said = function.above.as_ref().map(|above| above.parse::<PciAddress>().ok());
    compared.check(said == above.map(Some), || {
        (about(), below(function.above.clone()), below(above.map(|above| above.to_string())))
    });
    if function.above.is_none() {
        let node = here.topology.nccl_node(address).to_string();
        compared.check(function.numaid == node, || {
            (about(), format!("NUMA node {}", function.numaid), format!("NUMA node {node}"))
        });
    }
    nets(function, address, here, compared);
}

/// What a function is.
fn identity(function: &Function, own: &pci::Function, about: &str, compared: &mut Compared) {
    if function.gpu {
        let what = || format!("{}:{} of class 0x{:06x}", own.vendor, own.device, own.class);
        compared.check(own.is_gpu(), || (about.to_owned(), "a GPU".to_owned(), what()));
    }
    if let Some(class) = &function.class {
        let whole = format!("0x{:06x}", own.class);
        compared.check(whole.starts_with(class.as_str()), || {
            (about.to_owned(), format!("class {class}"), whole.clone())
        });
    }
}

/// The RDMA device of that name.
fn named<'h>(name: &str, here: Here<'h, '_>) -> Option<&'h pci::Function> {
    let functions = here.topology.tree().functions.values();
    functions.into_iter().find(|f| f.infiniband.iter().any(|own| own == name))
}

/// RDMA devices that are said to be at a function.
fn nets(function: &Function, address: PciAddress, here: Here, compared: &mut Compared) {
    for net in &function.nets {
        let (name, direct) = match net.strip_suffix("_dma") {
            Some(name) => (name, true),
            None => (net.as_str(), false),
        };
        let Some(nic) = named(name, here) else {
            let what = || {
                (format!("net {net}"), format!("at {address}"), "no such RDMA device".to_owned())
            };
            compared.check(false, what);
            continue;
        };
        let dma = here.devices.nics.iter().any(|dma| {
            dma.sort == Sort::DataDirect
                && dma.address() == address
                && dma.of.contains(&nic.address)
        });
        let fits = if direct { dma } else { nccl::may_be_at(nic, address) };
        compared.check(fits, || {
            let whose = if direct { "the NIC is at " } else { "at " };
            (format!("net {net}"), format!("at {address}"), format!("{whose}{}", nic.address))
        });
    }
}

/// What NCCL would have to add.
fn missing(
    seen: &BTreeMap<PciAddress, &Function>,
    file: &File,
    here: Here,
    compared: &mut Compared,
) {
    for gpu in &here.devices.gpus {
        let there = seen.get(&gpu.address()).is_some_and(|function| function.gpu);
        compared.check(there, || {
            (format!("{} {}", gpu.id, gpu.address()), "not there".to_owned(), "a GPU".to_owned())
        });
    }
    let nets: BTreeSet<&str> =
        file.functions.iter().flat_map(|f| &f.nets).map(String::as_str).collect();
    for net in nccl::nets(here.topology, &here.devices.nics, here.placement) {
        let name = net.name.strip_suffix("_dma").unwrap_or(&net.name);
        let there = nets.contains(name) || nets.contains(format!("{name}_dma").as_str());
        let at = named(name, here).map(|nic| nic.address);
        compared.check(there, || {
            let here = at.map_or_else(String::new, |at| format!("at {at}"));
            (format!("net {name}"), "not there".to_owned(), here)
        });
    }
}

/// CPUs that are said to be a node's.
fn affinity_of(
    here: Here,
    node: i32,
    cpus: Option<BTreeSet<u32>>,
    about: &str,
    compared: &mut Compared,
) {
    let of = |node| match here.placement.node_cpus.get(&node) {
        Some(Reading::Known(list)) => cpulist::of_list(list),
        _ => None,
    };
    let (Some(said), Some(own)) = (cpus, of(node)) else {
        compared.unknown += 1;
        return;
    };
    compared.check(said == own, || {
        let whose =
            here.placement.node_cpus.keys().find(|other| of(**other).as_ref() == Some(&said));
        let whose =
            whose.map(|other| format!(", which are those of node {other}")).unwrap_or_default();
        let file = format!("CPUs {}{whose}", cpulist::list(&said));
        (about.to_owned(), file, format!("CPUs {}", cpulist::list(&own)))
    });
}

fn of_matrix(matrix: &Matrix, here: Here, compared: &mut Compared) {
    let is_gpu = |name: &&String| smi::is_numbered(name, "GPU");
    let gpus = (matrix.columns.iter().filter(is_gpu).count(), here.devices.gpus.len());
    compared.check(gpus.0 == gpus.1, || {
        let several = |count: usize| format!("{count} GPU{}", if count == 1 { "" } else { "s" });
        ("GPUs".to_owned(), several(gpus.0), several(gpus.1))
    });
    let legend: BTreeMap<&str, &str> =
        matrix.legend.iter().map(|(nic, name)| (nic.as_str(), name.as_str())).collect();
    let find = |column: &str| -> Option<&Device> {
        if let Some(number) = column.strip_prefix("GPU").and_then(|n| n.parse::<usize>().ok()) {
            return here.devices.gpus.get(number);
        }
        let name = legend.get(column).copied().unwrap_or(column);
        here.devices.nics.iter().find(|nic| nic.name.as_deref() == Some(name))
    };
    let devices: Vec<Option<&Device>> = matrix.columns.iter().map(|column| find(column)).collect();
    for (column, device) in matrix.columns.iter().zip(&devices) {
        let called = legend.get(column.as_str());
        if called.is_none() && device.is_none() && smi::is_numbered(column, "NIC") {
            compared.unnamed += 1;
            continue;
        }
        let called = called.map(|name| format!(" ({name})")).unwrap_or_default();
        let what =
            || (format!("{column}{called}"), "a device".to_owned(), "no such device".to_owned());
        compared.check(device.is_some(), what);
    }
    for row in &matrix.rows {
        let Some(own) = find(&row.device) else { continue };
        for ((column, device), cell) in matrix.columns.iter().zip(&devices).zip(&row.cells) {
            let Some(device) = device else { continue };
            of_cell((row, own), (column, device), cell, here, compared);
        }
        of_row(row, own, here, compared);
    }
}

fn of_cell(
    (row, own): (&Row, &Device),
    (column, device): (&str, &Device),
    cell: &str,
    here: Here,
    compared: &mut Compared,
) {
    let mut pair = [row.device.as_str(), column];
    pair.sort_unstable();
    let about = || pair.join(" to ");
    let same = own.address() == device.address();
    let said = match cell {
        "X" => {
            let other = || (about(), "one device".to_owned(), "two devices".to_owned());
            return compared.check(same, other);
        }
        "PIX" => Distance::Pix,
        "PXB" => Distance::Pxb,
        "PHB" => Distance::Phb,
        "NODE" => Distance::Node,
        // SOC is what old versions say.
        "SYS" | "SOC" => Distance::Sys,
        // NVLink, which is no part of PCI, or a word of another tool.
        _ => return compared.unknown += 1,
    };
    let found = here.topology.between(&own.spot, &device.spot);
    if found == Distance::Unknown {
        return compared.unknown += 1;
    }
    compared.check(found == said && !same, || (about(), cell.to_owned(), found.to_string()));
}

/// Affinity columns.
fn of_row(row: &Row, own: &Device, here: Here, compared: &mut Compared) {
    if let Some(node) = &row.node {
        match (node.parse::<i32>().ok(), own.spot.node) {
            (Some(said), Some(found)) => compared.check(said == found, || {
                (row.device.clone(), format!("NUMA node {said}"), format!("NUMA node {found}"))
            }),
            // `N/A`, or several nodes.
            _ => compared.unknown += 1,
        }
    }
    if let (Some(cpus), Some(node)) = (&row.cpus, own.spot.node) {
        affinity_of(here, node, cpulist::of_list(cpus), &row.device, compared);
    }
}
