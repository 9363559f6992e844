//! Evidence for checks: facts, additional readings ([`HostReadings::read`], once), and data derived from both.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::{Device, DeviceKind};
use super::rails::rails;
use super::unread::{OrUnread as _, some};
use super::{ImageState, IneffectiveArgument, NoPlan, Outcome};
use crate::kind::acs::ResolvedAcs;
use crate::kind::cmdline::show::CommandLineView;
use crate::kind::cmdline::{self, Soundness};
use crate::kind::modules::topo_check::{self, TopoCheck};
use crate::plan::Plan;
use bedplate_base::Reading;
use bedplate_base::value::PciAddress;
use bedplate_facts::aer::AerTotals;
use bedplate_facts::cuda_library::{self, CudaLibrary};
use bedplate_facts::fabric::{self, Fabric};
use bedplate_facts::flow_control::{self, Congestion};
use bedplate_facts::imex::{self, Imex};
use bedplate_facts::kernel_log;
use bedplate_facts::limits::{self, Limits};
use bedplate_facts::nccl_conf::{self, NcclConf};
use bedplate_facts::nvidia_modules::{self, GspFirmware};
use bedplate_facts::pci::Function;
use bedplate_facts::placement::Placement;
use bedplate_facts::rdma::RdmaPort;
use bedplate_facts::storage::{self, Storage};
use bedplate_facts::topology::devices::Devices;
use bedplate_facts::topology::{Pair, Peer, Topology};
use bedplate_facts::vfs::{self, VfFacts};
use bedplate_facts::{Facts, aer, legacy_modules, rdma, rebar, superchip};
use bedplate_host::{HostKind, KernelLog, Reader, module};
use bedplate_nccl::Library;

const MELLANOX: u16 = 0x15b3;

/// Readings of a host in addition to its facts.
#[derive(Debug)]
pub struct HostReadings {
    /// Kernel command line in its states.
    pub command_line: CommandLineView,
    /// Whether the default boot entry can be expected to boot. `None`: an image without a boot entry.
    pub boot_entry: Option<Soundness>,
    /// Arguments of the running kernel and of the next boot that a lint reports.
    pub suspect: Vec<IneffectiveArgument>,
    /// PCIe error counters of GPUs, RDMA NICs and the ports above them. `Absent`: not counted.
    pub aer: BTreeMap<PciAddress, Reading<AerTotals>>,
    /// Largest possible size of a GPU's large window. `Absent`: the size is fixed.
    pub window: BTreeMap<PciAddress, Reading<u64>>,
    /// Ports of RDMA NICs.
    pub ports: Vec<RdmaPort>,
    /// Congestion control of the RoCE ports among them.
    pub congestion: Congestion,
    /// Variables of the collective library for all jobs.
    pub nccl_conf: NcclConf,
    /// NVSwitches and the programs that set them up.
    pub fabric: Fabric,
    /// IMEX. `None`: it is not set up, or the host has no use for it.
    pub imex: Option<Imex>,
    /// Library of the NVIDIA driver.
    pub cuda_library: Reading<CudaLibrary>,
    /// Firmware that the open kernel modules load into the GPUs.
    pub gsp_firmware: Reading<GspFirmware>,
    /// Configuration and modules of GPUDirect Storage.
    pub storage: Storage,
    /// Limits of jobs.
    pub limits: Limits,
    /// VFs of NICs.
    pub vfs: VfFacts,
    /// Whether the running kernel was built with the option that GPUs of NVIDIA's Arm CPUs need. `Absent`: the host has
    /// none of these GPUs.
    pub smmu_sva: Reading<bool>,
    /// Topology check of the NVIDIA driver.
    pub topo_check: TopoCheck,
    /// Whether nvidia_peermem is loaded.
    pub peermem: Reading<bool>,
    /// Whether nv_peer_mem, its predecessor, is loaded.
    pub nv_peer_mem: Reading<bool>,
    /// Lists of modules for the boot that name an obsolete module: the file and the module.
    pub leftovers: Reading<Vec<(String, String)>>,
    /// Recognised lines of the kernel log. `Absent`: the log is not shown here.
    pub kernel_log: Reading<KernelLog>,
    /// Whether modules that the kernel log complains about are loaded by now.
    pub complained_of: BTreeMap<String, Reading<bool>>,
}

