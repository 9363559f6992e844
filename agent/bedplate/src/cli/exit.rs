//! Exit statuses and the one place where an error chain is printed.

use std::io::Write as _;
use std::process::ExitCode;

use super::error::{CliError, Fault};
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

impl CliError {
    fn status(&self) -> u8 {
        match self {
            // As in a plan, where it is a blocker.
            CliError::Engine(EngineError::Lints { .. }) => Exit::Blocked.status(),
            // EX_USAGE of sysexits.h, as of options.
            CliError::Usage { .. } => 64,
            error => error.fault().status(),
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
