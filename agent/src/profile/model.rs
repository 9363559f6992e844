//! The typed, merged and validated profile. Plain data: what the operator declared, nothing resolved. Each section's types
//! stand where its keys are declared.

pub use super::root::Profile;
pub use super::sections::acs::{Acs, AcsPersist, AcsPolicy};
pub use super::sections::agent::{Agent, AgentMode};
pub use super::sections::cmdline::{Cmdline, CmdlineArg};
pub use super::sections::iommu::{Iommu, IommuMode};
pub use super::sections::matching::{Match, MatchPci, PciIdPair};
pub use super::sections::modules::{GpuDirect, Module, ModuleLoad, ModuleOption, Modules};
pub use super::sections::reboot::{FleetLock, Reboot, RebootMethod, RebootPolicy};
pub use super::sections::sriov::{
    PfSelector, Sriov, SriovCount, SriovManaged, SriovRule, VfDriver,
};
