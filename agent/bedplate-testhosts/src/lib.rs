//! Fake hosts: data-centre machines, built in memory as snapshots from a short description. Test cases start from them,
//! and `--demo NAME` shows snapshots of them. Never reads the real host. For tests only.
//!
//! Depends on bedplate-base, -host and -facts. Start with [`HostSpec`] in `spec.rs`.

mod boot;
mod demos;
mod described_functions;
mod device;
mod device_files;
pub mod fixture;
mod function;
mod machine;
mod memory;
mod nic;
mod nodes;
mod spec;
mod system;
mod tree;

pub use demos::{names, snapshot};
pub use function::vpd;
pub use spec::HostSpec;
pub use tree::write_tree;

#[cfg(test)]
mod tests;
