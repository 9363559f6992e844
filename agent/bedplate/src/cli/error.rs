//! Errors that end a command.

use std::error::Error;

use bedplate_core::engine::EngineError;
use bedplate_core::engine::profile_source::SourceError;

/// The hint where a lint is in the way.
const LET_PASS: &str = "correct the profile, or let a lint pass with `--allow-lint 'ID=REASON'`; for the daemon, with \
    `allow` in [lints] of the profile";

/// Who has to act on an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Who asked: a profile, a name or an option says what cannot be done.
    Request,
    /// Who looks after the host: something on it cannot be read, written or reached.
    Host,
    /// bedplate's developers.
    Bedplate,
    /// Nobody: the reader of our output has gone.
    None,
}

impl Fault {
    pub(super) fn status(self) -> u8 {
        match self {
            Fault::None => 0,
            Fault::Request | Fault::Host | Fault::Bedplate => 1,
        }
    }
}

/// What ends a command early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The request cannot be met as it was made.
    #[error("{what}")]
    Request {
        /// Why, as a sentence.
        what: String,
        /// Remedy.
        hint: Option<String>,
    },
    /// The words that were typed mean nothing here.
    #[error("{what}")]
    Usage {
        /// Why, as a sentence.
        what: String,
        /// Remedy.
        hint: Option<String>,
    },
    /// The host does not allow it; the chain below it is printed once, here at the top.
    #[error("{doing}")]
    Host {
        /// What was being done, to what.
        doing: String,
        /// Remedy.
        hint: Option<String>,
        /// Why it failed.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
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

impl CliError {
    /// The host did not allow what was being done.
    pub(crate) fn while_doing(
        doing: impl Into<String>,
        source: impl Error + Send + Sync + 'static,
    ) -> Self {
        CliError::Host { doing: doing.into(), hint: None, source: Some(Box::new(source)) }
    }

    /// Something of the host is in the way, and the sentence says what.
    pub(crate) fn host(what: impl Into<String>) -> Self {
        CliError::Host { doing: what.into(), hint: None, source: None }
    }

    /// The request cannot be met.
    pub(crate) fn request(what: impl Into<String>) -> Self {
        CliError::Request { what: what.into(), hint: None }
    }

    /// The words mean nothing here.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        CliError::Usage { what: what.into(), hint: None }
    }

    /// The same, with what to do.
    #[must_use]
    pub(crate) fn hinting(mut self, text: impl Into<String>) -> Self {
        if let CliError::Request { hint, .. }
        | CliError::Usage { hint, .. }
        | CliError::Host { hint, .. } = &mut self
        {
            *hint = Some(text.into());
        }
        self
    }

    /// Who has to act.
    pub(crate) fn fault(&self) -> Fault {
        match self {
            CliError::Request { .. }
            | CliError::Usage { .. }
            | CliError::Rendered(_)
            | CliError::Engine(EngineError::Lints { .. }) => Fault::Request,
            CliError::Engine(EngineError::Profile(source)) => match source {
                SourceError::Host(_) => Fault::Host,
                _ => Fault::Request,
            },
            CliError::Host { .. } | CliError::Engine(_) => Fault::Host,
            CliError::Json(_) => Fault::Bedplate,
            CliError::BrokenPipe => Fault::None,
        }
    }

    pub(super) fn hint(&self) -> Option<&str> {
        match self {
            CliError::Engine(EngineError::Lints { .. }) => Some(LET_PASS),
            CliError::Request { hint, .. }
            | CliError::Usage { hint, .. }
            | CliError::Host { hint, .. } => hint.as_deref(),
            CliError::Json(_) => Some("this is a bug of bedplate: report it with the command"),
            _ => None,
        }
    }
}
