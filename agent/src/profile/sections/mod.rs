//! The sections of the profile, each with its keys and the rules that only it has. The rows that put them together are in
//! [`super::root`].

pub mod acs;
pub mod agent;
pub mod cmdline;
pub mod iommu;
pub mod matching;
pub mod modules;
pub mod reboot;
pub mod sriov;
