//! `bedplate history`: shows the changes that bedplate made on a host.

use clap::Args;

use super::{CliError, Exit, HostArgs, host, output};
use crate::report::applied;
use crate::report::outline::lacks_history;

/// `bedplate history`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 shown; 5 a snapshot, which has no history; 1 error; 64 usage."
)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    host: HostArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Prints the history.
pub(crate) fn run(args: &HistoryArgs) -> Result<Exit, CliError> {
    let opened = host::open_one(&args.host)?;
    let ledger = opened.ledger()?;
    if opened.snapshot.is_some() && lacks_history(opened.reader.as_ref(), &ledger) {
        output::status("history unknown: the snapshot does not contain it");
        return Ok(Exit::CannotTell);
    }
    output::either(args.json, &ledger.history, || applied::history(&ledger))?;
    Ok(Exit::Done)
}
