//! Recommended variables of NCCL, RCCL and oneCCL for a host, analysis of their logs and benchmarks, NCCL's view of
//! PCI, and its topology files. Pure, except that ports are read from sysfs.
//!
//! Depends on bedplate-base, -host and -facts. Start with [`mod@env`] and [`variables`]; logs are in [`log`],
//! benchmarks in [`perf`], both together in [`job`].

mod coverage;
pub mod env;
pub mod host_advice;
pub mod job;
mod library;
pub mod link_layer;
pub mod log;
pub mod nets;
pub mod perf;
pub mod ports;
pub mod process_env;
pub mod switches;
pub mod topology_file;
pub mod topology_xml;
pub mod variables;
mod version;
pub mod vm_topology;

pub use library::Library;
pub use version::Version;
