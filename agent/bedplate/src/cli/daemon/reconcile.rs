//! `bedplate reconcile`: the daemon tries again what it had given up on.

use clap::Args;

use super::client;
use super::status::show;
use crate::cli::{CliError, Exit, output};

/// `bedplate reconcile`.
#[derive(Debug, Args)]
pub(crate) struct ReconcileArgs {
    /// No longer expect GPUs and NICs that were here and are gone: they were taken out for good.
    #[arg(long)]
    forget_missing: bool,
    /// Machine-readable.
    #[arg(long)]
    json: bool,
}

/// Said where the daemon cannot even be asked.
const UNCHANGED: &str = "nothing was changed";

/// Has the daemon forget failures and contests, look, and put right; then says where the host stands, as `status` does.
pub(crate) fn run(args: &ReconcileArgs) -> Result<Exit, CliError> {
    if args.forget_missing {
        let said = client::call(UNCHANGED, |agent| async move { agent.forget_missing().await })?;
        output::status(&said);
    }
    client::call(UNCHANGED, |agent| async move { agent.reconcile().await })?;
    let status = client::status()?;
    show(&status, args.json, true)
}
