//! `bedplate reconcile`: has the daemon retry changes that it had given up on.

use clap::Args;

use super::client;
use super::status::show;
use crate::cli::{CliError, Exit, output};

/// `bedplate reconcile`.
#[derive(Debug, Args)]
pub(crate) struct ReconcileArgs {
    /// Stop expecting GPUs and NICs that are gone; they were removed for good.
    #[arg(long)]
    forget_missing: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Message if the daemon cannot receive the request.
const UNCHANGED: &str = "no changes made";

/// Has the daemon clear failures and conflicts, observe and remediate the host; then prints the status, as `status`
/// does.
pub(crate) fn run(args: &ReconcileArgs) -> Result<Exit, CliError> {
    if args.forget_missing {
        let said = client::call(UNCHANGED, |agent| async move { agent.forget_missing().await })?;
        output::status(&said);
    }
    client::call(UNCHANGED, |agent| async move { agent.reconcile().await })?;
    let status = client::status()?;
    show(&status, args.json, true)
}
