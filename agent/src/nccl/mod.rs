//! What NCCL should be told on a host, and what it should not. Pure but for the ports, which are read from sysfs.

pub mod env;
pub mod log;
pub mod ports;
pub mod variables;
pub mod version;
