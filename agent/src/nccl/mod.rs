//! What NCCL, RCCL or oneCCL should be told on a host, and what it should not. Pure.

pub mod env;
pub mod library;
pub mod variables;
pub mod version;
