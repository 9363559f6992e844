//! `bedplate nccl`: what NCCL should be told on this host, and what it said.

pub(super) mod env;
mod log;

use clap::Subcommand;

use super::{CliError, Exit};

/// `bedplate nccl`.
#[derive(Debug, Subcommand)]
pub enum NcclCommand {
    /// Print the few variables that NCCL needs on this host, with their reasons.
    Env(env::EnvArgs),
    /// Say how the ranks of a job were connected, and what stood in the way, from its log.
    Log(log::LogArgs),
}

/// Runs one of them.
pub fn run(command: &NcclCommand) -> Result<Exit, CliError> {
    match command {
        NcclCommand::Env(args) => env::run(args),
        NcclCommand::Log(args) => log::run(args),
    }
}
