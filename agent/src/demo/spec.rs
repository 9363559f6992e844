//! The description of a made-up host: a small TOML file with a default for everything.
//!
//! ```toml
//! machine = "hgx"                 # hgx (default), mi300x, grace, plain
//! loader = "debian"               # debian, rhel9, rhel8, suse, systemd-boot, uki, rpm-ostree, bootc, talos, none
//! os-version = "24.04"            # VERSION_ID; only a label
//! kernel = "6.8.0-45-generic"     # the running (image: newest) release
//! older-kernels = ["6.8.0-41-generic"]
//! cpu = "intel"                   # intel, amd, arm, other: the machine's own unless given
//! iommu = "translated"            # none (no table), off, translated (lazy), strict, passthrough
//! acs = true                      # ports have ACS control as Linux sets it (default: with an IOMMU active); false = 0
//! cmdline = "console=ttyS0"       # arguments in the boot configuration, for every entry, as the kernel is to see them
//! running-cmdline = "…"           # what the running kernel got instead of `cmdline`
//! vfs = 0                         # VFs enabled on every RDMA NIC
//! vf = { trust = true }           # attributes of these VFs, instead of what the driver leaves there
//! vf-derived = false              # their addresses are those that bedplate derives
//! eswitch = "legacy"              # mode of every RDMA NIC's eswitch: legacy, switchdev
//! vfio = ["0000:18:00.0"]         # functions bound to vfio-pci
//! functions = 0                   # at least so many PCI functions: the machine is repeated in more PCI domains
//! nvidia = "open"                 # open, proprietary, none: the driver that is installed and loaded
//! ofed = false                    # ib_core exports the peer-memory symbols
//! lockdown = "none"               # none, integrity, confidentiality
//! running = true                  # false = an image root: no /proc, /sys or /run
//! unprivileged = false            # true = config space is cut to 64 bytes, as for an ordinary user
//! remove = ["/etc/default/grub"]  # paths taken away, with everything below
//!
//! [modules]                       # on top of the machine's own
//! nvidia_peermem = "available"    # live, coming, going, builtin, available (not loaded), absent
//!
//! [files]                         # files added or replaced, after everything else; directories are made, links followed
//! "/etc/modprobe.d/site.conf" = "options nvidia NVreg_Foo=1\n"
//!
//! [links]                         # symbolic links added or replaced
//! "/etc/kernel/cmdline" = "/usr/lib/kernel/cmdline"
//! ```

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{boot, machine, system};
use crate::facts::CpuVendor;
use crate::host::snapshot::{Node, Snapshot};
use crate::value::PciAddress;
use crate::value::vf::{EswitchMode, VfAttributes};

/// Which machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Machine {
    /// Two Intel sockets, 4 switches, 8 H100, 8 ConnectX-7, NVSwitches.
    #[default]
    Hgx,
    /// Two AMD sockets, 8 switches, 8 MI300X, 8 ConnectX-7 on Ethernet.
    Mi300x,
    /// Four Grace Hopper superchips; no switches.
    Grace,
    /// One socket, one root port, one Ethernet NIC: nothing that needs anything.
    Plain,
}

/// Which boot loader and with it which distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loader {
    /// Ubuntu, GRUB, cloud image drop-in.
    #[default]
    Debian,
    /// RHEL 9, BLS entries with their own options.
    Rhel9,
    /// RHEL 8, BLS entries with `$kernelopts`.
    Rhel8,
    /// SLES 15.
    Suse,
    /// Debian with systemd-boot.
    SystemdBoot,
    /// Debian with unified kernel images.
    Uki,
    /// Fedora CoreOS.
    RpmOstree,
    /// A bootc host without rpm-ostree.
    Bootc,
    /// Talos.
    Talos,
    /// Nothing: a container, or a machine that boots from elsewhere.
    None,
}

/// State of the IOMMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IommuState {
    /// Firmware offers none.
    None,
    /// Firmware offers one, the kernel leaves it off.
    Off,
    /// Groups of type DMA-FQ.
    #[default]
    Translated,
    /// Groups of type DMA.
    Strict,
    /// Groups of type identity.
    Passthrough,
}

