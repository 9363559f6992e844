//! `bedplate boot` (hidden): run by bedplate-boot.service.

use std::path::PathBuf;

use clap::Args;

use super::block_on;
use crate::cli::{CliError, Context as _, Exit};
use bedplate_daemon::launch::Launch;
use bedplate_daemon::{early_boot, journal};

/// `bedplate boot`.
#[derive(Debug, Args)]
pub(crate) struct BootArgs {
    /// Run rounds with this program instead of this one.
    #[arg(long, value_name = "PROGRAM", hide = true)]
    worker: Option<PathBuf>,
    /// Look for an enforcement pause below this directory.
    #[arg(long, value_name = "DIR", default_value = "/", value_parser = crate::cli::daemon::absolute(), hide = true)]
    state_root: PathBuf,
}

/// Restores the settings that the reboot reset, within the profile's time limit. Settings that are missing afterwards
/// are logged and are not a failure: systemd would wait for a failed unit again, until its hung processes end.
pub(crate) fn run(args: &BootArgs) -> Result<Exit, CliError> {
    journal::start();
    let worker = args.worker.clone().unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
    let worker = Launch::Children(worker);
    let done = block_on(early_boot::put_back(&worker, &args.state_root)).context("cannot start")?;
    let is_whole = done.context("cannot restore the settings that the reboot reset")?;
    Ok(if is_whole { Exit::Done } else { Exit::Blocked })
}
