//! Exit statuses and the one place where an error chain is printed.

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

use super::output;
use crate::engine::RoadError;
use crate::engine::profile_source::SourceError;
use crate::error_chain::causes;

/// How a command ended, as its exit status (DESIGN §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: done, or nothing to do.
    Done,
    /// 2: `plan --exit-code` found changes.
    Changes,
    /// 3: a reboot is pending.
    RebootPending,
    /// 4: blocked, or not ready.
    Blocked,
    /// 5: whether a reboot is due cannot be told yet.
    CannotTell,
    /// The worker's own status: there is no profile of the operator's.
    NoProfile,
    /// 1: part of it failed; the report has said what.
    Failed,
}

impl Exit {
    fn status(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Changes => 2,
            Exit::RebootPending => 3,
            Exit::Blocked => 4,
            Exit::CannotTell => 5,
            Exit::NoProfile => 78,
        }
    }
}

/// What ends a command early.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// An error with its own words; the chain below it is printed once, here at the top.
    #[error("{doing}")]
    While {
        /// What was being done, to what.
        doing: String,
        /// Why it failed.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// A sentence that says everything.
    #[error("{0}")]
    Plain(String),
    /// The road was not walked to its end.
    #[error(transparent)]
    Road(RoadError),
    /// Text that is already laid out (profile diagnostics).
    #[error("{0}")]
    Rendered(String),
    /// The reader of our output has gone: not an error of ours.
    #[error("output closed")]
    BrokenPipe,
}

impl CliError {
    /// An error with what was being done.
    pub fn while_doing(
        doing: impl Into<String>,
        source: impl Error + Send + Sync + 'static,
    ) -> Self {
        CliError::While { doing: doing.into(), source: Box::new(source) }
    }
}

impl From<RoadError> for CliError {
    fn from(error: RoadError) -> Self {
        match error {
            RoadError::Profile(SourceError::Invalid(findings)) => {
                CliError::Rendered(output::findings(&findings))
            }
            error => CliError::Road(error),
        }
    }
}

impl From<SourceError> for CliError {
    fn from(error: SourceError) -> Self {
        RoadError::Profile(error).into()
    }
}

/// Print a usage error (or help, or the version) and give its status.
pub fn usage(error: &clap::Error) -> ExitCode {
    let printed = error.print();
    if error.use_stderr() {
        // A closed stderr is nobody's problem at this point.
        return ExitCode::from(64);
    }
    // Help and version are what was asked for: they were written, or that is the error.
    let printed = printed.and_then(|()| std::io::stdout().flush());
    conclude(output::written(printed).map(|()| Exit::Done))
}

/// The command's result → process exit status, printing the error chain if there is one.
pub fn conclude(result: Result<Exit, CliError>) -> ExitCode {
    match result {
        Ok(exit) => ExitCode::from(exit.status()),
        Err(CliError::BrokenPipe) => ExitCode::SUCCESS,
        Err(error) => {
            print(&error);
            ExitCode::from(1)
        }
    }
}

/// An error with everything that caused it, to stderr.
pub fn print(error: &CliError) {
    if let CliError::Rendered(text) = &error {
        output::diagnostics(text);
    } else {
        let mut text = format!("{}: {error}", output::error_word());
        for cause in causes(error) {
            text.push_str("\n  because ");
            text.push_str(&cause.to_string());
        }
        output::status(&text);
    }
}
