//! `bedplate nccl`: NCCL settings for this host, analysis of NCCL logs, evaluation of benchmark results.

pub(super) mod env;
mod log;
mod perf;
mod unpack;

use clap::Subcommand;

use super::{CliError, Exit};

/// `bedplate nccl`.
#[derive(Debug, Subcommand)]
pub(crate) enum NcclCommand {
    /// Print the few variables that NCCL needs on this host, with their reasons.
    Env(env::EnvArgs),
    /// Say how the ranks of a job were connected, and what got in the way, from its log.
    Log(log::LogArgs),
    /// Judge what nccl-tests, RCCL-tests or perftest measured against what this host's links can do.
    Perf(perf::PerfArgs),
}

/// Runs the command.
pub(crate) fn run(command: &NcclCommand) -> Result<Exit, CliError> {
    match command {
        NcclCommand::Env(args) => env::run(args),
        NcclCommand::Log(args) => log::run(args),
        NcclCommand::Perf(args) => perf::run(args),
    }
}
