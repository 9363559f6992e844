//! The sections that belong to no kind, each with its keys and the rules that only it has. A kind has its own in its folder;
//! the rows that put them all together are in [`super::root`].

pub mod agent;
pub mod lints;
pub mod matching;
pub mod reboot;
pub mod verify;
