//! `bedplate withdraw` (hidden): for `install.sh --uninstall` and for the scripts of packages, with the daemon stopped.

use std::path::PathBuf;

use clap::Args;

use super::block_on;
use crate::cli::{CliError, Context as _, Exit, output};
use bedplate_base::format_utc;
use bedplate_daemon::uninstall::{cancel_reboot, remove_published_files};

/// `bedplate withdraw`.
#[derive(Debug, Args)]
pub(crate) struct WithdrawArgs {
    /// Use this root directory instead of the running machine.
    #[arg(long, value_name = "DIR", value_parser = crate::cli::daemon::absolute())]
    root: Option<PathBuf>,
    /// Root directory of the running machine's files.
    #[arg(long, value_name = "DIR", default_value = "/", value_parser = crate::cli::daemon::absolute(), hide = true, conflicts_with = "root")]
    state_root: PathBuf,
}

/// Removes published data about this host. On the running machine, first cancels a scheduled reboot: the removed files
/// identify it as bedplate's, and without them it could no longer be cancelled.
pub(crate) fn run(args: &WithdrawArgs) -> Result<Exit, CliError> {
    let root = args.root.as_ref().unwrap_or(&args.state_root);
    if args.root.is_none() {
        let cancelled = block_on(cancel_reboot(root)).context("cannot set up a connection")?;
        if let Some(at) = cancelled.map_err(CliError::new)? {
            output::status(&format!("cancelled the reboot scheduled for {}", format_utc(at)));
        }
    }
    let wrong = remove_published_files(root);
    wrong.iter().for_each(|wrong| output::warn(wrong));
    Ok(if wrong.is_empty() { Exit::Done } else { Exit::Failed })
}
