//! GPUs, NICs and disks of a host, with the numbers and names that operators know. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Topology;
use super::pci_path::PciPath;
use crate::pci::Function;
use crate::placement::Placement;
use bedplate_base::value::PciAddress;

/// Role of a device for its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DeviceClass {
    /// A GPU or accelerator.
    Gpu,
    /// A network function other than a VF.
    Nic,
    /// The DMA function of a NIC that is located elsewhere.
    DataDirect,
    /// A virtual function of a NIC.
    Vf,
    /// An NVMe controller.
    Nvme,
}

/// A GPU, NIC or disk.
#[derive(Debug)]
pub struct Device<'a> {
    /// Role of the device.
    pub class: DeviceClass,
    /// PCI function.
    pub function: &'a Function,
    /// Number within its class, as in `nvidia-smi topo`: `GPU0`, `NIC0`, `NVMe0`; `NIC0v3`: a VF without an RDMA
    /// device.
    pub id: String,
    /// Usual name: `mlx5_0` (for a Data Direct function `mlx5_0_dma`, as in NCCL), the interface, or `nvme0`.
    pub name: Option<String>,
    /// NICs that a Data Direct function belongs to; the PF of a VF.
    pub of: Vec<PciAddress>,
    /// PCI location.
    pub spot: PciPath<'a>,
}

/// All devices of a host, each list in PCI order.
#[derive(Debug)]
pub struct Devices<'a> {
    /// GPUs.
    pub gpus: Vec<Device<'a>>,
    /// NICs, each followed by its Data Direct functions and, if requested, its VFs.
    pub nics: Vec<Device<'a>>,
    /// Disks.
    pub nvmes: Vec<Device<'a>>,
    /// Index of each device in [`Devices::all`].
    places: BTreeMap<PciAddress, usize>,
}

impl Device<'_> {
    /// Returns the PCI address.
    pub fn address(&self) -> PciAddress {
        self.function.address
    }

    /// Returns the name, or the number if there is no name.
    pub fn called(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.id)
    }
}

impl<'a> Devices<'a> {
    /// Finds the devices. `vfs` includes VFs of NICs.
    pub fn find(topology: &Topology<'a>, placement: &Placement, vfs: bool) -> Self {
        let functions = || topology.tree().functions.values().filter(|f| !f.is_vf());
        let make = |class, function: &'a Function, id: String, name| {
            let spot = topology.path_of(function.address)?;
            Some(Device { class, function, id, name, of: Vec::new(), spot })
        };
        let gpus = functions().filter(|f| f.is_gpu()).enumerate();
        let gpus = gpus.filter_map(|(n, f)| make(DeviceClass::Gpu, f, format!("GPU{n}"), None));
        let nvmes = functions().filter(|f| f.is_nvme()).enumerate();
        let nvmes = nvmes.filter_map(|(n, f)| {
            let name = placement.disks.get(&f.address).and_then(|names| names.first());
            make(DeviceClass::Nvme, f, format!("NVMe{n}"), name.cloned())
        });
        let (gpus, nvmes) = (gpus.collect(), nvmes.collect());
        let nics = nics(topology, vfs, make);
        let mut devices = Devices { gpus, nics, nvmes, places: BTreeMap::new() };
        devices.places = devices.all().enumerate().map(|(at, d)| (d.address(), at)).collect();
        devices
    }

    /// Iterates over GPUs, then NICs, then disks.
    pub fn all(&self) -> impl Iterator<Item = &Device<'a>> {
        self.gpus.iter().chain(&self.nics).chain(&self.nvmes)
    }

    /// Returns the device at an address.
    pub fn at(&self, address: PciAddress) -> Option<&Device<'a>> {
        let at = *self.places.get(&address)?;
        let (gpus, nics) = (self.gpus.len(), self.nics.len());
        match at.checked_sub(gpus) {
            None => self.gpus.get(at),
            Some(at) => self.nics.get(at).or_else(|| self.nvmes.get(at.checked_sub(nics)?)),
        }
    }
}

fn nics<'a>(
    topology: &Topology<'a>,
    vfs: bool,
    make: impl Fn(DeviceClass, &'a Function, String, Option<String>) -> Option<Device<'a>>,
) -> Vec<Device<'a>> {
    let functions = || topology.tree().functions.values();
    let mut below: BTreeMap<PciAddress, Vec<Device<'a>>> = BTreeMap::new();
    let mut strays = Vec::new();
    for (number, dma) in functions().filter(|f| f.is_data_direct()).enumerate() {
        let of = topology.nics_of(dma.address);
        let nic = of.first().and_then(|nic| topology.tree().get(*nic));
        let name = nic.and_then(name_of).map(|name| format!("{name}_dma"));
        let Some(device) = make(DeviceClass::DataDirect, dma, format!("DMA{number}"), name) else {
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
    let numbers = numbers(functions());
    let id = |function: &Function| numbers.get(&function.address).map(|n| format!("NIC{n}"));
    let mut found = Vec::new();
    for nic in functions().filter(|f| f.is_nic() && !f.is_vf()) {
        let own = id(nic).unwrap_or_default();
        found.extend(make(DeviceClass::Nic, nic, own.clone(), name_of(nic)));
        found.extend(below.remove(&nic.address).into_iter().flatten());
        for (index, vf) in virtuals.remove(&nic.address).into_iter().flatten().enumerate() {
            let id = id(vf).unwrap_or_else(|| format!("{own}v{index}"));
            let device = make(DeviceClass::Vf, vf, id, name_of(vf));
            found.extend(device.map(|device| Device { of: vec![nic.address], ..device }));
        }
    }
    found.extend(strays);
    found
}

/// Numbers the NICs. `nvidia-smi topo -m` numbers RDMA devices only, including VFs, in the order of their names,
/// shorter names first. The order is inferred from published matrices; NVIDIA does not document it (handbook §8.2).
/// NICs without an RDMA device follow in PCI order, so that they never use a number that `nvidia-smi` gives to another
/// NIC.
fn numbers<'a>(functions: impl Iterator<Item = &'a Function>) -> BTreeMap<PciAddress, usize> {
    let nics: Vec<&Function> = functions.filter(|f| f.is_nic()).collect();
    let (mut rdma, others): (Vec<_>, Vec<_>) =
        nics.into_iter().partition(|nic| rdma_name(nic).is_some());
    rdma.sort_by_key(|nic| rdma_name(nic).map(|name| shorter_first(name)));
    let all = rdma.into_iter().chain(others.into_iter().filter(|nic| !nic.is_vf()));
    all.enumerate().map(|(number, nic)| (nic.address, number)).collect()
}

/// Returns the sort key that orders `mlx5_2` before `mlx5_10`.
fn shorter_first(name: &str) -> (usize, &str) {
    (name.len(), name)
}

fn rdma_name(function: &Function) -> Option<&String> {
    function.infiniband.iter().min_by_key(|name| shorter_first(name))
}

/// Returns the RDMA device, which NCCL and perftest expect; otherwise the interface.
fn name_of(function: &Function) -> Option<String> {
    rdma_name(function).or(function.net.first()).cloned()
}