/// State of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModuleState {
    /// Loaded.
    Live,
    /// Still initialising.
    Coming,
    /// On its way out.
    Going,
    /// In the kernel image.
    Builtin,
    /// A file in /lib/modules, not loaded.
    Available,
    /// Nowhere.
    Absent,
}

/// NVIDIA driver flavour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Nvidia {
    /// Open kernel modules.
    Open,
    /// Proprietary kernel modules.
    Proprietary,
    /// Not installed.
    None,
}

/// A made-up host; see the head of this file for the TOML form.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
#[allow(missing_docs, reason = "each field is documented once, in the TOML form above")]
pub struct HostSpec {
    pub machine: Machine,
    pub loader: Loader,
    pub os_version: Option<String>,
    pub kernel: String,
    pub older_kernels: Vec<String>,
    pub cpu: Option<CpuVendor>,
    pub iommu: IommuState,
    pub acs: Option<bool>,
    pub cmdline: String,
    pub running_cmdline: Option<String>,
    pub vfs: u16,
    pub vf: VfAttributes,
    pub vf_derived: bool,
    pub eswitch: Option<EswitchMode>,
    pub vfio: Vec<PciAddress>,
    pub functions: usize,
    pub nvidia: Option<Nvidia>,
    pub ofed: bool,
    pub lockdown: String,
    pub running: bool,
    pub unprivileged: bool,
    pub remove: Vec<String>,
    pub modules: BTreeMap<String, ModuleState>,
    pub files: BTreeMap<String, String>,
    pub links: BTreeMap<String, String>,
}

impl Default for HostSpec {
    fn default() -> Self {
        HostSpec {
            machine: Machine::Hgx,
            loader: Loader::Debian,
            os_version: None,
            kernel: "6.8.0-45-generic".to_owned(),
            older_kernels: Vec::new(),
            cpu: None,
            iommu: IommuState::Translated,
            acs: None,
            cmdline: String::new(),
            running_cmdline: None,
            vfs: 0,
            vf: VfAttributes::default(),
            vf_derived: false,
            eswitch: None,
            vfio: Vec::new(),
            functions: 0,
            nvidia: None,
            ofed: false,
            lockdown: "none".to_owned(),
            running: true,
            unprivileged: false,
            remove: Vec::new(),
            modules: BTreeMap::new(),
            files: BTreeMap::new(),
            links: BTreeMap::new(),
        }
    }
}

impl HostSpec {
    /// From its TOML form.
    pub fn from_toml(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The CPU's maker.
    pub fn cpu_vendor(&self) -> CpuVendor {
        self.cpu.unwrap_or(match self.machine {
            Machine::Hgx | Machine::Plain => CpuVendor::Intel,
            Machine::Mi300x => CpuVendor::Amd,
            Machine::Grace => CpuVendor::Arm,
        })
    }

    /// Whether IOMMU groups exist, and their type.
    pub fn group_type(&self) -> Option<&'static str> {
        match self.iommu {
            IommuState::None | IommuState::Off => None,
            IommuState::Translated => Some("DMA-FQ"),
            IommuState::Strict => Some("DMA"),
            IommuState::Passthrough => Some("identity"),
        }
    }

    /// The NVIDIA driver, by default open on machines that have such GPUs.
    pub fn nvidia_driver(&self) -> Nvidia {
        self.nvidia.unwrap_or(match self.machine {
            Machine::Hgx | Machine::Grace => Nvidia::Open,
            Machine::Mi300x | Machine::Plain => Nvidia::None,
        })
    }

    /// Make the host: a snapshot in which everything not there is known not to be there.
    pub fn build(&self) -> Snapshot {
        let mut snapshot = Snapshot::new(self.running);
        system::files(self, &mut snapshot);
        boot::files(self, &mut snapshot);
        if self.running {
            system::running(self, &mut snapshot);
            machine::pci(self, &mut snapshot);
        }
        for path in &self.remove {
            snapshot.remove(&snapshot.canonical(path));
        }
        for (path, text) in &self.files {
            snapshot.insert(&snapshot.canonical(path), Node::File(text.clone().into_bytes()));
        }
        for (path, target) in &self.links {
            snapshot.insert(&snapshot.canonical(path), Node::Link(target.clone()));
        }
        snapshot.complete();
        snapshot
    }
}
