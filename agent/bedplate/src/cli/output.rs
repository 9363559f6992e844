//! The edge to the terminal: data to stdout, status to stderr, colour only where it is seen. Reports and messages hold
//! texts of hosts and profiles: they pass [`terminal`] here, and nowhere else, so that none of them steers a terminal.

use std::io::{ErrorKind, IsTerminal as _, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::CliError;
use crate::report::style::{BAD, WARN, paint, terminal};
use crate::report::wrap;
use bedplate_core::documents as json;
use bedplate_core::profile::{self, Diagnostic, LoadedProfile};
use bedplate_facts::Facts;
use bedplate_host::ReadCost;

/// A report for people, at the width of their terminal.
pub(super) fn report(text: &str) -> Result<(), CliError> {
    data(&wrap::wrap(&terminal(text), columns()))
}

/// How many columns a report has.
pub(crate) fn columns() -> usize {
    width(std::io::stdout()).unwrap_or(wrap::DEFAULT)
}

/// A report whose lines are to stay whole, whatever the width: diffs, tables.
pub(crate) fn lines(text: &str) -> Result<(), CliError> {
    data(&terminal(text))
}

/// How many columns there are: what COLUMNS says, else the terminal. `None`: it is not a terminal, or says nothing.
fn width(stream: impl AsFd) -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let shown = || Some(usize::from(rustix::termios::tcgetwinsize(stream).ok()?.ws_col));
    columns
        .filter(|columns| *columns >= wrap::LEAST)
        .or_else(|| shown().filter(|columns| *columns >= wrap::LEAST))
}

/// Colour: asked for, or only where it is seen (NO_COLOR and CLICOLOR_FORCE are heard).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// In a pipe or file as well.
    Always,
    /// Nowhere.
    Never,
}

impl Color {
    /// For everything that this process writes.
    pub(super) fn choose(self) {
        match self {
            Color::Auto => colorchoice::ColorChoice::Auto,
            Color::Always => colorchoice::ColorChoice::Always,
            Color::Never => colorchoice::ColorChoice::Never,
        }
        .write_global();
    }
}

/// Text for programs (JSON, TOML, rendered files), as it is.
pub(crate) fn data(text: &str) -> Result<(), CliError> {
    // Colour is taken out (or not) first, so that the text goes out in one piece.
    let choice = anstream::AutoStream::choice(&std::io::stdout());
    let mut painted = anstream::AutoStream::new(Vec::new(), choice);
    let mut out = std::io::stdout().lock();
    let done =
        painted.write_all(text.as_bytes()).and_then(|()| out.write_all(&painted.into_inner()));
    written(done.and_then(|()| out.flush()))
}

/// A document for programs, as JSON. It goes out while it is made.
pub(crate) fn json(document: &impl serde::Serialize) -> Result<(), CliError> {
    let mut out = std::io::BufWriter::with_capacity(64 << 10, std::io::stdout().lock());
    match json::write(&mut out, document) {
        Ok(()) => written(out.flush()),
        Err(error) if error.is_io() => written(Err(error.into())),
        Err(error) => Err(error.into()),
    }
}

/// Prints the result of a command: a document with `--json`, else a report.
pub(crate) fn either(
    as_json: bool,
    document: &impl serde::Serialize,
    text: impl FnOnce() -> String,
) -> Result<(), CliError> {
    if as_json { json(document) } else { report(&text()) }
}

/// Text for programs, to a file; `-`: to stdout.
pub(crate) fn to(file: &Path, text: &str) -> Result<(), CliError> {
    if file.as_os_str() == "-" {
        return data(text);
    }
    let shown = file.display();
    // A new file, for its owner alone: nothing that is there is written to, and no link is followed.
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let made = options.open(file).and_then(|mut file| file.write_all(text.as_bytes()));
    made.map_err(|error| {
        let there = error.kind() == ErrorKind::AlreadyExists;
        let failed = CliError::while_doing(format!("cannot write {shown}"), error);
        match there {
            true => failed.hinting("name another file with -o, or remove this one first"),
            false => failed,
        }
    })
}

/// What became of a write to stdout.
pub(crate) fn written(done: std::io::Result<()>) -> Result<(), CliError> {
    done.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => CliError::BrokenPipe,
        _ => CliError::while_doing("cannot write to standard output", error),
    })
}

/// One line (or a few) of status. Where stderr is no terminal it may be the journal, whose entries are lines: they stay
/// whole.
pub(super) fn status(text: &str) {
    let shown = terminal(text);
    let shown = match width(std::io::stderr()).filter(|_| std::io::stderr().is_terminal()) {
        Some(width) => wrap::wrap(&shown, width),
        None => shown,
    };
    // If nobody can read stderr there is nobody to tell.
    let _ = writeln!(anstream::stderr().lock(), "{shown}");
}

/// Diagnostics, laid out and coloured already, of text that cannot steer a terminal.
pub(crate) fn diagnostics(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{}", text.trim_end());
}

/// A warning.
pub(crate) fn warn(text: &str) {
    status(&format!("{}: {text}", paint(WARN, "warning")));
}

/// The word that errors start with.
pub(crate) fn error_word() -> String {
    paint(BAD, "error")
}

/// What reading a host cost.
pub(crate) fn cost(cost: ReadCost, facts: &Facts) {
    let functions = facts.pci.known().map_or(0, |tree| tree.functions.len());
    status(&format!(
        "{functions} functions, {} system calls, {} config-space dwords",
        cost.syscalls, cost.config_dwords
    ));
}

/// Findings shown at once; the rest is counted.
const MOST_FINDINGS: usize = 20;

/// What is wrong with a profile, with places underlined.
pub(crate) fn findings(findings: &[Diagnostic]) -> String {
    // Laid out before it reaches the stream that would strip its colour.
    let colour = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    let shown = findings.get(..MOST_FINDINGS).unwrap_or(findings);
    let text = profile::render_all(shown, colour);
    match findings.len() - shown.len() {
        0 => text,
        more => format!("{}\n\n… and {more} more", text.trim_end()),
    }
}

/// Lint findings of a profile, to stderr.
pub(crate) fn lints(loaded: &LoadedProfile) {
    if !loaded.lints.is_empty() {
        diagnostics(&findings(&loaded.lints));
    }
}
