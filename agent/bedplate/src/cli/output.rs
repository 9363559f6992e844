//! Terminal output: data to stdout, status to stderr, color only on terminals. Reports and messages contain text of
//! hosts and profiles. They pass [`terminal`] here, and nowhere else, so that no text can control a terminal.

use std::io::{ErrorKind, IsTerminal as _, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::CliError;
use crate::report::style::{BAD, WARN, paint, terminal};
use crate::report::wrap;
use bedplate_core::documents as json;
use bedplate_core::plan::allowed_lints::AllowedLint;
use bedplate_core::profile::{self, Diagnostic, LoadedProfile};
use bedplate_facts::Facts;
use bedplate_host::ReadCost;

/// Prints a report for operators, wrapped to the width of the terminal.
pub(super) fn report(text: &str) -> Result<(), CliError> {
    data(&wrap::wrap(&terminal(text), columns()))
}

/// Returns the number of columns of a report.
pub(crate) fn columns() -> usize {
    width(std::io::stdout()).unwrap_or(wrap::DEFAULT)
}

/// A report that is redrawn in place. Without a terminal, each new version is printed once.
#[cfg(feature = "daemon")]
pub(crate) struct Screen {
    shown: Option<String>,
}

#[cfg(feature = "daemon")]
impl Screen {
    /// Creates a state in which nothing is drawn yet.
    pub(crate) fn new() -> Self {
        Screen { shown: None }
    }

    /// Draws a report over the last one: no part of the screen is empty in between.
    pub(crate) fn draw(&mut self, text: &str) -> Result<(), CliError> {
        if self.shown.as_deref() == Some(text) {
            return Ok(());
        }
        let is_first = self.shown.replace(text.to_owned()).is_none();
        if !std::io::stdout().is_terminal() {
            return report(text);
        }
        let wrapped = wrap::wrap(&terminal(text), columns());
        // A serial console reports 0 rows.
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
        let rows = size.map(|size| size.ws_row).filter(|rows| *rows > 1).unwrap_or(24);
        written(with_chosen_color(&wrapped).and_then(|painted| {
            // Home, every line with the rest of its row erased, then the rows below.
            let lines: String = String::from_utf8_lossy(&painted)
                .lines()
                .take(usize::from(rows) - 1)
                .map(|line| format!("{line}\x1b[K\n"))
                .collect();
            let clear = if is_first { "\x1b[2J" } else { "" };
            let mut out = std::io::stdout().lock();
            out.write_all(format!("{clear}\x1b[H{lines}\x1b[J").as_bytes())?;
            out.flush()
        }))
    }
}

/// Prints a report whose lines are not wrapped: diffs, tables.
pub(crate) fn lines(text: &str) -> Result<(), CliError> {
    data(&terminal(text))
}

/// Returns the number of columns from COLUMNS or the terminal, if either provides it.
fn width(stream: impl AsFd) -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let shown = || Some(usize::from(rustix::termios::tcgetwinsize(stream).ok()?.ws_col));
    columns
        .filter(|columns| *columns >= wrap::LEAST)
        .or_else(|| shown().filter(|columns| *columns >= wrap::LEAST))
}

/// When to use color. NO_COLOR and CLICOLOR_FORCE are respected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Also in a pipe or file.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// Applies the choice to all output of this process.
    pub(super) fn choose(self) {
        match self {
            Color::Auto => colorchoice::ColorChoice::Auto,
            Color::Always => colorchoice::ColorChoice::Always,
            Color::Never => colorchoice::ColorChoice::Never,
        }
        .write_global();
    }
}

/// Prints text for programs (JSON, TOML, rendered files) unchanged.
pub(crate) fn data(text: &str) -> Result<(), CliError> {
    // Color is removed (or not) first, so that the text is written at once.
    let mut out = std::io::stdout().lock();
    let done = with_chosen_color(text).and_then(|painted| out.write_all(&painted));
    written(done.and_then(|()| out.flush()))
}

/// Removes the color of a text, unless stdout has color.
fn with_chosen_color(text: &str) -> std::io::Result<Vec<u8>> {
    let choice = anstream::AutoStream::choice(&std::io::stdout());
    let mut painted = anstream::AutoStream::new(Vec::new(), choice);
    painted.write_all(text.as_bytes())?;
    Ok(painted.into_inner())
}

