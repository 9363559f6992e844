//! Is this host ready for GPUDirect RDMA, and if not, why? A table of small checks ([`CHECKS`]), each a pure function of
//! what was read of the host ([`Evidence`]): nothing here reads one. What a check cannot know is *unknown*, which never
//! counts as passed.

mod checks;
mod finding;
mod image;
mod image_state;
mod ineffective_argument;
mod input;
mod no_plan;
mod outcome;
mod rails;
mod select;
mod summary;
mod table;
#[cfg(test)]
mod tests;
mod unread;

use serde::{Deserialize, Serialize};

pub use crate::profile::model::{Override, Severity};
pub(crate) use finding::{
    AcsFinding, Carriers, CommandLineFinding, DeviceFinding, DeviceKind, FabricCause,
    FabricFinding, FirmwareFinding, GpuVendor, HugePagesFinding, IommuFinding, LimitsFinding,
    LogFinding, ModuleKind, ModulesFinding, NcclFinding, PcieFinding, PcieLinkFinding,
    ProfileFinding, RdmaFinding, RoceFinding, SriovFinding, StorageFinding, TopologyFinding,
};
pub use finding::{Device, Finding};
pub(crate) use image_state::ImageState;
pub(crate) use ineffective_argument::IneffectiveArgument;
pub(crate) use input::{CheckInput, HostReadings, ProfileState};
pub use no_plan::NoPlan;
pub use outcome::{Evidence, Outcome};
pub use select::{SelectError, Selection};
pub(crate) use summary::judge;
pub use summary::{Answer, Judged, Report};
pub use table::CHECKS;

bedplate_base::named! {
    /// What a check is about; reports show one group after the other.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
    pub enum Group {
        /// Settings of the firmware, as far as Linux sees them.
        Firmware = "firmware",
        /// The IOMMU.
        Iommu = "iommu",
        /// The kernel command line.
        CommandLine = "command-line",
        /// PCIe Access Control Services.
        Acs = "acs",
        /// Drivers and modules.
        Modules = "modules",
        /// Virtual functions.
        SrIov = "sr-iov",
        /// RDMA ports.
        Rdma = "rdma",
        /// PCIe links and registers.
        Pcie = "pcie",
        /// Where GPUs and NICs are to each other.
        Topology = "topology",
        /// GPUDirect Storage.
        Storage = "storage",
        /// Limits that jobs run under.
        Limits = "limits",
        /// Whether the profile is in effect.
        Profile = "profile",
    }
}

bedplate_base::named! {
    /// The outcome of a check.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
    pub enum Verdict {
        /// It is as it should be.
        Pass = "pass",
        /// It is not, and GPUDirect RDMA does not work, or not directly.
        Fail = "fail",
        /// It is not, and that costs something or may do so.
        Warn = "warn",
        /// It could not be read, or not understood.
        Unknown = "unknown",
        /// This host has nothing that the check is about.
        NotApplicable = "not-applicable",
    }
}

/// What decides about GPUDirect RDMA as well, and no check looks at. `ready` does not speak of it.
pub const NOT_LOOKED_AT: &str = "the network beyond this host (switches, their flow control)";

/// What a check came to; `Err`: what is to be said because something that it judges by is not known, or not there.
pub(crate) type Judgement = Result<Outcome, Outcome>;

/// One check. What people are told about it (`--explain`, docs/checks.md) is in `what`, `why`, `source` and `how`.
pub struct Check {
    /// Stable name, `group.subject`.
    pub id: &'static str,
    /// Where reports show it.
    pub group: Group,
    /// What a pass proves, as half a sentence.
    pub proves: &'static str,
    /// What it means at most that it does not pass. The profile may say otherwise.
    pub severity: Severity,
    /// Whether an ordinary user cannot read what it needs.
    pub needs_root: bool,
    /// What is looked at, and what counts as right.
    pub what: &'static str,
    /// Why it matters.
    pub why: &'static str,
    /// Where the facts come from: a section of the handbook, a kernel file, a vendor's page.
    pub source: &'static str,
    /// From which files and registers it is read.
    pub how: &'static str,
    /// The judgement. Pure.
    pub judge: fn(&CheckInput<'_>) -> Judgement,
}

/// One of the checks by its id.
pub fn find(id: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.id == id)
}
