//! `bedplate worker` (hidden): child process of the daemon. Observes the host, or first applies changes; prints JSON.

// The help names sections of the profile in brackets.
#![allow(rustdoc::broken_intra_doc_links)]

use clap::Args;

use crate::cli::{CliError, Exit, output};
use bedplate_core::engine::EngineError;
use bedplate_daemon::observation::{self, ChangeKey};
use bedplate_daemon::public;
use bedplate_daemon::worker_task::{self, ObserveError, Selection};

/// `bedplate worker`.
#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// Apply the planned change that an observation lists under this key; without keys, only observe.
    #[arg(long, value_name = "KEY")]
    only: Vec<ChangeKey>,
    /// Apply only if this file is among the files of the profile.
    #[arg(long, value_name = "FILE", requires = "only")]
    profile_file: Vec<String>,
    /// Read only the profile's settings of the daemon ([agent]), without querying a driver.
    #[arg(long, conflicts_with = "only")]
    settings: bool,
    /// Skip the checks of `verify`.
    #[arg(long, conflicts_with = "settings")]
    unjudged: bool,
}

/// Runs the task and prints its result.
pub(crate) fn run(args: &WorkerArgs) -> Result<Exit, CliError> {
    let said = match (args.settings, args.only.is_empty()) {
        (true, _) => {
            worker_task::settings().map_err(ObserveError::from).and_then(|said| json(&said))
        }
        (false, true) => worker_task::observe(!args.unjudged).and_then(|seen| json(&seen)),
        (false, false) => {
            let selected = Selection {
                changes: &args.only,
                profile_files: &args.profile_file,
                judged: !args.unjudged,
            };
            // Only the daemon reads this; if it is gone, the output does not matter.
            let mut at = |what: &str| {
                let _ = output::data(&format!("{}{}\n", observation::AT, what.replace('\n', " ")));
            };
            worker_task::apply(&selected, &mut at).and_then(|seen| json(&seen))
        }
    };
    match said {
        Ok(text) => output::data(&text).map(|()| Exit::Done),
        Err(ObserveError::Engine(error @ EngineError::NoProfile)) => {
            output::status(&error.to_string());
            Ok(Exit::NoProfile)
        }
        Err(ObserveError::Engine(error @ EngineError::Lints { .. })) => Err(error.into()),
        // The daemon shows this text to all users.
        Err(ObserveError::Engine(error)) => Err(CliError::new(public::error(&error))),
        Err(error) => Err(CliError::while_doing("cannot report", error)),
    }
}

fn json(said: &impl serde::Serialize) -> Result<String, ObserveError> {
    Ok(serde_json::to_string(said)? + "\n")
}
