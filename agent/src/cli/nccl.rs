//! `bedplate nccl`: what NCCL should be told on this host.

pub(super) mod env;

use clap::Subcommand;

use super::{CliError, Exit};

/// `bedplate nccl`.
#[derive(Debug, Subcommand)]
pub enum NcclCommand {
    /// Print the few variables that NCCL needs on this host, with their reasons.
    Env(env::EnvArgs),
}

/// Runs one of them.
pub fn run(command: &NcclCommand) -> Result<Exit, CliError> {
    match command {
        NcclCommand::Env(args) => env::run(args),
    }
}
