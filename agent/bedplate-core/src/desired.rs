//! Desired state: the profile resolved against facts, typed, for every resource type. Pure. Resource types compare it
//! with their observations; `render` exports it for other tools.

use serde::{Deserialize, Serialize};

use crate::plan::{Blocker, Note, Rationale, Unknown, UpToDate};
use bedplate_base::value::{AcsBits, ModuleName, PciAddress, RegisterBits};
use bedplate_cmdline::Token;

pub use crate::kind::selector::FunctionSelector;
pub use crate::kind::sriov::section::{SriovCount, SriovRule, VfDriver, WantedAttributes};

/// A kernel argument that must or must not be on the command line, in the profile's spelling (`iommu=pt`,
/// `pci=realloc`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KernelArg {
    /// Form that the kernel sees, without quotes for a boot loader. An unwanted one may be a key (`nomodeset`,
    /// `pci=noats`), which matches any value.
    pub token: Token,
    /// Reasons.
    pub why: Vec<Rationale>,
    /// Section that requests it.
    pub from: ArgSource,
}

impl AsRef<Token> for KernelArg {
    fn as_ref(&self) -> &Token {
        &self.token
    }
}

/// Section of a profile that requests a kernel argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ArgSource {
    /// `[acs]`, through its policy.
    Acs,
    /// `[cmdline]`, which lists it.
    Cmdline,
    /// `[cpu]`, through its governor.
    Cpu,
    /// `[iommu]`, through its mode.
    Iommu,
}

/// Desired kernel command line: only the arguments that the profile owns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DesiredCmdline {
    /// Required arguments, in profile order.
    pub set: Vec<KernelArg>,
    /// Unwanted arguments, in profile order.
    pub absent: Vec<KernelArg>,
    /// Keys (`pci=config_acs`) whose desired value is unknown at present: if bedplate set them, they stay.
    pub keep: Vec<String>,
    /// Settings that need no argument, with reasons.
    pub unchanged: Vec<UpToDate>,
}

/// Time when a listed module is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ModuleLoad {
    /// Written to modules-load.d only.
    Boot,
    /// Written and loaded now.
    Now,
}

/// A module to load or to keep out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WantedModule {
    /// Normalized name.
    pub name: ModuleName,
    /// Time of loading; without meaning for a module to keep out.
    pub load: ModuleLoad,
    /// Place and reason.
    pub why: Vec<Rationale>,
}

/// Desired `options MODULE key=value` in modprobe.d.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WantedOption {
    /// Normalized module name.
    pub module: ModuleName,
    /// Parameter name.
    pub parameter: String,
    /// Value in the syntax of modprobe.d (quotes included if it has spaces).
    pub value: String,
    /// Reasons.
    pub why: Vec<Rationale>,
}

/// Desired modules.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DesiredModules {
    /// Modules to load, in profile order.
    pub load: Vec<WantedModule>,
    /// Module options, sorted by module and parameter.
    pub options: Vec<WantedOption>,
    /// Modules for `blacklist NAME`.
    pub blacklist: Vec<WantedModule>,
    /// Modules that must not be loaded; unloaded now, only on the profile's request.
    pub unload: Vec<WantedModule>,
}

/// ACS policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AcsPolicy {
    /// Clear the bits that redirect P2P traffic on paths between GPUs and NICs below a common switch; leave the rest.
    DirectP2p,
    /// Write 0 to every port that has ACS, as common setpci loops intend.
    Clear,
    /// Change nothing, only report.
    Keep,
}

/// Desired ACS control bits of one port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WantedAcs {
    /// Root or downstream port.
    pub port: PciAddress,
    /// Affected bits and their values.
    pub bits: RegisterBits,
    /// GPU–NIC pairs whose path contains the port.
    pub why: Vec<Rationale>,
    /// Functions below it that are or may be assigned to VMs, and PFs whose VFs are reserved for VMs. Nothing may
    /// remove their isolation (handbook §3.3).
    pub vfio_below: Vec<PciAddress>,
}

impl WantedAcs {
    /// Whether an isolating bit must be off.
    pub fn opens(&self) -> bool {
        !self.bits.off().and(AcsBits::ISOLATION.or(AcsBits::EC)).is_empty()
    }

    /// Whether that would remove the isolation of a function assigned to a VM.
    pub fn exposes_guests(&self) -> bool {
        self.opens() && !self.vfio_below.is_empty()
    }

    /// Returns the bits of a control register that redirect traffic to the root complex against the policy.
    pub fn redirects(&self, control: AcsBits) -> AcsBits {
        control.and(self.bits.off()).and(AcsBits::REDIRECT)
    }
}

/// Method of preserving ACS bits across reboots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AcsPersistence {
    /// `pci=config_acs=`.
    ConfigAcs,
    /// `pci=disable_acs_redir=`.
    DisableAcsRedir,
    /// Runtime writes, repeated at every boot.
    Live,
}

impl AcsPersistence {
    /// Whether this kernel argument can set the desired bits: `disable_acs_redir` only clears bits.
    pub fn carries(self, wanted: &WantedAcs) -> bool {
        match self {
            AcsPersistence::ConfigAcs => true,
            AcsPersistence::DisableAcsRedir => wanted.bits.on().is_empty(),
            AcsPersistence::Live => false,
        }
    }
}

/// Desired ACS; by default no port is changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DesiredAcs {
    /// Policy.
    pub policy: AcsPolicy,
    /// Desired bits, by address.
    pub ports: Vec<WantedAcs>,
    /// Persistence.
    pub persistence: AcsPersistence,
}

impl Default for DesiredAcs {
    fn default() -> Self {
        DesiredAcs { policy: AcsPolicy::Keep, ports: Vec::new(), persistence: AcsPersistence::Live }
    }
}

/// Desired VFs of one PF.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WantedVfs {
    /// Address of the PF.
    pub pf: PciAddress,
    /// Number of VFs.
    pub count: u16,
    /// Rule that requests them.
    pub rule: SriovRule,
    /// Reasons.
    pub why: Vec<Rationale>,
}

/// Desired state of all resource types; empty by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Desired {
    /// Kernel arguments, including those of `iommu` and `acs`.
    pub cmdline: DesiredCmdline,
    /// Modules.
    pub modules: DesiredModules,
    /// ACS.
    pub acs: DesiredAcs,
    /// VFs, by PF address.
    pub sriov: Vec<WantedVfs>,
    /// Obstacles found so far.
    pub blockers: Vec<Blocker>,
    /// Items that could not be resolved for lack of facts.
    pub unknowns: Vec<Unknown>,
    /// Notes (PFs that another program manages …).
    pub notes: Vec<Note>,
}
