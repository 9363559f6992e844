//! `bedplate relay` (hidden): run by the daemon's units for each connection (`systemd/bedplate-worker@.service` and
//! similar).

use std::path::PathBuf;

use clap::Args;

use super::block_on;
use crate::cli::{CliError, Context as _, Exit};
use bedplate_daemon::relay::{self, Relay};
use bedplate_daemon::unit::Unit;

/// `bedplate relay`.
#[derive(Debug, Args)]
pub(crate) struct RelayArgs {
    /// Unit that this runs in, without its instance (`%p`); only its tasks are run.
    #[arg(long = "for", value_name = "UNIT", value_parser = unit)]
    unit: Unit,
    /// Run rounds with this program instead of this one.
    #[arg(long, value_name = "PROGRAM", default_value = "/proc/self/exe", hide = true)]
    worker: PathBuf,
    /// Root directory of the host.
    #[arg(long, value_name = "DIR", default_value = "/", value_parser = crate::cli::daemon::absolute(), hide = true)]
    state_root: PathBuf,
}

fn unit(name: &str) -> Result<Unit, String> {
    let known = |unit: &Unit| name.strip_prefix("bedplate-") == Some(unit.name());
    Unit::ALL.into_iter().find(known).ok_or_else(|| "not a unit of the daemon".to_owned())
}

/// Serves one connection.
pub(crate) fn run(args: &RelayArgs) -> Result<Exit, CliError> {
    let failed = "cannot serve the daemon";
    let relay =
        Relay { unit: args.unit, worker: args.worker.clone(), root: args.state_root.clone() };
    block_on(relay::serve(&relay)).context(failed)?.context(failed)?;
    Ok(Exit::Done)
}
