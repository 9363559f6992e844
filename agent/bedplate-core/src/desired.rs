//! What the profile comes to on given facts: typed desired state of every kind. Pure.
//! Kinds diff it against what they observe; `render` writes it out for others.

use serde::{Deserialize, Serialize};

use crate::plan::{Blocker, Note, Rationale, Unknown, UpToDate};
use bedplate_base::value::{AcsBits, ModuleName, PciAddress, RegisterBits};
use bedplate_cmdline::Token;

pub use crate::kind::sriov::section::{
    PfSelector, SriovCount, SriovRule, VfDriver, WantedAttributes,
};

/// A kernel argument that must be on the command line, or must not, in the profile's spelling (`iommu=pt`, `pci=realloc`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KernelArg {
    /// As the kernel is to see it, without quotes for a boot loader. One that must not be there may be a key (`nomodeset`,
    /// `pci=noats`), which means any value.
    pub token: Token,
    /// Why.
    pub why: Vec<Rationale>,
    /// What asks for it.
    pub from: ArgSource,
}

impl AsRef<Token> for KernelArg {
    fn as_ref(&self) -> &Token {
        &self.token
    }
}

/// The section of a profile that asks for a kernel argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ArgSource {
    /// `[acs]`, through its policy.
    Acs,
    /// `[cmdline]`, which lists it.
    Cmdline,
    /// `[iommu]`, through its mode.
    Iommu,
}

/// Desired kernel command line: only what the profile owns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DesiredCmdline {
    /// Those that must be there, in profile order.
    pub set: Vec<KernelArg>,
    /// Those that must not, in profile order.
    pub absent: Vec<KernelArg>,
    /// Keys (`pci=config_acs`) about which nothing is known now: if bedplate put them there, they stay.
    pub keep: Vec<String>,
    /// What is right without an argument, and why.
    pub settled: Vec<UpToDate>,
}

/// When a listed module is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ModuleLoad {
    /// Written to modules-load.d only.
    Boot,
    /// Written and loaded now.
    Now,
}

/// A module wanted loaded, or kept out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WantedModule {
    /// Folded name.
    pub name: ModuleName,
    /// At boot, or at boot and now; of no meaning for one that is kept out.
    pub load: ModuleLoad,
    /// Where and why.
    pub why: Vec<Rationale>,
}

/// `options MODULE key=value` wanted in modprobe.d.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WantedOption {
    /// Folded module name.
    pub module: ModuleName,
    /// Parameter name.
    pub parameter: String,
    /// Value as modprobe.d takes it (quotes included if it has spaces).
    pub value: String,
    /// Why.
    pub why: Vec<Rationale>,
}

/// Desired modules.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DesiredModules {
    /// In profile order.
    pub load: Vec<WantedModule>,
    /// Sorted by module, parameter.
    pub options: Vec<WantedOption>,
    /// `blacklist NAME`.
    pub blacklist: Vec<WantedModule>,
    /// Not loaded, and unloaded now (only because the profile says so).
    pub unload: Vec<WantedModule>,
}

/// What to do about ACS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AcsPolicy {
    /// Clear what redirects peer-to-peer on the paths between GPUs and NICs below a common switch; leave the rest.
    DirectP2p,
    /// Write 0 to every port that has ACS, as the field's setpci loops mean to.
    Clear,
    /// Change nothing, report.
    Keep,
}

/// One port whose ACS control is to have these bits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WantedAcs {
    /// Root or downstream port.
    pub port: PciAddress,
    /// Which bits matter, and their value.
    pub bits: RegisterBits,
    /// Which GPU–NIC pairs run through it.
    pub why: Vec<Rationale>,
    /// Functions for guests that are, or may be, below, and PFs whose VFs are to go to guests: nothing that takes their
    /// isolation away is done (handbook §3.3).
    pub vfio_below: Vec<PciAddress>,
}

impl WantedAcs {
    /// Whether a bit that isolates is to be off.
    pub fn opens(&self) -> bool {
        !self.bits.off().and(AcsBits::ISOLATION.or(AcsBits::EC)).is_empty()
    }

    /// Whether that would take the isolation of a guest's function away.
    pub fn exposes_guests(&self) -> bool {
        self.opens() && !self.vfio_below.is_empty()
    }

    /// Bits of a control register that send to the root complex what is to pass directly.
    pub fn redirects(&self, control: AcsBits) -> AcsBits {
        control.and(self.bits.off()).and(AcsBits::REDIRECT)
    }
}

/// How ACS bits survive a reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AcsPersistence {
    /// `pci=config_acs=`.
    ConfigAcs,
    /// `pci=disable_acs_redir=`.
    DisableAcsRedir,
    /// Live writes, re-applied at every boot.
    Live,
}

impl AcsPersistence {
    /// Whether a kernel argument of this sort can set what is wanted: `disable_acs_redir` switches bits off and none on.
    pub fn carries(self, wanted: &WantedAcs) -> bool {
        match self {
            AcsPersistence::ConfigAcs => true,
            AcsPersistence::DisableAcsRedir => wanted.bits.on().is_empty(),
            AcsPersistence::Live => false,
        }
    }
}

/// Desired ACS; by default none is touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DesiredAcs {
    /// Policy.
    pub policy: AcsPolicy,
    /// By address.
    pub ports: Vec<WantedAcs>,
    /// How it lasts.
    pub persistence: AcsPersistence,
}

impl Default for DesiredAcs {
    fn default() -> Self {
        DesiredAcs { policy: AcsPolicy::Keep, ports: Vec::new(), persistence: AcsPersistence::Live }
    }
}

/// VFs wanted on one PF.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WantedVfs {
    /// The PF.
    pub pf: PciAddress,
    /// How many.
    pub count: u16,
    /// The rule that asks for them.
    pub rule: SriovRule,
    /// Why.
    pub why: Vec<Rationale>,
}

/// Desired state of all kinds; by default nothing is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Desired {
    /// Kernel arguments, those that `iommu` and `acs` ask for among them.
    pub cmdline: DesiredCmdline,
    /// Modules.
    pub modules: DesiredModules,
    /// ACS.
    pub acs: DesiredAcs,
    /// VFs, by PF address.
    pub sriov: Vec<WantedVfs>,
    /// What stands in the way already.
    pub blockers: Vec<Blocker>,
    /// What could not be resolved for want of facts.
    pub unknowns: Vec<Unknown>,
    /// Remarks (PFs that another program manages …).
    pub notes: Vec<Note>,
}
