//! The end of a command: its exit status, and the one place where an error chain is printed.

use std::io::Write as _;
use std::process::ExitCode;

use super::error::CliError;
use super::exit::Exit;
use super::output;
use bedplate_base::causes;

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
