//! Evidence for checks: facts, what is read beside them ([`HostReadings::read`], once), and what was worked out of both.

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
use bedplate_facts::{Facts, aer, legacy_modules, rdma, rebar};
use bedplate_host::{HostKind, KernelLog, Reader, module};
use bedplate_nccl::Library;

const MELLANOX: u16 = 0x15b3;

/// Readings of a host beside its facts.
#[derive(Debug)]
pub struct HostReadings {
    /// The kernel command line in its states.
    pub command_line: CommandLineView,
    /// Whether the default boot entry can be expected to boot; `None`: an image that has none yet.
    pub boot_entry: Option<Soundness>,
    /// Arguments of the running kernel and of the next boot that a lint knows.
    pub suspect: Vec<IneffectiveArgument>,
    /// Errors that GPUs, RDMA NICs and the ports above them have reported; `Absent`: not counted.
    pub aer: BTreeMap<PciAddress, Reading<AerTotals>>,
    /// The largest size that the large window of a GPU could have; `Absent`: it has one size only.
    pub window: BTreeMap<PciAddress, Reading<u64>>,
    /// Ports of RDMA NICs.
    pub ports: Vec<RdmaPort>,
    /// What RoCE ports among them do about congestion.
    pub congestion: Congestion,
    /// Variables of the collective library for all jobs.
    pub nccl_conf: NcclConf,
    /// NVSwitches and what sets them up.
    pub fabric: Fabric,
    /// IMEX; `None`: it is not set up, or for nothing.
    pub imex: Option<Imex>,
    /// The NVIDIA driver's library.
    pub cuda_library: Reading<CudaLibrary>,
    /// Firmware that the open kernel modules load into its GPUs.
    pub gsp_firmware: Reading<GspFirmware>,
    /// What GPUDirect Storage goes by.
    pub storage: Storage,
    /// What jobs run under.
    pub limits: Limits,
    /// VFs of NICs.
    pub vfs: VfFacts,
    /// The topology check of NVIDIA's driver.
    pub topo_check: TopoCheck,
    /// Whether nvidia_peermem is loaded.
    pub peermem: Reading<bool>,
    /// Whether nv_peer_mem, its predecessor, is loaded.
    pub nv_peer_mem: Reading<bool>,
    /// Lists of modules for the boot that name one of the old ways: the file and the module.
    pub leftovers: Reading<Vec<(String, String)>>,
    /// Lines of the kernel's log that mean something; `Absent`: it is not shown here.
    pub kernel_log: Reading<KernelLog>,
    /// Whether modules that it complains of are loaded all the same.
    pub complained_of: BTreeMap<String, Reading<bool>>,
}

impl HostReadings {
    /// Reads it; `suspect`: what lints say of the command line; `log`: what the kernel's says, wherever it was read.
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

/// Whether it is at work: one that is still being loaded, or on its way out, is not.
fn is_live(reader: &dyn Reader, module: &str) -> Reading<bool> {
    match module.parse() {
        Ok(name) => module::is_live(reader, &name),
        Err(_) => Reading::unknown(format!("{module} is no module's name")),
    }
}

fn is_loaded(reader: &dyn Reader, module: &str) -> Reading<bool> {
    Reading::from_result(module::is_loaded(reader, module))
}

/// The profile, and what is left to do until the host is what it says.
#[derive(Debug, Clone, Copy)]
pub struct ProfileState<'a> {
    /// Its name.
    pub name: &'a str,
    /// The plan.
    pub plan: &'a Plan,
    /// State of an image beside the plan; `None`: the host is none.
    pub image: Option<&'a ImageState>,
}

