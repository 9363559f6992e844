//! Opens `--root`, `--host-root`, `--snapshot`, `--demo` or the running machine for reading, with its facts and ledger.

use std::fs::File;
use std::io::Read as _;

use super::{CliError, Context as _, Exit, HostArgs, conclude, output};
use crate::demo;
use crate::report::style::{HEAD, paint};
use bedplate_core::engine::{Target, observe};
use bedplate_core::ledger::Ledger;
use bedplate_facts::{Depth, Facts};
use bedplate_host::snapshot::Snapshot;
use bedplate_host::{DirReader, Reader};

/// Maximum size of a snapshot. That of a machine with eight GPUs and all its modules has two or three MiB.
const LARGEST_SNAPSHOT: u64 = 64 << 20;

/// A host that is open for reading.
pub(crate) struct OpenHost {
    /// Reader of the host.
    pub reader: Box<dyn Reader>,
    /// Snapshot file, if the command reads several hosts.
    pub file: Option<String>,
    /// Snapshot file, also if it is the only host.
    pub snapshot: Option<String>,
    /// Whether the report of another host precedes.
    pub follows: bool,
}

impl OpenHost {
    fn alone(reader: impl Reader + 'static) -> Self {
        OpenHost { reader: Box::new(reader), file: None, snapshot: None, follows: false }
    }

    /// Returns facts about the host.
    pub(super) fn facts(&self, depth: Depth) -> Facts {
        observe(self.reader.as_ref(), depth)
    }

    /// Returns the record of earlier changes by bedplate.
    pub(super) fn ledger(&self) -> Result<Ledger, CliError> {
        Ledger::load(self.reader.as_ref()).context("cannot read the record of bedplate's changes")
    }

    /// Returns the heading line of a report, if several hosts are reported, with an empty line above all but the first.
    pub(super) fn heading(&self) -> String {
        let gap = if self.follows { "\n" } else { "" };
        let heading = |file| format!("{gap}{}\n", paint(HEAD, &format!("== {file}")));
        self.file.as_ref().map(heading).unwrap_or_default()
    }
}

/// Runs `act` on every named host in order, with one host open at a time. With several hosts, an unusable host is
/// reported and skipped. Returns the files of unusable hosts.
pub(crate) fn each(
    args: &HostArgs,
    mut act: impl FnMut(&OpenHost) -> Result<(), CliError>,
) -> Result<Vec<String>, CliError> {
    let files = files(args)?;
    if files.len() <= 1 {
        act(&open_single(args, files)?)?;
        return Ok(Vec::new());
    }
    let mut unusable = Vec::new();
    for (nth, file) in files.into_iter().enumerate() {
        let named = |opened| OpenHost { file: Some(file.clone()), follows: nth > 0, ..opened };
        let done = of_file(&file).and_then(|opened| act(&named(opened)));
        match done {
            Ok(()) => {}
            Err(CliError::BrokenPipe) => return Err(CliError::BrokenPipe),
            Err(error) => {
                conclude::print(&error);
                unusable.push(file);
            }
        }
    }
    Ok(unusable)
}

/// Like [`each`], for hosts with an exit status. Returns the worst status; failed if a host could not be used.
pub(crate) fn worst(
    args: &HostArgs,
    mut act: impl FnMut(&OpenHost) -> Result<Exit, CliError>,
) -> Result<Exit, CliError> {
    let mut worst = Exit::Done;
    let unusable = each(args, |opened| {
        worst = worst.worst(act(opened)?);
        Ok(())
    })?;
    Ok(if unusable.is_empty() { worst } else { Exit::Failed })
}

fn of_file(file: &str) -> Result<OpenHost, CliError> {
    Ok(OpenHost { snapshot: Some(file.to_owned()), ..OpenHost::alone(snapshot(file)?) })
}

/// Opens the only host that a command works on.
pub(crate) fn open_one(args: &HostArgs) -> Result<OpenHost, CliError> {
    open_single(args, files(args)?)
}

