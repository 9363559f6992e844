//! End of a command: conversion of pipeline errors, the exit status, and the only place that prints an error chain. The
//! conversions are not in `error`, because `output` formats profile errors and itself depends on `error`.

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
                    [] => "no tool is pending".to_owned(),
                    owed => format!("pending: {}", owed.join("; ")),
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

/// Prints a usage error (or help, or the version) and returns its status.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let printed = error.print();
    if error.use_stderr() {
        // Nothing can be done about a closed stderr here.
        return Exit::Usage.into();
    }
    // Help and version are requested output, so a failure to write them is an error.
    let printed = printed.and_then(|()| std::io::stdout().flush());
    conclude(output::written(printed).map(|()| Exit::Done))
}

/// Converts a command's result to the exit status. Prints the error chain of a failure.
pub(crate) fn conclude(result: Result<Exit, CliError>) -> ExitCode {
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            // The reader of the output is gone, so an error message would be lost.
            if !matches!(error, CliError::BrokenPipe) {
                print(&error);
            }
            error.exit().into()
        }
    }
}

/// Prints an error with all its causes to stderr.
pub(crate) fn print(error: &CliError) {
    if let CliError::Rendered(text) = &error {
        output::diagnostics(text);
    } else {
        let mut text = format!("{}: {error}", output::error_word());
        for cause in causes(error) {
            text.push_str(": ");
            text.push_str(&cause.to_string());
        }
        if let Some(hint) = error.hint() {
            text.push_str("\nhint: ");
            text.push_str(hint);
        }
        output::status(&text);
    }
}