/// Evidence for checks.
pub struct CheckInput<'a> {
    /// Facts about the host.
    pub facts: &'a Facts,
    /// What else was read.
    pub observed: &'a HostReadings,
    /// The ACS bits that the shapes of its fabrics want.
    pub acs: &'a ResolvedAcs,
    /// The profile, where there is one.
    pub profile: Result<Option<ProfileState<'a>>, NoPlan>,
    /// GPUs that the host itself uses: no VFs, none that a guest has, no display card beside accelerators.
    pub gpus: Vec<&'a Function>,
    /// NICs that may carry RDMA and that the host itself uses, PFs and VFs: with an RDMA device, ConnectX, or below one switch
    /// with a GPU. A port for management is none.
    pub rdma_nics: Vec<&'a Function>,
    /// Those of them, without VFs, that jobs use for GPUDirect RDMA.
    pub rails: Vec<&'a Function>,
    /// DMA functions that carry the traffic of a NIC (Data Direct) and that the host itself uses.
    pub data_direct: Vec<&'a Function>,
    /// GPUs, RDMA NICs and Data Direct functions of the host that do not answer; those above have none of them.
    pub dead: Vec<&'a Function>,
    /// Functions that guests have.
    pub guests: Vec<PciAddress>,
    /// Where functions are; `None`: the PCI tree could not be read.
    topology: Option<Topology<'a>>,
}

impl<'a> CheckInput<'a> {
    /// Works out of what was read what most checks ask for.
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

    /// Where functions are.
    ///
    /// # Errors
    /// The outcome where the PCI tree could not be read.
    pub fn topology(&self) -> Result<&Topology<'a>, Outcome> {
        self.facts.pci.or_unread("the PCI functions")?;
        self.topology.as_ref().ok_or_else(|| {
            Outcome::unknown("this host shows no PCI functions")
                .evidence("not there", "/sys/bus/pci/devices")
        })
    }

    /// Pairs of a GPU and such a peer that meet in a switch, and that the host itself uses.
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

    /// A device as codes name it.
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

    /// [`CheckInput::gpus`], for a check that is about nothing without one.
    ///
    /// # Errors
    /// Text without one.
    pub fn some_gpus(&self) -> Result<&[&'a Function], Outcome> {
        self.topology()?;
        match self.gpus.is_empty() {
            true => Err(Outcome::not_applicable("no GPU that the host itself uses")),
            false => Ok(&self.gpus),
        }
    }

    /// [`CheckInput::rdma_nics`] without VFs, for a check that is about nothing without one.
    ///
    /// # Errors
    /// Text without one.
    pub fn some_rdma_pfs(&self) -> Result<Vec<&'a Function>, Outcome> {
        self.topology()?;
        let pfs = self.rdma_nics.iter().filter(|nic| !nic.is_vf());
        some(pfs.copied().collect(), "no RDMA NIC that the host itself uses")
    }

    /// What is not known of the bridges above GPUs, RDMA NICs and Data Direct functions: a check of their path must not pass
    /// for what it does not see.
    pub fn gap_above(&self) -> Option<Outcome> {
        let topology = self.topology.as_ref()?;
        let tree = topology.tree();
        let ends = [&self.gpus[..], &self.rdma_nics, &self.data_direct].concat();
        // Conventional PCI has no such ports above it.
        for end in ends.into_iter().filter(|end| !matches!(end.port, Reading::Absent)) {
            for at in tree.path_up(end.address) {
                let (says, seen, place) = match tree.get(at) {
                    None => (
                        "is not listed, or cannot be read",
                        "not known",
                        format!("/sys/bus/pci/devices/{at}"),
                    ),
                    Some(bridge) if matches!(bridge.port, Reading::Absent) => (
                        "shows no PCI Express capability: what kind of port it is, is not known",
                        "no such capability",
                        bridge.attribute("config"),
                    ),
                    Some(_) => continue,
                };
                let text = format!("bridge {at}, above {}, {says}", end.address);
                return Some(Outcome::unknown(text).evidence(seen, place));
            }
        }
        None
    }

    /// GPUs, RDMA NICs and VFs of the host, and Data Direct functions, for a check that is about nothing without one.
    ///
    /// # Errors
    /// Text without one.
    pub fn expect_carriers(&self) -> Result<Vec<&'a Function>, Outcome> {
        self.topology()?;
        let all = [&self.gpus[..], &self.rdma_nics, &self.data_direct].concat();
        some(all, "no GPU and no RDMA NIC that the host itself uses")
    }
}

/// Takes VGA controllers (class 0x0300) out where there are more accelerators: no job runs on the card for the screen.
fn without_displays(gpus: &mut Vec<&Function>) {
    let is_display = |gpu: &&Function| gpu.class >> 8 == 0x0300;
    if gpus.iter().filter(|gpu| is_display(gpu)).count() * 2 < gpus.len() {
        gpus.retain(|gpu| !is_display(gpu));
    }
}
