//! Description of a fake host: a small TOML file with defaults for everything.
//!
//! ```toml
//! machine = "hgx"                 # hgx (default), mi300x, b300, epyc-l40s, grace, gb200, gb300, vera-rubin, dgx-spark, plain,
//!                                 # bare (no PCI functions but those below)
//! loader = "debian"               # debian, rhel9, rhel8, suse, systemd-boot, uki, rpm-ostree, bootc, talos, none
//! os-version = "24.04"            # VERSION_ID; only a label
//! kernel = "6.8.0-45-generic"     # the running (image: newest) release
//! older-kernels = ["6.8.0-41-generic"]
//! cpu = "intel"                   # intel, amd, arm, other: the machine's own unless given
//! iommu = "translated"            # none (no table), off, translated (lazy), strict, passthrough
//! acs = true                      # ports have ACS control as Linux sets it (default: with an IOMMU active); false = 0
//! acs-control = {"0000:17:00.0" = 0x5d}  # ACS control of single ports that differs
//! cmdline = "console=ttyS0"       # arguments in the boot configuration, for every entry, as the kernel is to see them
//! running-cmdline = "…"           # what the running kernel got instead of `cmdline`
//! gpu = "10de:2901"               # ids of its GPUs, instead of the machine's own
//! nic-ats = false                 # RDMA NICs show the ATS capability (ATS_ENABLED in their firmware), switched on
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
//! kernel-log = ["DMAR: IOMMU enabled"]  # lines of the kernel's log, in addition to that of an active IOMMU
//! kernel-log-whole = true         # false = its ring has lost the first lines
//! remove = ["/etc/default/grub"]  # paths taken away, with everything below
//! denied = ["/proc/cmdline"]      # paths that require more privilege, with everything below
//! unrecorded = ["/proc/cmdline"]  # paths that the recording left out, with everything below
//!
//! [modules]                       # on top of the machine's own
//! nvidia_peermem = "available"    # live, coming, going, builtin, available (not loaded), absent
//!
//! [files]                         # files added or replaced, after everything else; directories are made, links followed
//! "/etc/modprobe.d/site.conf" = "options nvidia NVreg_Foo=1\n"
//!
//! [latin1]                        # the same with every character as one byte, beyond ASCII too
//! "/etc/default/grub" = "# f\u00fcr alle\n"
//!
//! [links]                         # symbolic links added or replaced
//! "/etc/kernel/cmdline" = "/usr/lib/kernel/cmdline"
//!
//! [[pci]]                         # a PCI function added to the machine, or one of its own described otherwise; see `function`
//! at = "0000:16:00.0"
//! acs = 0x1d
//! ```

use std::collections::BTreeMap;

use serde::Deserialize;

use super::described_functions::Described;
use bedplate_base::CpuVendor;
use bedplate_base::value::vf::{EswitchMode, VfAttributes};
use bedplate_base::value::{NotAValue, PciAddress, PciId};

/// Machine model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Machine {
    /// Two Intel sockets, 4 switches, 8 H100, 8 ConnectX-7, NVSwitches.
    #[default]
    Hgx,
    /// Two AMD sockets, 8 switches, 8 MI300X, 8 ConnectX-7 on Ethernet.
    Mi300x,
    /// Two Intel sockets, 8 B300, each behind the inline switch of its ConnectX-8.
    B300,
    /// Two AMD sockets, 8 L40S and 2 ConnectX-7 on root ports; no switches.
    EpycL40s,
    /// Four Grace Hopper superchips; no switches.
    Grace,
    /// Two Grace CPUs, 4 GB200 on root ports, 4 ConnectX-7.
    Gb200,
    /// Two Grace CPUs, 4 GB300, each with the Data Direct function of a ConnectX-8 below one switch.
    Gb300,
    /// Two Vera CPUs, 4 Rubin GPUs and 8 ConnectX-9 on root ports.
    VeraRubin,
    /// One GB10, one ConnectX-7 on two links.
    DgxSpark,
    /// One socket, one root port, one Ethernet NIC; needs no configuration.
    Plain,
    /// Only the PCI functions in the description.
    Bare,
}

/// Boot loader, which implies the distribution.
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
    /// No boot loader: a container, or a machine that boots from elsewhere.
    None,
}

/// State of the IOMMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IommuState {
    /// The firmware does not offer an IOMMU.
    None,
    /// The firmware offers an IOMMU, but the kernel leaves it off.
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
    /// Being unloaded.
    Going,
    /// Built into the kernel image.
    Builtin,
    /// A file in /lib/modules, not loaded.
    Available,
    /// Not present.
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

/// Vendor and device, as `10de:2901`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Ids(pub (u16, u16));

impl TryFrom<String> for Ids {
    type Error = NotAValue;

    fn try_from(text: String) -> Result<Self, NotAValue> {
        let (vendor, device) = text.split_once(':').unwrap_or((&text, ""));
        Ok(Ids((vendor.parse::<PciId>()?.0, device.parse::<PciId>()?.0)))
    }
}

/// A fake host; see the module documentation for the TOML form.
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
    pub acs_control: BTreeMap<PciAddress, u16>,
    pub cmdline: String,
    pub running_cmdline: Option<String>,
    pub gpu: Option<Ids>,
    pub nic_ats: bool,
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
    pub kernel_log: Vec<String>,
    pub kernel_log_whole: bool,
    pub remove: Vec<String>,
    pub denied: Vec<String>,
    pub unrecorded: Vec<String>,
    pub modules: BTreeMap<String, ModuleState>,
    pub files: BTreeMap<String, String>,
    pub latin1: BTreeMap<String, String>,
    pub links: BTreeMap<String, String>,
    pub pci: Vec<Described>,
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
            acs_control: BTreeMap::new(),
            cmdline: String::new(),
            running_cmdline: None,
            gpu: None,
            nic_ats: false,
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
            kernel_log: Vec::new(),
            kernel_log_whole: true,
            remove: Vec::new(),
            denied: Vec::new(),
            unrecorded: Vec::new(),
            modules: BTreeMap::new(),
            files: BTreeMap::new(),
            latin1: BTreeMap::new(),
            links: BTreeMap::new(),
            pci: Vec::new(),
        }
    }
}

impl HostSpec {
    /// Parses the TOML form.
    pub fn from_toml(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// Returns the CPU vendor.
    pub fn cpu_vendor(&self) -> CpuVendor {
        self.cpu.unwrap_or(match self.machine {
            Machine::Hgx | Machine::B300 | Machine::Plain | Machine::Bare => CpuVendor::Intel,
            Machine::Mi300x | Machine::EpycL40s => CpuVendor::Amd,
            Machine::Grace
            | Machine::Gb200
            | Machine::Gb300
            | Machine::VeraRubin
            | Machine::DgxSpark => CpuVendor::Arm,
        })
    }

    /// Returns the type of the IOMMU groups, if there are any.
    pub fn group_type(&self) -> Option<&'static str> {
        match self.iommu {
            IommuState::None | IommuState::Off => None,
            IommuState::Translated => Some("DMA-FQ"),
            IommuState::Strict => Some("DMA"),
            IommuState::Passthrough => Some("identity"),
        }
    }

    /// Returns the NVIDIA driver; by default open on machines with NVIDIA GPUs.
    pub fn nvidia_driver(&self) -> Nvidia {
        self.nvidia.unwrap_or(match self.machine {
            Machine::Mi300x | Machine::Plain | Machine::Bare => Nvidia::None,
            _ => Nvidia::Open,
        })
    }
}
