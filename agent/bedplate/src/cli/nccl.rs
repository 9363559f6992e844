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
    /// Print the variables that NCCL needs on this host, with reasons.
    Env(env::EnvArgs),
    /// Analyze a job's NCCL log: how its ranks were connected, and what prevented direct connections.
    Log(log::LogArgs),
    /// Compare results of nccl-tests, RCCL-tests or perftest with the limits of this host's links.
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
