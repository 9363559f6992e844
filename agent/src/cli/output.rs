//! The edge to the terminal: data to stdout, status to stderr, colour only where it is seen. Reports and messages hold
//! texts of hosts and profiles: they pass [`terminal`] here, and nowhere else, so that none of them steers a terminal.

use std::io::{ErrorKind, Write};

use super::CliError;
use crate::facts::Facts;
use crate::host::ReadCost;
use crate::report::style::{BAD, WARN, paint, terminal};

/// A report for people.
pub fn report(text: &str) -> Result<(), CliError> {
    data(&terminal(text))
}

/// Text for programs (JSON, TOML, rendered files), as it is.
pub fn data(text: &str) -> Result<(), CliError> {
    // Colour is taken out (or not) first, so that the text goes out in one piece.
    let choice = anstream::AutoStream::choice(&std::io::stdout());
    let mut painted = anstream::AutoStream::new(Vec::new(), choice);
    let mut out = std::io::stdout().lock();
    let done = painted.write_all(text.as_bytes()).and_then(|()| out.write_all(&painted.into_inner()));
    written(done.and_then(|()| out.flush()))
}

/// What became of a write to stdout.
pub fn written(done: std::io::Result<()>) -> Result<(), CliError> {
    done.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => CliError::BrokenPipe,
        _ => CliError::while_doing("cannot write to standard output", error),
    })
}

/// One line (or a few) of status.
pub fn status(text: &str) {
    // If nobody can read stderr there is nobody to tell.
    let _ = writeln!(anstream::stderr().lock(), "{}", terminal(text));
}

/// Diagnostics, laid out and coloured by whoever made them from harmless text.
pub fn diagnostics(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{}", text.trim_end());
}

/// A warning.
pub fn warn(text: &str) {
    status(&format!("{}: {text}", paint(WARN, "warning")));
}

/// The word that errors start with.
pub fn error_word() -> String {
    paint(BAD, "error")
}

/// What reading a host cost.
pub fn cost(cost: ReadCost, facts: &Facts) {
    let functions = facts.pci.known().map_or(0, |tree| tree.functions.len());
    status(&format!(
        "{functions} functions, {} system calls, {} config-space dwords",
        cost.syscalls, cost.config_dwords
    ));
}
