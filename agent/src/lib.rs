//! bedplate: a host provisioning agent for bare-metal GPU nodes.
//!
//! One pipeline: a profile and a host's facts make the desired state; the host's observed state makes the difference;
//! the difference is the plan. Planning only reads; `apply` alone writes.

pub mod apply;
pub mod boot;
pub mod checker;
pub mod cli;
pub mod cmdline;
pub mod daemon;
pub mod demo;
pub mod desired;
pub mod doctor;
pub mod duration;
pub mod enforce_hold;
pub mod engine;
pub mod error_chain;
pub mod facts;
pub mod host;
pub mod kernel_log;
pub mod kind;
pub mod ledger;
pub mod mask;
pub mod modules_conf;
pub mod nccl;
pub mod plan;
pub mod profile;
pub mod raw_text;
pub mod reboot;
pub mod record;
pub mod recovery;
pub mod render;
pub mod report;
pub mod revert;
pub mod seal;
mod section;
pub mod topology;
pub mod utc;
pub mod value;
pub mod verify;
pub mod visible;
