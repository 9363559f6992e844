//! bedplate: a host provisioning agent for bare-metal GPU nodes.
//!
//! One road: a profile and a host's facts make the desired state; the host's observed state makes the difference;
//! the difference is the plan. Planning only reads; `apply` alone writes.

pub mod desired;
pub mod facts;
pub mod host;
pub mod kind;
pub mod ledger;
pub mod plan;
pub mod profile;
pub mod value;