impl HostReadings {
    /// Reads the host. `suspect`: arguments reported by lints. `log`: kernel log, from whichever source.
    pub fn read(
        reader: &dyn Reader,
        facts: &Facts,
        command_line: CommandLineView,
        suspect: Vec<IneffectiveArgument>,
        log: Reading<KernelLog>,
    ) -> Self {
        let modules = log.known().map(kernel_log::modules).unwrap_or_default().into_iter();
        let complained_of =
            modules.map(|module| (module.clone(), is_loaded(reader, &module))).collect();
        let mut observed = HostReadings {
            command_line,
            boot_entry: match facts.host {
                HostKind::Image => cmdline::soundness_of_image(reader, facts),
                _ => Some(cmdline::soundness(reader, facts)),
            },
            suspect,
            aer: BTreeMap::new(),
            window: BTreeMap::new(),
            ports: Vec::new(),
            congestion: Congestion::none(),
            smmu_sva: superchip::smmu_sva(reader, facts),
            topo_check: topo_check::observe(reader),
            peermem: is_live(reader, "nvidia_peermem"),
            vfs: VfFacts::default(),
            nccl_conf: nccl_conf::observe(reader, Library::file_of_host(facts)),
            fabric: fabric::observe(reader, facts.pci.known(), facts.cpu.is_virtual()),
            imex: imex::observe(reader, facts.pci.known()),
            cuda_library: cuda_library::observe(reader),
            gsp_firmware: nvidia_modules::observe(
                reader,
                &facts.gpu,
                facts.os.kernel.known().map(String::as_str),
            ),
            storage: storage::read(reader, facts),
            limits: limits::read(reader, facts.pci.known()),
            nv_peer_mem: is_loaded(reader, "nv_peer_mem"),
            leftovers: legacy_modules::listed(reader),
            kernel_log: log,
            complained_of,
        };
        let Some(tree) = facts.pci.known() else { return observed };
        observed.vfs = vfs::read(reader, tree);
        for function in tree.functions.values().filter(|function| !function.is_vf()) {
            if function.is_gpu() {
                let largest = rebar::largest_possible(reader, function);
                observed.window.insert(function.address, largest);
            } else if !function.is_nic() && !function.is_data_direct() {
                continue;
            }
            observed.ports.extend(rdma::ports(reader, function));
            let path = tree.path_up(function.address);
            for at in path.into_iter().chain([function.address]) {
                let Some(counted) = tree.get(at) else { continue };
                observed.aer.entry(at).or_insert_with(|| aer::totals(reader, counted));
            }
        }
        let conf = Library::file_of_host(facts);
        observed.congestion = flow_control::read(reader, tree, &observed.ports, conf);
        observed
    }
}

/// Whether the module is active: not still being loaded or unloaded.
fn is_live(reader: &dyn Reader, module: &str) -> Reading<bool> {
    match module.parse() {
        Ok(name) => module::is_live(reader, &name),
        Err(_) => Reading::unknown(format!("{module} is not a module name")),
    }
}

fn is_loaded(reader: &dyn Reader, module: &str) -> Reading<bool> {
    Reading::from_result(module::is_loaded(reader, module))
}

/// The profile, and the changes to make until the host matches it.
#[derive(Debug, Clone, Copy)]
pub struct ProfileState<'a> {
    /// Profile name.
    pub name: &'a str,
    /// The plan.
    pub plan: &'a Plan,
    /// State of an image in addition to the plan. `None`: the host is not an image.
    pub image: Option<&'a ImageState>,
}

