//! `bedplate relay`, hidden: what the daemon's units run for a connection (`systemd/bedplate-worker@.service` and its kin).

use std::path::PathBuf;

use clap::Args;

use super::{CliError, Exit};
use crate::daemon::relay;

/// `bedplate relay`.
#[derive(Debug, Args)]
pub struct RelayArgs {
    /// Have rounds done by this program instead of this one.
    #[arg(long, value_name = "PROGRAM", default_value = "/proc/self/exe", hide = true)]
    worker: PathBuf,
}

/// Serves one connection.
pub fn run(args: &RelayArgs) -> Result<Exit, CliError> {
    let failed = |error| CliError::while_doing("cannot serve the daemon", error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let done = runtime.block_on(relay::serve(&args.worker));
    // What hangs must not keep this from ending.
    runtime.shutdown_background();
    done.map(|()| Exit::Done).map_err(failed)
}
