//! Errors that end a command.

use std::error::Error;

use super::exit::Exit;
use bedplate_core::engine::EngineError;

/// Hint for a file that only root can write.
pub(crate) const AS_ROOT: &str = "run as root";

/// Hint for an error-level lint.
const LET_PASS: &str = "correct the profile, or allow a lint with `--allow-lint 'ID=REASON'`; for the daemon, with \
    `allow` in [lints] of the profile";

/// Error that ends a command early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// Failed operation and its object. The source chain is printed once, at the top level.
    #[error("{what}")]
    Stopped {
        /// Description as a sentence.
        what: String,
        /// Fix.
        hint: Option<String>,
        /// Cause.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
        /// Exit status.
        exit: Exit,
    },
    /// A value of bedplate cannot be serialized.
    #[error("cannot write JSON")]
    Json(#[from] serde_json::Error),
    /// The host, the profile or the plan prevents the command.
    #[error(transparent)]
    Engine(EngineError),
    /// Text that is already formatted (profile diagnostics).
    #[error("{0}")]
    Rendered(String),
    /// The reader of the output is gone, which is not an error of bedplate.
    #[error("output closed")]
    BrokenPipe,
}

/// Adds the failed operation to an error.
pub(crate) trait Context<T> {
    /// Wraps an error with [`CliError::while_doing`].
    fn context(self, doing: impl Into<String>) -> Result<T, CliError>;
}

impl<T, E: Error + Send + Sync + 'static> Context<T> for Result<T, E> {
    fn context(self, doing: impl Into<String>) -> Result<T, CliError> {
        self.map_err(|error| CliError::while_doing(doing, error))
    }
}

impl CliError {
    /// Creates the error of a failed operation with its cause.
    pub(crate) fn while_doing(
        doing: impl Into<String>,
        error: impl Error + Send + Sync + 'static,
    ) -> Self {
        let source = Some(error.into());
        CliError::Stopped { what: doing.into(), hint: None, source, exit: Exit::Failed }
    }

    /// Creates an error whose text is the cause.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        CliError::Stopped { what: what.into(), hint: None, source: None, exit: Exit::Failed }
    }

    /// Creates a usage error: the arguments are invalid.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        CliError::Stopped { what: what.into(), hint: None, source: None, exit: Exit::Usage }
    }

    /// Adds a fix.
    #[must_use]
    pub(crate) fn hinting(mut self, text: impl Into<String>) -> Self {
        if let CliError::Stopped { hint, .. } = &mut self {
            *hint = Some(text.into());
        }
        self
    }

    /// Returns the exit status.
    pub(super) fn exit(&self) -> Exit {
        match self {
            CliError::Stopped { exit, .. } => *exit,
            // The same status as for a blocker in a plan.
            CliError::Engine(EngineError::Lints { .. }) => Exit::Blocked,
            CliError::BrokenPipe => Exit::Done,
            CliError::Engine(_) | CliError::Json(_) | CliError::Rendered(_) => Exit::Failed,
        }
    }

    pub(super) fn hint(&self) -> Option<&str> {
        match self {
            CliError::Engine(EngineError::Lints { .. }) => Some(LET_PASS),
            CliError::Stopped { hint, .. } => hint.as_deref(),
            CliError::Json(_) => Some("bug in bedplate; report it with the command"),
            _ => None,
        }
    }
}
