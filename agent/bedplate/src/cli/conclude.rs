//! The end of a command: how an error of the pipeline is printed, the exit status, and the one place where a chain of errors is
//! printed. The conversions are not in `error`, since profile errors are laid out by `output`, which has errors itself.

use std::io::Write as _;
use std::process::ExitCode;

use super::error::CliError;
use super::exit::Exit;
use super::output;
use bedplate_base::causes;
use bedplate_core::engine::EngineError;
use bedplate_core::engine::profile_source::SourceError;

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
        return Exit::Usage.into();
    }
    // Help and version are what was asked for: they were written, or that is the error.
    let printed = printed.and_then(|()| std::io::stdout().flush());
    conclude(output::written(printed).map(|()| Exit::Done))
}

/// The command's result → process exit status, printing the error chain if there is one.
pub(crate) fn conclude(result: Result<Exit, CliError>) -> ExitCode {
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            // The reader of our output has gone: there is nobody to tell.
            if !matches!(error, CliError::BrokenPipe) {
                print(&error);
            }
            error.exit().into()
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