/// Evidence for checks.
pub struct CheckInput<'a> {
    /// Facts about the host.
    pub facts: &'a Facts,
    /// Readings in addition to the facts.
    pub observed: &'a HostReadings,
    /// ACS bits that the host's PCIe topology requires.
    pub acs: &'a ResolvedAcs,
    /// The profile and its plan. `Ok(None)`: the host has no profile.
    pub profile: Result<Option<ProfileState<'a>>, NoPlan>,
    /// GPUs used by the host itself: no VFs, none assigned to a VM, no display card next to accelerators.
    pub gpus: Vec<&'a Function>,
    /// RDMA-capable NICs used by the host itself, PFs and VFs: with an RDMA device, from Mellanox, or below the same
    /// switch as a GPU. Management ports do not count.
    pub rdma_nics: Vec<&'a Function>,
    /// Those of these NICs, without VFs, that jobs use for GPUDirect RDMA.
    pub rails: Vec<&'a Function>,
    /// DMA functions that carry the traffic of a NIC (Data Direct) and are used by the host itself.
    pub data_direct: Vec<&'a Function>,
    /// Unresponsive GPUs, RDMA NICs and Data Direct functions of the host; the lists above exclude them.
    pub dead: Vec<&'a Function>,
    /// Functions assigned to VMs.
    pub guests: Vec<PciAddress>,
    /// Positions of functions. `None`: the PCI tree could not be read.
    topology: Option<Topology<'a>>,
}

impl<'a> CheckInput<'a> {
    /// Derives the data that most checks need.
    pub fn new(
        facts: &'a Facts,
        observed: &'a HostReadings,
        acs: &'a ResolvedAcs,
        profile: Result<Option<ProfileState<'a>>, NoPlan>,
    ) -> Self {
        let mut evidence = CheckInput {
            facts,
            observed,
            acs,
            profile,
            gpus: Vec::new(),
            rdma_nics: Vec::new(),
            rails: Vec::new(),
            data_direct: Vec::new(),
            dead: Vec::new(),
            guests: Vec::new(),
            topology: None,
        };
        let Some(tree) = facts.pci.known() else { return evidence };
        let topology = Topology::new(tree);
        let near: BTreeSet<PciAddress> = topology.pairs().iter().map(|pair| pair.peer).collect();
        let carries = |function: &Function| {
            !function.infiniband.is_empty()
                || function.vendor.0 == MELLANOX
                || near.contains(&function.address)
        };
        let may_carry = |function: &Function| {
            carries(function) || function.physfn.and_then(|pf| tree.get(pf)).is_some_and(carries)
        };
        for function in tree.functions.values() {
            if function.vfio {
                evidence.guests.push(function.address);
            }
            if tree.may_be_a_guests(function) {
                continue;
            }
            let list = match function {
                gpu if gpu.is_gpu() && !gpu.is_vf() => &mut evidence.gpus,
                nic if nic.is_nic() && may_carry(nic) => &mut evidence.rdma_nics,
                dma if dma.is_data_direct() => &mut evidence.data_direct,
                _ => continue,
            };
            match function.is_dead() {
                true => evidence.dead.push(function),
                false => list.push(function),
            }
        }
        without_displays(&mut evidence.gpus);
        evidence.guests.extend(tree.unlisted_guests.iter().map(|guest| guest.address));
        let pfs: Vec<&Function> =
            evidence.rdma_nics.iter().filter(|nic| !nic.is_vf()).copied().collect();
        evidence.rails = rails(&topology, &evidence.gpus, &pfs, &evidence.data_direct);
        evidence.topology = Some(topology);
        evidence
    }

