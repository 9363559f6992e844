//! Readiness checks for GPUDirect RDMA: a table ([`CHECKS`]) of small pure functions of what was read of the host.
//! Nothing here reads a host. If a check lacks evidence, its verdict is *unknown*, which never counts as passed.

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
mod stage;
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
pub use stage::Stage;
pub(crate) use stage::part;
pub(crate) use summary::judge;
pub use summary::{Answer, Judged, Report};
pub use table::CHECKS;

bedplate_base::named! {
    /// Subject of a check; reports list the groups one after the other.
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
        /// Positions of GPUs and NICs relative to each other.
        Topology = "topology",
        /// GPUDirect Storage.
        Storage = "storage",
        /// Limits of jobs.
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
        /// The host meets the requirement.
        Pass = "pass",
        /// GPUDirect RDMA does not work, or not directly.
        Fail = "fail",
        /// The finding costs something, or may do so.
        Warn = "warn",
        /// The evidence could not be read, or not understood.
        Unknown = "unknown",
        /// The host lacks what the check covers.
        NotApplicable = "not-applicable",
    }
}

/// Part of GPUDirect RDMA that no check covers. `ready` does not cover it either.
pub const NOT_LOOKED_AT: &str = "the network beyond this host (switches, their flow control)";

/// Result of a check. `Err` holds the outcome to report when required evidence is unknown or absent.
pub(crate) type Judgement = Result<Outcome, Outcome>;

/// One check. `what`, `why`, `source` and `how` are its documentation (`--explain`, docs/checks.md).
pub struct Check {
    /// Stable name, `group.subject`.
    pub id: &'static str,
    /// Group that reports list it under.
    pub group: Group,
    /// Statement that a pass verifies, as half a sentence.
    pub verifies: &'static str,
    /// Highest severity of a failure. The profile may override it.
    pub severity: Severity,
    /// Whether an ordinary user cannot read the evidence.
    pub needs_root: bool,
    /// Scope of the check, and the expected state.
    pub what: &'static str,
    /// Why it matters.
    pub why: &'static str,
    /// Source of the facts: a section of the handbook, a kernel file, a vendor's page.
    pub source: &'static str,
    /// Files and registers that the evidence is read from.
    pub how: &'static str,
    /// Function that evaluates the evidence. Pure.
    pub judge: fn(&CheckInput<'_>) -> Judgement,
}

/// Returns the check with this id.
pub fn find(id: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.id == id)
}
