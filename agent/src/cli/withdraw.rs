//! `bedplate withdraw`, hidden: for `install.sh --uninstall` and for the scripts of packages, with the daemon stopped.

use std::path::PathBuf;

use clap::Args;

use super::{Exit, output};
use crate::daemon::withdraw::withdraw;

/// `bedplate withdraw`.
#[derive(Debug, Args)]
pub struct WithdrawArgs {
    /// Of this root directory instead of the running machine.
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

/// Removes what bedplate tells others about this host.
pub fn run(args: &WithdrawArgs) -> Exit {
    let wrong = withdraw(&args.root);
    wrong.iter().for_each(|wrong| output::warn(wrong));
    if wrong.is_empty() { Exit::Done } else { Exit::Failed }
}
