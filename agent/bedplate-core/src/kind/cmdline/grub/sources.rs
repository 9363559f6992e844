//! Input of grub-mkconfig: the main file, its drop-ins, and the resulting line.

use super::Family;
use crate::kind::cmdline::boot_files::raw;
use bedplate_base::{OptionalRead as _, ReadError, Reading};
use bedplate_cmdline::CommandLine;
use bedplate_cmdline::boot::grub_default::{
    self, CMDLINE, CMDLINE_DEFAULT, DROP_INS, GrubDefault, MAIN,
};
use bedplate_cmdline::boot::grub_quote;
use bedplate_cmdline::boot::shell::{NOT_UTF8, Shell};
use bedplate_host::Reader;

/// File that grub-mkconfig sources.
pub(super) struct SourcedFile {
    pub path: String,
    pub default: GrubDefault,
}

/// Reads the main file and its drop-ins, in the order in which grub-mkconfig sources them.
pub(super) fn sources(reader: &dyn Reader, family: &Family) -> Result<Vec<SourcedFile>, ReadError> {
    let shell = shell(reader, family);
    let mut sources = Vec::new();
    let mut drop_ins = family.drop_ins;
    // grub-mkconfig skips absent files.
    if let Some(text) = raw(reader, MAIN).optional()? {
        let default = match drop_ins {
            Some(_) => grub_default::parse_for(shell, &text),
            None => grub_default::parse_main(shell, &text),
        };
        drop_ins = drop_ins.or(default.sources_drop_ins().then_some(DROP_INS));
        sources.push(SourcedFile { path: MAIN.to_owned(), default });
    }
    let Some(directory) = drop_ins else { return Ok(sources) };
    let names = reader.list(directory).optional()?.unwrap_or_default();
    // The shell's glob leaves out names with a leading dot.
    for name in names.iter().filter(|name| name.ends_with(".cfg") && !name.starts_with('.')) {
        let path = format!("{directory}/{name}");
        if let Some(text) = raw(reader, &path).optional()? {
            sources.push(SourcedFile { default: grub_default::parse_for(shell, &text), path });
        }
    }
    Ok(sources)
}

/// Returns the shell that runs grub-mkconfig (`#!/bin/sh`), by the target of the link /bin/sh, else the default of the
/// family.
fn shell(reader: &dyn Reader, family: &Family) -> Shell {
    let target = reader.link("/bin/sh").ok();
    match target.as_deref().and_then(|target| target.rsplit('/').next()) {
        Some("bash") => Shell::Bash,
        Some("dash" | "busybox" | "ksh" | "mksh" | "zsh") => Shell::Posix,
        _ => family.shell,
    }
}

/// Place and reason where a variable of /etc/default/grub, or the resulting line, cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why}")]
pub(super) struct FollowError {
    /// File, line and, where it is known, column.
    place: String,
    why: String,
}

impl FollowError {
    /// Whether the value has bytes of another encoding, which no regeneration makes readable.
    pub(super) fn is_not_text(&self) -> bool {
        self.why.starts_with(NOT_UTF8)
    }
}

pub(super) fn value(sources: &[SourcedFile], variable: &str) -> Result<String, FollowError> {
    let files: Vec<&GrubDefault> = sources.iter().map(|source| &source.default).collect();
    match grub_default::evaluate(&files, variable) {
        Ok(value) => Ok(value.unwrap_or_default()),
        Err(error) => {
            let path = sources.get(error.file).map_or(MAIN, |source| source.path.as_str());
            let place = &error.source;
            Err(FollowError {
                place: format!("{path}:{}:{}", place.line, place.column),
                why: place.why.to_string(),
            })
        }
    }
}

/// Returns the places of the words that `is_meant` selects, as `path:line`, in reading order.
pub(super) fn places<'a>(
    sources: impl IntoIterator<Item = &'a SourcedFile>,
    is_meant: &dyn Fn(&str) -> bool,
) -> String {
    let all: Vec<String> = sources
        .into_iter()
        .flat_map(|source| {
            let lines = source.default.lines_with(&[CMDLINE, CMDLINE_DEFAULT], is_meant);
            lines.into_iter().map(|line| format!("{}:{line}", source.path))
        })
        .collect();
    if all.is_empty() { format!("{MAIN} or its drop-ins") } else { all.join(", ") }
}

/// Returns the line of a normal entry. 10_linux puts the general variable first.
pub(super) fn line(sources: &[SourcedFile]) -> Result<CommandLine, FollowError> {
    let both = format!("{} {}", value(sources, CMDLINE)?, value(sources, CMDLINE_DEFAULT)?);
    let text = grub_quote::kernel_line(both.trim()).map_err(|error| FollowError {
        place: unreadable_at(sources),
        why: error.why.to_string(),
    })?;
    Ok(CommandLine::parse(&text))
}

/// Returns the place in the first file after which GRUB cannot parse the value of a variable.
fn unreadable_at(sources: &[SourcedFile]) -> String {
    let unreadable = |upto: usize, variable: &&str| {
        value(&sources[..=upto], variable).is_ok_and(|text| grub_quote::kernel_line(&text).is_err())
    };
    (0..sources.len())
        .find_map(|at| {
            let variable =
                [CMDLINE, CMDLINE_DEFAULT].into_iter().find(|name| unreadable(at, name))?;
            let line = sources[at].default.lines_with(&[variable], &|_| true).pop()?;
            Some(format!("{}:{line}", sources[at].path))
        })
        .unwrap_or_else(|| MAIN.to_owned())
}

/// Reads the configured line. If a file cannot be evaluated, adds a note with the place and returns the line of
/// bedplate's own drop-in, or unknown.
pub(crate) fn read(
    reader: &dyn Reader,
    family: &Family,
    remarks: &mut Vec<String>,
) -> Reading<CommandLine> {
    let sources = match sources(reader, family) {
        Ok(sources) if sources.is_empty() => return Reading::Absent,
        Ok(sources) => sources,
        Err(error) => return Reading::unknown(error),
    };
    match line(&sources) {
        Ok(line) => Reading::Known(line),
        Err(error) => {
            let why = error.to_string();
            remarks.push(why.clone());
            // Only bedplate's own drop-in is known, provided that no later file can set the variable again.
            own_line(&sources, family).map_or(Reading::unknown(why), Reading::Known)
        }
    }
}

fn own_line(sources: &[SourcedFile], family: &Family) -> Option<CommandLine> {
    let own = family.own()?;
    if sources.iter().any(|source| source.default.read_only_at(family.variable).is_some()) {
        return None;
    }
    let at = sources.iter().position(|source| source.path == own);
    if at.is_some_and(|at| at + 1 < sources.len()) {
        return None;
    }
    let text = at.map_or("", |at| sources[at].default.text());
    grub_default::parse_drop_in(text, family.variable).ok().map(CommandLine::from_tokens)
}
