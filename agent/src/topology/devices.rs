//! GPUs, NICs and disks of a host, with the numbers and names by which people know them. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Topology;
use super::spot::Spot;
use crate::facts::pci::Function;
use crate::facts::placement::Placement;
use crate::value::PciAddress;

/// What a device is to its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sort {
    /// A GPU or accelerator.
    Gpu,
    /// A network function that is no VF.
    Nic,
    /// The DMA function of a NIC that sits elsewhere.
    DataDirect,
    /// A virtual function of a NIC.
    Vf,
    /// An NVMe controller.
    Nvme,
}

/// One of them.
#[derive(Debug)]
pub struct Device<'a> {
    /// What it is.
    pub sort: Sort,
    /// The function.
    pub function: &'a Function,
    /// Its number among its kind, in PCI order, as `nvidia-smi topo` numbers: `GPU0`, `NIC0`, `NIC0v3`, `NVMe0`.
    pub id: String,
    /// What people call it: `mlx5_0` (of a Data Direct function `mlx5_0_dma`, as NCCL does), the interface, `nvme0`; `None`: it
    /// has no name.
    pub name: Option<String>,
    /// The NICs that a Data Direct function belongs to, the PF of a VF.
    pub of: Vec<PciAddress>,
    /// Where it is.
    pub spot: Spot<'a>,
}

/// All of a host, each list in PCI order.
#[derive(Debug)]
pub struct Devices<'a> {
    /// GPUs.
    pub gpus: Vec<Device<'a>>,
    /// NICs, each followed by its Data Direct functions and, where asked for, its VFs.
    pub nics: Vec<Device<'a>>,
    /// Disks.
    pub nvmes: Vec<Device<'a>>,
}

impl Device<'_> {
    /// Its address.
    pub fn address(&self) -> PciAddress {
        self.function.address
    }

    /// Its name, or its number where it has none.
    pub fn called(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.id)
    }
}

impl<'a> Devices<'a> {
    /// Looks for them. `vfs`: VFs of NICs, too.
    pub fn find(topology: &Topology<'a>, placement: &Placement, vfs: bool) -> Self {
        let functions = || topology.tree().functions.values().filter(|f| !f.is_vf());
        let make = |sort, function: &'a Function, id: String, name| {
            let spot = topology.spot(function.address)?;
            Some(Device { sort, function, id, name, of: Vec::new(), spot })
        };
        let gpus = functions().filter(|f| f.is_gpu()).enumerate();
        let gpus = gpus.filter_map(|(n, f)| make(Sort::Gpu, f, format!("GPU{n}"), None));
        let nvmes = functions().filter(|f| f.is_nvme()).enumerate();
        let nvmes = nvmes.filter_map(|(n, f)| {
            let name = placement.disks.get(&f.address).and_then(|names| names.first());
            make(Sort::Nvme, f, format!("NVMe{n}"), name.cloned())
        });
        let (gpus, nvmes) = (gpus.collect(), nvmes.collect());
        Devices { gpus, nics: nics(topology, vfs, make), nvmes }
    }

    /// All of them: GPUs, NICs, disks.
    pub fn all(&self) -> impl Iterator<Item = &Device<'a>> {
        self.gpus.iter().chain(&self.nics).chain(&self.nvmes)
    }

    /// The one at an address.
    pub fn at(&self, address: PciAddress) -> Option<&Device<'a>> {
        self.all().find(|device| device.address() == address)
    }
}

fn nics<'a>(
    topology: &Topology<'a>,
    vfs: bool,
    make: impl Fn(Sort, &'a Function, String, Option<String>) -> Option<Device<'a>>,
) -> Vec<Device<'a>> {
    let functions = || topology.tree().functions.values();
    let mut below: BTreeMap<PciAddress, Vec<Device<'a>>> = BTreeMap::new();
    let mut strays = Vec::new();
    for (number, dma) in functions().filter(|f| f.is_data_direct()).enumerate() {
        let of = topology.nics_of(dma.address);
        let nic = of.first().and_then(|nic| topology.tree().get(*nic));
        let name = nic.and_then(name_of).map(|name| format!("{name}_dma"));
        let Some(device) = make(Sort::DataDirect, dma, format!("DMA{number}"), name) else {
            continue;
        };
        let device = Device { of: of.clone(), ..device };
        match of.first() {
            Some(nic) => below.entry(*nic).or_default().push(device),
            None => strays.push(device),
        }
    }
    let mut virtuals: BTreeMap<PciAddress, Vec<&'a Function>> = BTreeMap::new();
    for vf in functions().filter(|f| vfs && f.is_nic()) {
        if let Some(pf) = vf.physfn {
            virtuals.entry(pf).or_default().push(vf);
        }
    }
    let mut found = Vec::new();
    for (number, nic) in functions().filter(|f| f.is_nic() && !f.is_vf()).enumerate() {
        let id = format!("NIC{number}");
        found.extend(make(Sort::Nic, nic, id.clone(), name_of(nic)));
        found.extend(below.remove(&nic.address).into_iter().flatten());
        for (index, vf) in virtuals.remove(&nic.address).into_iter().flatten().enumerate() {
            let device = make(Sort::Vf, vf, format!("{id}v{index}"), name_of(vf));
            found.extend(device.map(|device| Device { of: vec![nic.address], ..device }));
        }
    }
    found.extend(strays);
    found
}

/// The RDMA device, which is what NCCL and perftest ask for; else the interface.
fn name_of(function: &Function) -> Option<String> {
    function.infiniband.first().or(function.net.first()).cloned()
}
