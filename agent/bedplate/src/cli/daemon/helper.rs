//! `bedplate helper` (hidden): one of the daemon's small privileged tasks. Reads the task from stdin as JSON and writes
//! the answer to stdout.

use std::path::PathBuf;

use clap::Args;

use crate::cli::{CliError, Context as _, Exit, output};
use bedplate_daemon::helper;

/// `bedplate helper`.
#[derive(Debug, Args)]
pub(crate) struct HelperArgs {
    /// Root directory of the host.
    #[arg(long, value_name = "DIR", default_value = "/", value_parser = crate::cli::daemon::absolute(), hide = true)]
    state_root: PathBuf,
}

/// Runs the task and prints its result.
pub(crate) fn run(args: &HelperArgs) -> Result<Exit, CliError> {
    let text = std::io::read_to_string(std::io::stdin()).context("cannot read the task")?;
    match helper::perform(&text, &args.state_root) {
        Ok(answer) => output::data(&(answer + "\n")).map(|()| Exit::Done),
        Err(why) => {
            output::status(&why);
            Ok(Exit::Failed)
        }
    }
}
