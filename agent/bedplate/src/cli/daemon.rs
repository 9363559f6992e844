//! Commands that talk to the daemon, and the processes that its units start. Built only with the feature `daemon`.

mod boot;
pub(super) mod client;
mod helper;
pub(super) mod last_verdict;
mod reboot;
mod reconcile;
mod relay;
pub(super) mod release;
pub(super) mod repeat;
mod run;
mod status;
mod withdraw;
mod worker;

use std::path::PathBuf;

use clap::Subcommand;

use super::{CliError, Exit};

/// Commands for operators.
#[derive(Debug, Subcommand)]
pub(crate) enum DaemonCommand {
    /// Show readiness and daemon state.
    Status(status::StatusArgs),
    /// Re-check the host and retry failed changes now.
    Reconcile(reconcile::ReconcileArgs),
    /// Show, schedule, cancel, or hold the pending reboot.
    #[command(subcommand)]
    Reboot(reboot::RebootCommand),
    /// Enforce the profile on this host; started by systemd (bedplate.service).
    Daemon(run::DaemonArgs),
}

impl DaemonCommand {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Exit, CliError> {
        match self {
            DaemonCommand::Status(args) => status::run(args),
            DaemonCommand::Reconcile(args) => reconcile::run(args),
            DaemonCommand::Reboot(command) => reboot::run(command),
            DaemonCommand::Daemon(args) => run::run(args),
        }
    }
}

/// Commands for units, for the daemon itself and for the scripts of packages.
#[derive(Debug, Subcommand)]
pub(crate) enum UnitCommand {
    /// Restore, early in boot and in bounded time, the settings that the reboot reset (bedplate-boot.service).
    #[command(hide = true)]
    Boot(boot::BootArgs),
    /// Run one observation or change for the daemon.
    #[command(hide = true)]
    Worker(worker::WorkerArgs),
    /// Run one small privileged task for the daemon.
    #[command(hide = true)]
    Helper(helper::HelperArgs),
    /// Serve one connection of the daemon, with the privileges of this unit.
    #[command(hide = true)]
    Relay(relay::RelayArgs),
    /// Remove published metrics, labels, and status before uninstall.
    #[command(hide = true)]
    Withdraw(withdraw::WithdrawArgs),
}

impl UnitCommand {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Exit, CliError> {
        match self {
            UnitCommand::Boot(args) => boot::run(args),
            UnitCommand::Worker(args) => worker::run(args),
            UnitCommand::Helper(args) => helper::run(args),
            UnitCommand::Relay(args) => relay::run(args),
            UnitCommand::Withdraw(args) => withdraw::run(args),
        }
    }
}

/// Runs asynchronous work on this thread. Hung background work, such as a thread that waits for a child, does not keep
/// the process from ending.
///
/// # Errors
/// If the system cannot provide a runtime to wait with.
fn block_on<T>(work: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(done)
}

/// Parses a directory that contains bedplate's own files. Makes it absolute, because later readers may use another
/// working directory.
fn absolute() -> impl clap::builder::TypedValueParser<Value = PathBuf> {
    use clap::builder::TypedValueParser as _;
    clap::builder::PathBufValueParser::new().try_map(std::path::absolute)
}
