//! Exit statuses and the one place where an error chain is printed.

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

use super::output;
use bedplate_base::causes;
use bedplate_core::engine::EngineError;
use bedplate_core::engine::profile_source::SourceError;

/// How a command ended, as its exit status (design §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: done, or nothing to do.
    Done,
    /// 2: `plan --exit-code` found changes; `topology --import` or `render --check` found a disagreement.
    Changes,
    /// 3: a reboot is pending.
    RebootPending,
    /// 4: blocked, or not ready; refused because a daemon enforces the profile, for a lint of level error, or by
    /// `render --strict`.
    Blocked,
    /// 5: something could not be read, or whether a reboot is due is not known yet.
    CannotTell,
    /// 6: done, and the image build still has to run tools.
    Owed,
    #[cfg(feature = "daemon")]
    /// 75: of the daemon only: it was replaced by another build and has to be started again (EX_TEMPFAIL of sysexits.h).
    Replaced,
    #[cfg(feature = "daemon")]
    /// 78: of the daemon's worker only: the operator has put no profile on this host (EX_CONFIG of sysexits.h).
    NoProfile,
    /// 1: part of it failed; the report has said what.
    Failed,
}

impl Exit {
    /// The number.
    pub(crate) fn status(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Changes => 2,
            Exit::RebootPending => 3,
            Exit::Blocked => 4,
            Exit::CannotTell => 5,
            Exit::Owed => 6,
            #[cfg(feature = "daemon")]
            Exit::Replaced => 75,
            #[cfg(feature = "daemon")]
            Exit::NoProfile => 78,
        }
    }
}

/// The hint where a file of root's cannot be written.
pub(crate) const AS_ROOT: &str = "run as root";

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
    fn status(self) -> u8 {
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

    fn status(&self) -> u8 {
        match self {
            // As in a plan, where it is a blocker.
            CliError::Engine(EngineError::Lints { .. }) => Exit::Blocked.status(),
            // EX_USAGE of sysexits.h, as of options.
            CliError::Usage { .. } => 64,
            error => error.fault().status(),
        }
    }

    fn hint(&self) -> Option<&str> {
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

impl From<EngineError> for CliError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Profile(SourceError::Invalid(findings)) => {
                CliError::Rendered(output::findings(&findings))
            }
            EngineError::NotOwed { ref owed, .. } => {
                let hint = match owed.as_slice() {
                    [] => "no tool is owed".to_owned(),
                    owed => format!("owed: {}", owed.join("; ")),
                };
                CliError::usage(error.to_string()).hinting(hint)
            }
            error => CliError::Engine(error),
        }
    }
}

impl From<SourceError> for CliError {
    fn from(error: SourceError) -> Self {
        EngineError::Profile(error).into()
    }
}

/// Print a usage error (or help, or the version) and give its status.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
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
pub(crate) fn conclude(result: Result<Exit, CliError>) -> ExitCode {
    match result {
        Ok(exit) => ExitCode::from(exit.status()),
        Err(error) => {
            if error.fault() != Fault::None {
                print(&error);
            }
            ExitCode::from(error.status())
        }
    }
}

/// An error with everything that caused it, to stderr.
pub(crate) fn print(error: &CliError) {
    if let CliError::Rendered(text) = &error {
        output::diagnostics(text);
    } else {
        let mut text = format!("{}: {error}", output::error_word());
        for cause in causes(error) {
            text.push_str("\n  because ");
            text.push_str(&cause.to_string());
        }
        if let Some(hint) = error.hint() {
            text.push_str("\n  hint: ");
            text.push_str(hint);
        }
        output::status(&text);
    }
}
