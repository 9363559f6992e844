//! What NCCL should be told on a host, and what it should not. Pure.

pub mod env;
pub mod perf;
pub mod variables;
pub mod version;
