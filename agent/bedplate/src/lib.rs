//! bedplate: a host provisioning agent for bare-metal GPU nodes.
//!
//! One pipeline: a profile and a host's facts make the desired state; the host's observed state makes the difference;
//! the difference is the plan. Planning only reads; `apply` alone writes.

pub mod cli;
pub mod report;
