//! `bedplate history`: what bedplate did on a host.

use clap::Args;

use super::{CliError, Exit, HostArgs, host, output};
use crate::report::{applied, json};

/// `bedplate history`.
#[derive(Debug, Args)]
pub struct HistoryArgs {
    #[command(flatten)]
    host: HostArgs,
    /// Machine-readable.
    #[arg(long)]
    json: bool,
}

/// Shows what was done.
pub fn run(args: &HistoryArgs) -> Result<Exit, CliError> {
    let ledger = host::open_one(&args.host)?.ledger()?;
    if args.json {
        output::data(&json::document(&ledger.history)?)?;
    } else {
        output::report(&applied::history(&ledger))?;
    }
    Ok(Exit::Done)
}
