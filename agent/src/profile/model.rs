//! The typed, merged and validated profile. Plain data: what the operator declared, nothing resolved.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::facts::{Arch, CpuVendor};
use crate::plan::Why;
use crate::value::{ModuleName, NotAValue, PciAddress, PciId};

/// A whole profile.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Profile {
    /// `name`, by default the file's stem.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// Which machines it is for.
    pub matching: Match,
    /// `[iommu]`.
    pub iommu: Iommu,
    /// `[cmdline]`.
    pub cmdline: Cmdline,
    /// `[modules]`.
    pub modules: Modules,
    /// `[acs]`.
    pub acs: Acs,
    /// `[sriov]`.
    pub sriov: Sriov,
    /// `[reboot]`.
    pub reboot: Reboot,
    /// `[agent]`.
    pub agent: Agent,
}

/// `[match]`: every condition given must hold; more conditions are a better match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Match {
    /// CPU vendor.
    pub cpu_vendor: Option<CpuVendor>,
    /// Architecture.
    pub arch: Option<Arch>,
    /// Glob on DMI sys_vendor.
    pub sys_vendor: Option<String>,
    /// Glob on DMI product_name.
    pub product_name: Option<String>,
    /// PCI ids that must be there, with how many.
    pub pci: Vec<MatchPci>,
}

/// One `[[match.pci]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MatchPci {
    /// What is counted: functions with any of these ids.
    pub ids: Vec<PciIdPair>,
    /// At least this many functions.
    pub at_least: u32,
    /// At most this many.
    pub at_most: Option<u32>,
}

/// A PCI vendor with one of its devices, or with all of them: `10de:2330`, `10de:*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PciIdPair {
    /// Vendor.
    pub vendor: PciId,
    /// Device; any when absent.
    pub device: Option<PciId>,
}

impl fmt::Display for PciIdPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.device {
            Some(device) => write!(f, "{}:{device}", self.vendor),
            None => write!(f, "{}:*", self.vendor),
        }
    }
}

impl FromStr for PciIdPair {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        let parse = || {
            let (vendor, device) = text.split_once(':')?;
            let device = if device == "*" { None } else { Some(device.parse().ok()?) };
            Some(PciIdPair { vendor: vendor.parse().ok()?, device })
        };
        parse().ok_or_else(|| NotAValue {
            text: text.to_owned(),
            expected: "a pair of PCI ids such as 10de:2330 or 10de:*",
        })
    }
}

impl Serialize for PciIdPair {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// How the IOMMU is to treat host drivers' DMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IommuMode {
    /// On, 1:1 for host drivers (identity groups): what GPUDirect RDMA wants on x86.
    Passthrough,
    /// On, translating (lazy invalidation unless `strict`): what Grace wants.
    Translated,
    /// Off.
    Off,
    /// Leave whatever is there.
    Keep,
}

/// `[iommu]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Iommu {
    /// Mode.
    pub mode: IommuMode,
    /// Where and why the profile says so.
    pub why: Vec<Why>,
}

/// One argument of `[cmdline]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CmdlineArg {
    /// The token as the kernel is to see it; for `absent` a key or a whole token.
    pub arg: String,
    /// Where and why.
    pub why: Vec<Why>,
}

/// `[cmdline]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cmdline {
    /// In order.
    pub args: Vec<CmdlineArg>,
    /// In order.
    pub absent: Vec<CmdlineArg>,
}

/// When a listed module is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ModuleLoad {
    /// Written to modules-load.d only.
    Boot,
    /// Written and loaded now.
    Now,
}

/// GPU memory registration path (handbook §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GpuDirect {
    /// DMA-BUF where its prerequisites hold, else nvidia_peermem where the stack exports its symbols, else a blocker.
    Auto,
    /// DMA-BUF; nothing to load.
    Dmabuf,
    /// nvidia_peermem.
    Peermem,
    /// Do not look.
    None,
}

/// One module of `[modules]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Module {
    /// Folded name.
    pub name: ModuleName,
    /// When; the section's default when not given.
    pub load: ModuleLoad,
    /// Where and why.
    pub why: Vec<Why>,
}

/// One parameter of `[modules.options.MODULE]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModuleOption {
    /// Folded module name.
    pub module: ModuleName,
    /// Parameter.
    pub parameter: String,
    /// Value as text.
    pub value: String,
    /// Where and why.
    pub why: Vec<Why>,
}

/// `[modules]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Modules {
    /// In order.
    pub load: Vec<Module>,
    /// Sorted by module, parameter.
    pub options: Vec<ModuleOption>,
    /// Blacklisted: alias auto-loading stopped (handbook §9).
    pub blacklist: Vec<Module>,
    /// Unloaded now if loaded.
    pub unload: Vec<Module>,
    /// DMA-BUF or peermem.
    pub gpudirect: GpuDirect,
}

/// What to do about ACS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AcsPolicy {
    /// Clear what redirects peer-to-peer on the paths between GPUs and NICs below a common switch; leave the rest.
    DirectP2p,
    /// Write 0 to every port that has ACS, as the field's setpci loops mean to.
    Clear,
    /// Change nothing, report.
    Keep,
}

/// How the profile wants ACS to last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AcsPersist {
    /// The kernel command line where this kernel is known good, else live.
    Auto,
    /// The kernel command line, or a blocker.
    Cmdline,
    /// Live writes at every boot.
    Live,
}