/// Prints a document for programs as JSON, streamed.
pub(crate) fn json(document: &impl serde::Serialize) -> Result<(), CliError> {
    let mut out = std::io::BufWriter::with_capacity(64 << 10, std::io::stdout().lock());
    match json::write(&mut out, document) {
        Ok(()) => written(out.flush()),
        Err(error) if error.is_io() => written(Err(error.into())),
        Err(error) => Err(error.into()),
    }
}

/// Prints the result of a command: JSON with `--json`, otherwise a report.
pub(crate) fn either(
    as_json: bool,
    document: &impl serde::Serialize,
    text: impl FnOnce() -> String,
) -> Result<(), CliError> {
    if as_json { json(document) } else { report(&text()) }
}

/// Writes text for programs to a file; `-` is stdout.
pub(crate) fn to(file: &Path, text: &str) -> Result<(), CliError> {
    if file.as_os_str() == "-" {
        return data(text);
    }
    let shown = file.display();
    // Creates a new file for its owner only: never overwrites a file and never follows a link.
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let made = options.open(file).and_then(|mut file| file.write_all(text.as_bytes()));
    made.map_err(|error| {
        let there = error.kind() == ErrorKind::AlreadyExists;
        let failed = CliError::while_doing(format!("cannot write {shown}"), error);
        match there {
            true => failed.hinting("select another file with -o, or remove this file first"),
            false => failed,
        }
    })
}

/// Converts the result of a write to stdout.
pub(crate) fn written(done: std::io::Result<()>) -> Result<(), CliError> {
    done.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => CliError::BrokenPipe,
        _ => CliError::while_doing("cannot write to standard output", error),
    })
}

/// Prints one or a few status lines. Without a terminal, stderr may be the journal, where each line is an entry: lines
/// are then not wrapped.
pub(super) fn status(text: &str) {
    let shown = terminal(text);
    let shown = match width(std::io::stderr()).filter(|_| std::io::stderr().is_terminal()) {
        Some(width) => wrap::wrap(&shown, width),
        None => shown,
    };
    // Nothing can be done if stderr cannot be written.
    let _ = writeln!(anstream::stderr().lock(), "{shown}");
}

/// Prints diagnostics that are already formatted, colored and safe for terminals.
pub(crate) fn diagnostics(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{}", text.trim_end());
}

/// Prints a warning.
pub(crate) fn warn(text: &str) {
    status(&format!("{}: {text}", paint(WARN, "warning")));
}

/// Returns the prefix of errors.
pub(crate) fn error_word() -> String {
    paint(BAD, "error")
}

/// Prints the cost of reading a host.
pub(crate) fn cost(cost: ReadCost, facts: &Facts) {
    let functions = facts.pci.known().map_or(0, |tree| tree.functions.len());
    status(&format!(
        "{functions} functions, {} system calls, {} config-space dwords",
        cost.syscalls, cost.config_dwords
    ));
}

/// Maximum number of findings to show; the rest is counted.
const MOST_FINDINGS: usize = 20;

/// Formats the findings of a profile, with source locations underlined.
pub(crate) fn findings(findings: &[Diagnostic]) -> String {
    // Formatted before it reaches the stream that would remove its color.
    let colour = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    let shown = findings.get(..MOST_FINDINGS).unwrap_or(findings);
    let text = profile::render_all(shown, colour);
    match findings.len() - shown.len() {
        0 => text,
        more => format!("{}\n\n… and {more} more", text.trim_end()),
    }
}

/// Prints the lint findings of a profile to stderr, without reminders: those are irrelevant to a plan. An error that a
/// reason allows is a warning.
pub(crate) fn lints(loaded: &LoadedProfile, allowed: &[AllowedLint]) {
    let of_plan = loaded.lints.iter().filter(|lint| !profile::is_reminder(lint.id)).cloned();
    let allowed: Vec<&AllowedLint> = allowed.iter().chain(&loaded.profile.lints.allow).collect();
    let shown = of_plan.map(|lint| match allowed.iter().find(|allowed| allowed.id == lint.id) {
        Some(allowed) => lint.allowed(&allowed.reason),
        None => lint,
    });
    print_lints(&shown.collect::<Vec<_>>());
}

/// Prints lint findings to stderr.
pub(crate) fn print_lints(lints: &[Diagnostic]) {
    if !lints.is_empty() {
        diagnostics(&findings(lints));
    }
}