    /// Returns the positions of functions.
    ///
    /// # Errors
    /// The outcome to report if the PCI tree could not be read.
    pub fn topology(&self) -> Result<&Topology<'a>, Outcome> {
        self.facts.pci.or_unread("the PCI functions")?;
        self.topology.as_ref().ok_or_else(|| {
            Outcome::unknown("no PCI functions are visible on this host")
                .evidence("not there", "/sys/bus/pci/devices")
        })
    }

    /// Returns pairs of a GPU and a matching peer that share a switch, both used by the host itself.
    ///
    /// # Errors
    /// [`CheckInput::topology`].
    pub fn pairs(&self, is_wanted: impl Fn(Peer) -> bool) -> Result<Vec<Pair>, Outcome> {
        let topology = self.topology()?;
        let tree = topology.tree();
        let is_the_hosts = |at| tree.get(at).is_some_and(|f| !tree.may_be_a_guests(f));
        let mut pairs = topology.pairs();
        pairs.retain(|pair| {
            is_wanted(pair.kind) && is_the_hosts(pair.gpu) && is_the_hosts(pair.peer)
        });
        Ok(pairs)
    }

    /// Returns a device in the form that codes use.
    pub fn device(&self, function: &Function) -> Device {
        let kind = match function {
            port if port.is_bridge() => DeviceKind::Port,
            gpu if gpu.is_gpu() => DeviceKind::Gpu,
            dma if dma.is_data_direct() => DeviceKind::DataDirect,
            switch if switch.is_nvswitch() => DeviceKind::NvSwitch,
            _ => DeviceKind::Nic,
        };
        let devices =
            self.topology.as_ref().map(|all| Devices::find(all, &Placement::default(), true));
        let found = devices.as_ref().and_then(|all| all.at(function.address));
        let name = found.and_then(|device| match kind {
            DeviceKind::Gpu => Some(device.id.clone()),
            _ => device.name.clone(),
        });
        Device { kind, function: function.address, name }
    }

    /// Returns [`CheckInput::gpus`], for a check that needs at least one.
    ///
    /// # Errors
    /// The outcome to report if there is no GPU.
    pub fn some_gpus(&self) -> Result<&[&'a Function], Outcome> {
        self.topology()?;
        match self.gpus.is_empty() {
            true => Err(Outcome::not_applicable("no GPU used by the host itself")),
            false => Ok(&self.gpus),
        }
    }

    /// Returns [`CheckInput::rdma_nics`] without VFs, for a check that needs at least one.
    ///
    /// # Errors
    /// The outcome to report if there is no PF.
    pub fn some_rdma_pfs(&self) -> Result<Vec<&'a Function>, Outcome> {
        self.topology()?;
        let pfs = self.rdma_nics.iter().filter(|nic| !nic.is_vf());
        some(pfs.copied().collect(), "no RDMA NIC used by the host itself")
    }

    /// Returns the unknown outcome for an unreadable bridge above GPUs, RDMA NICs and Data Direct functions: a check of
    /// their path must not pass without it.
    pub fn gap_above(&self) -> Option<Outcome> {
        let topology = self.topology.as_ref()?;
        let tree = topology.tree();
        let ends = [&self.gpus[..], &self.rdma_nics, &self.data_direct].concat();
        // Conventional PCI devices have no such ports above them.
        for end in ends.into_iter().filter(|end| !matches!(end.port, Reading::Absent)) {
            for at in tree.path_up(end.address) {
                let (says, seen, place) = match tree.get(at) {
                    None => (
                        "is not listed or unreadable",
                        "not known",
                        format!("/sys/bus/pci/devices/{at}"),
                    ),
                    Some(bridge) if matches!(bridge.port, Reading::Absent) => (
                        "has no PCI Express capability, so its port type is unknown",
                        "no such capability",
                        bridge.attribute("config"),
                    ),
                    Some(_) => continue,
                };
                let text = format!("bridge {at} above {} {says}", end.address);
                return Some(Outcome::unknown(text).evidence(seen, place));
            }
        }
        None
    }

    /// Returns GPUs, RDMA NICs with VFs, and Data Direct functions of the host, for a check that needs at least one.
    ///
    /// # Errors
    /// The outcome to report if there is no such function.
    pub fn expect_carriers(&self) -> Result<Vec<&'a Function>, Outcome> {
        self.topology()?;
        let all = [&self.gpus[..], &self.rdma_nics, &self.data_direct].concat();
        some(all, "no GPU and no RDMA NIC used by the host itself")
    }
}

/// Removes VGA controllers (class 0x0300) if accelerators outnumber them: no job runs on the display card.
fn without_displays(gpus: &mut Vec<&Function>) {
    let is_display = |gpu: &&Function| gpu.class >> 8 == 0x0300;
    if gpus.iter().filter(|gpu| is_display(gpu)).count() * 2 < gpus.len() {
        gpus.retain(|gpu| !is_display(gpu));
    }
}
