//! The typed, merged, and validated profile. Plain data: the operator's declarations, unresolved. Each section's types
//! are defined next to its keys.

pub use super::root::Profile;
pub use super::sections::agent::{Agent, AgentMode};
pub use super::sections::fleetlock::FleetLock;
pub use super::sections::matching::Match;
pub(crate) use super::sections::matching::{MatchPci, PciIdPair};
pub use super::sections::reboot::{Reboot, RebootMethod, RebootPolicy};
pub use super::sections::verify::{Override, Severity};
pub use crate::desired::{AcsPolicy, ModuleLoad, SriovCount, VfDriver};
pub use crate::kind::acs::section::{Acs, AcsPersist};
pub use crate::kind::cmdline::section::Cmdline;
pub use crate::kind::cmdline::section::iommu::Iommu;
pub(crate) use crate::kind::cmdline::section::iommu::IommuMode;
pub use crate::kind::modules::section::Modules;
pub use crate::kind::sriov::section::Sriov;
