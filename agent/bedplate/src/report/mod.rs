//! Plans and reports → text, JSON, unified diff. Pure: no terminal, no host.

pub mod applied;
pub mod diff;
pub mod doctor;
#[cfg(feature = "daemon")]
pub mod holders;
pub mod host_page;
pub mod inspect;
mod markup;
mod names;
pub mod nccl;
pub mod nccl_log;
pub mod nccl_perf;
pub mod outline;
mod page;
pub mod seal;
#[cfg(feature = "daemon")]
pub mod status;
pub mod style;
pub mod text;
pub mod topology;
pub mod verify;
pub mod wrap;
