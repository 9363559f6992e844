//! `bedplate nccl`: NCCL settings for this host, analysis of NCCL logs, evaluation of benchmark results.

pub(super) mod env;
pub(super) mod job;
mod log;
pub(super) mod logs;
pub(super) mod nodes;
mod perf;
mod unpack;

use clap::Subcommand;

use super::{CliError, Exit};

/// `bedplate nccl`.
#[derive(Debug, Subcommand)]
pub(crate) enum NcclCommand {
    /// Print the variables that NCCL needs on this host, with reasons.
    Env(env::EnvArgs),
    /// Judge a job from its output: path, completeness, end and results, and the node at fault.
    Job(job::JobArgs),
    /// Analyze a job's NCCL log: how its ranks were connected, and what prevented direct connections.
    Log(log::LogArgs),
    /// Compare results of benchmarks (nccl-tests, perftest, nvbandwidth …) with the limits of this host's links.
    Perf(perf::PerfArgs),
}

/// Runs the command.
pub(crate) fn run(command: &NcclCommand) -> Result<Exit, CliError> {
    match command {
        NcclCommand::Env(args) => env::run(args),
        NcclCommand::Job(args) => job::run(args),
        NcclCommand::Log(args) => log::run(args),
        NcclCommand::Perf(args) => perf::run(args),
    }
}