/// `[acs]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Acs {
    /// Policy.
    pub policy: AcsPolicy,
    /// Persistence.
    pub persistence: AcsPersist,
    /// Include the root port above the switch, so that IOMMU groups come out honest (handbook §3.2).
    pub root_port: bool,
    /// Where and why.
    pub why: Vec<Why>,
}

/// How many VFs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SriovCount {
    /// Exactly.
    Number(u16),
    /// sriov_totalvfs.
    Max,
    /// As many as there are GPUs nearest to this PF.
    PerGpu,
}

/// What driver new VFs get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VfDriver {
    /// Whatever the kernel probes.
    Auto,
    /// None: sriov_drivers_autoprobe=0.
    None,
    /// This one, through driver_override (`vfio-pci`).
    Named(String),
}

/// Which PFs one `[[sriov.devices]]` entry takes; every condition given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PfSelector {
    /// PCI vendor.
    pub vendor: Option<PciId>,
    /// PCI device.
    pub device: Option<PciId>,
    /// Driver name.
    pub driver: Option<String>,
    /// Glob on a network interface name.
    pub interface: Option<String>,
    /// Exact address.
    pub address: Option<PciAddress>,
    /// NUMA node.
    pub numa_node: Option<i32>,
}

/// One `[[sriov.devices]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SriovRule {
    /// Name, unique in the profile: what a later layer replaces.
    pub name: String,
    /// Which PFs.
    pub select: PfSelector,
    /// How many VFs.
    pub vfs: SriovCount,
    /// VF driver.
    pub vf_driver: VfDriver,
    /// Where and why.
    pub why: Vec<Why>,
}

/// Who creates VFs on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SriovManaged {
    /// bedplate, unless it sees somebody else doing it.
    Bedplate,
    /// Somebody else: left alone, and said so.
    External,
}

/// `[sriov]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sriov {
    /// Who.
    pub managed: SriovManaged,
    /// In order; the first rule that selects a PF has it.
    pub rules: Vec<SriovRule>,
}

/// What to do about a needed reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RebootPolicy {
    /// Nothing.
    Never,
    /// Leave a marker file for others (kured, needs-restarting).
    Mark,
    /// Schedule through logind in the window.
    Schedule,
}

/// How the machine is restarted (handbook §2, §13.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RebootMethod {
    /// An ordinary reboot through firmware: enough for kernel parameters.
    Ordinary,
    /// The same, with the kernel's reset mode and type set to the coldest that firmware offers.
    Firmware,
    /// An orderly shutdown whose last step is a power cycle by the BMC.
    Bmc,
    /// A power-off with a wake-up alarm.
    Rtc,
    /// The operator's own command (Redfish, MAAS).
    Command,
}

impl std::fmt::Display for RebootMethod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            RebootMethod::Ordinary => "ordinary",
            RebootMethod::Firmware => "firmware",
            RebootMethod::Bmc => "bmc",
            RebootMethod::Rtc => "rtc",
            RebootMethod::Command => "command",
        })
    }
}

/// `[reboot.fleetlock]`: a server that lets a few hosts of many reboot at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetLock {
    /// Base address, `http://` or `https://`.
    pub url: String,
    /// Group of hosts that share the slots.
    pub group: String,
}

/// `[reboot]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reboot {
    /// Policy.
    pub policy: RebootPolicy,
    /// Methods for a cold reboot, in the order in which they are tried; never none.
    pub methods: Vec<RebootMethod>,
    /// Windows such as `Sat,Sun 02:00-05:00 Europe/Amsterdam`; empty = any time.
    pub windows: Vec<String>,
    /// Reboots allowed for one plan.
    pub attempts: u8,
    /// Seconds between the announcement and the reboot.
    pub delay_s: u32,
    /// Up to so many seconds more, different on each host.
    pub jitter_s: u32,
    /// Seconds for which block inhibitors are waited for before that is reported.
    pub inhibitor_wait_s: u32,
    /// Whether processes that hold GPUs or RDMA devices open keep the machine from rebooting.
    pub busy_devices: bool,
    /// The operator's own check, program and arguments: 0 = free, 1 = busy. Empty: none.
    pub busy_command: Vec<String>,
    /// The command of [`RebootMethod::Command`], program and arguments.
    pub command: Vec<String>,
    /// Whether the firmware is known to wake the machine by its clock ([`RebootMethod::Rtc`]).
    pub rtc_wakes: bool,
    /// Whether everything is done but the reboot itself (logind's `dry-reboot`).
    pub rehearse: bool,
    /// Where the slots are.
    pub fleetlock: Option<FleetLock>,
}

/// Whether the daemon writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AgentMode {
    /// Makes the host what the profile says, and keeps it so.
    Enforce,
    /// Only looks and reports; never writes to the host.
    Observe,
}

/// `[agent]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// Whether it writes.
    pub mode: AgentMode,
    /// Seconds between the re-checks that no event asked for.
    pub interval_s: u32,
    /// Seconds for which bedplate-boot.service may hold up a boot.
    pub boot_timeout_s: u32,
    /// Seconds after which a boot goes on although the host has not converged.
    pub ready_timeout_s: u32,
}
