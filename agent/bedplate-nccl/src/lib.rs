//! What NCCL, RCCL or oneCCL should be told on a host, what it should not, and what it said; where NCCL sees functions, and its
//! topology files. Pure but for the ports, which are read from sysfs.
//!
//! Depends on bedplate-base, -host and -facts. Start with [`mod@env`] and [`variables`]; logs are in [`log`], benchmarks in [`perf`].

mod coverage;
pub mod env;
pub mod host_advice;
mod library;
pub mod log;
pub mod nets;
pub mod perf;
pub mod ports;
pub mod switches;
pub mod topology_file;
pub mod topology_xml;
pub mod variables;
mod version;

pub use library::Library;
pub use version::Version;
