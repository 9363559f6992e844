//! Errors that end a command.

use std::error::Error;

use super::exit::Exit;
use bedplate_core::engine::EngineError;

/// The hint where a file of root's cannot be written.
pub(crate) const AS_ROOT: &str = "run as root";

/// The hint where a lint is in the way.
const LET_PASS: &str = "correct the profile, or let a lint pass with `--allow-lint 'ID=REASON'`; for the daemon, with \
    `allow` in [lints] of the profile";

/// What ends a command early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// What was asked for or being done, to what; the chain below it is printed once, here at the top.
    #[error("{what}")]
    Stopped {
        /// As a sentence.
        what: String,
        /// Remedy.
        hint: Option<String>,
        /// Why it failed.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
        /// The exit status.
        exit: Exit,
    },
    /// A value of ours has no form to be shown in.
    #[error("cannot write JSON")]
    Json(#[from] serde_json::Error),
    /// The host, the profile or the plan stands in the way.
    #[error(transparent)]
    Engine(EngineError),
    /// Text that is already laid out (profile diagnostics).
    #[error("{0}")]
    Rendered(String),
    /// The reader of our output has gone: not an error of ours.
    #[error("output closed")]
    BrokenPipe,
}

/// Says of an error what was being done.
pub(crate) trait Context<T> {
    /// The same; an error becomes one of [`CliError::while_doing`].
    fn context(self, doing: impl Into<String>) -> Result<T, CliError>;
}

impl<T, E: Error + Send + Sync + 'static> Context<T> for Result<T, E> {
    fn context(self, doing: impl Into<String>) -> Result<T, CliError> {
        self.map_err(|error| CliError::while_doing(doing, error))
    }
}

impl CliError {
    /// What was being done did not succeed.
    pub(crate) fn while_doing(
        doing: impl Into<String>,
        error: impl Error + Send + Sync + 'static,
    ) -> Self {
        let source = Some(error.into());
        CliError::Stopped { what: doing.into(), hint: None, source, exit: Exit::Failed }
    }

    /// The sentence says what is in the way.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        CliError::Stopped { what: what.into(), hint: None, source: None, exit: Exit::Failed }
    }

    /// The words that were typed mean nothing here.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        CliError::Stopped { what: what.into(), hint: None, source: None, exit: Exit::Usage }
    }

    /// The same, with what to do.
    #[must_use]
    pub(crate) fn hinting(mut self, text: impl Into<String>) -> Self {
        if let CliError::Stopped { hint, .. } = &mut self {
            *hint = Some(text.into());
        }
        self
    }

    /// The exit status.
    pub(super) fn exit(&self) -> Exit {
        match self {
            CliError::Stopped { exit, .. } => *exit,
            // As in a plan, where it is a blocker.
            CliError::Engine(EngineError::Lints { .. }) => Exit::Blocked,
            CliError::BrokenPipe => Exit::Done,
            CliError::Engine(_) | CliError::Json(_) | CliError::Rendered(_) => Exit::Failed,
        }
    }

    pub(super) fn hint(&self) -> Option<&str> {
        match self {
            CliError::Engine(EngineError::Lints { .. }) => Some(LET_PASS),
            CliError::Stopped { hint, .. } => hint.as_deref(),
            CliError::Json(_) => Some("this is a bug of bedplate: report it with the command"),
            _ => None,
        }
    }
}
