//! Sections that belong to no resource type, each with its keys and rules. Resource types have theirs in their own
//! directories; [`super::root`] lists all sections.

pub(super) mod agent;
pub(super) mod fleetlock;
pub(super) mod lints;
pub(super) mod matching;
pub(super) mod reboot;
pub(super) mod verify;
