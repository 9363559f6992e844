//! The sections that belong to no kind, each with its keys and the rules that only it has. A kind has its own in its folder;
//! the rows that put them all together are in [`super::root`].

pub(super) mod agent;
pub(super) mod fleetlock;
pub(super) mod lints;
pub(super) mod matching;
pub(super) mod reboot;
pub(super) mod verify;
