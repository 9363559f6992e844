//! `bedplate daemon`: the daemon, started by systemd.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::cli::{CliError, Exit, output};
use bedplate_daemon::launch::Launch;
use bedplate_daemon::reminder::DAY;
use bedplate_daemon::run::{self, Options, RunError};

/// `bedplate daemon`.
#[derive(Debug, Args)]
pub(crate) struct DaemonArgs {
    /// Root directory of its own files (record of reboots, status, metrics).
    #[arg(long, value_name = "DIR", default_value = "/", value_parser = crate::cli::daemon::absolute(), hide = true)]
    state_root: PathBuf,
    /// Run rounds with this program instead of this one.
    #[arg(long, value_name = "PROGRAM", hide = true)]
    worker: Option<PathBuf>,
    /// Run privileged work in the units whose sockets are in this directory, instead of in children. The units must run
    /// the same file; exit status 75 means that they run another build by now.
    #[arg(long, value_name = "DIR", conflicts_with = "worker", hide = true)]
    sockets: Option<PathBuf>,
    /// Remind of a manual reboot after this many seconds instead of after a day.
    #[arg(long, value_name = "SECONDS", hide = true)]
    remind_every: Option<u64>,
}

/// Runs the daemon.
pub(crate) fn run(args: &DaemonArgs) -> Result<Exit, CliError> {
    // Refers to the mapped file, even after a package manager has replaced it.
    let own = || PathBuf::from("/proc/self/exe");
    let options = Options {
        root: args.state_root.clone(),
        launch: match &args.sockets {
            Some(directory) => Launch::sockets(directory.clone()),
            None => Launch::Children(args.worker.clone().unwrap_or_else(own)),
        },
        remind_every: args.remind_every.map_or(DAY, Duration::from_secs),
    };
    match run::run(options) {
        Ok(()) => Ok(Exit::Done),
        // An upgrade is not a failure: the unit treats this status as success and starts the daemon again.
        Err(error @ RunError::Replaced) => {
            output::status(&error.to_string());
            Ok(Exit::Replaced)
        }
        Err(error) => Err(CliError::while_doing("cannot run the daemon", error)),
    }
}