fn open_single(args: &HostArgs, files: Vec<String>) -> Result<OpenHost, CliError> {
    if let Some(dir) = &args.root {
        return open_image(dir).map(OpenHost::alone);
    }
    if let Some(dir) = &args.host_root {
        let reader = open_mounted(dir)?;
        for missing in reader.missing_rights() {
            output::warn(&missing);
        }
        return Ok(OpenHost::alone(reader));
    }
    if let Some(name) = &args.demo {
        let unknown = || CliError::new(format!("unknown demo host `{name}`"));
        return demo::snapshot(name).map(OpenHost::alone).ok_or_else(unknown);
    }
    match files.as_slice() {
        [] => Ok(OpenHost::alone(DirReader::live())),
        [file] => of_file(file),
        several => {
            let count = several.len();
            Err(CliError::new(format!(
                "this command takes one host, but --snapshot names {count} files"
            )))
        }
    }
}

fn open_image(dir: &std::path::Path) -> Result<DirReader, CliError> {
    // The reader's error names the directory.
    let reader = DirReader::image(dir).context("cannot use --root")?;
    warn_of_mounts(&reader);
    Ok(reader)
}

/// Opens the running host below its mount in a container.
fn open_mounted(dir: &std::path::Path) -> Result<DirReader, CliError> {
    DirReader::mounted(dir).context("cannot use --host-root")
}

/// Opens the only host again, without the warnings of [`open_one`].
#[cfg(feature = "daemon")]
pub(crate) fn open_again(args: &HostArgs) -> Result<OpenHost, CliError> {
    match &args.host_root {
        Some(dir) => open_mounted(dir).map(OpenHost::alone),
        None => open_one(args),
    }
}

/// Opens the host to change, for the observation before the change.
pub(crate) fn of_target(target: &Target) -> OpenHost {
    let reader = target.reader();
    warn_of_mounts(&reader);
    OpenHost::alone(reader)
}

fn warn_of_mounts(reader: &DirReader) {
    for mount in reader.foreign_mounts() {
        output::warn(&format!(
            "{mount} in the image is a mount of the build machine; it is not read"
        ));
    }
}

fn snapshot(file: &str) -> Result<Snapshot, CliError> {
    let read = |file: File| {
        let mut text = String::new();
        // A device or a pipe may never end.
        file.take(LARGEST_SNAPSHOT + 1).read_to_string(&mut text).map(|_| text)
    };
    let text = File::open(file).and_then(read).context(format!("cannot read snapshot {file}"))?;
    if text.len() as u64 > LARGEST_SNAPSHOT {
        return Err(CliError::new(format!("{file} exceeds the 64 MiB snapshot limit")));
    }
    Snapshot::from_text(&text).context(format!("{file} is not a usable snapshot"))
}

/// Returns the snapshot files that the arguments name, in order.
fn files(args: &HostArgs) -> Result<Vec<String>, CliError> {
    let lists: Result<Vec<_>, _> = args.snapshot.iter().map(|pattern| expand(pattern)).collect();
    Ok(lists?.concat())
}

/// Expands a pattern that the shell did not expand because it was quoted. A plain name is unchanged.
fn expand(pattern: &str) -> Result<Vec<String>, CliError> {
    // A file name may look like a pattern.
    if !pattern.contains(['*', '?', '[']) || std::path::Path::new(pattern).exists() {
        return Ok(vec![pattern.to_owned()]);
    }
    let paths = glob::glob(pattern)
        .context(format!("--snapshot {pattern} is not a file or a valid pattern"))?;
    let files = paths
        .map(|path| path.map(|path| path.display().to_string()))
        .collect::<Result<Vec<_>, _>>()
        .context(format!("cannot search for {pattern}"))?;
    if files.is_empty() {
        return Err(CliError::new(format!("no file matches --snapshot {pattern}")));
    }
    Ok(files)
}
