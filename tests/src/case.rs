//! Host of a case directory.

use std::path::{Path, PathBuf};

use bedplate_host::snapshot::Snapshot;
use bedplate_testhosts::HostSpec;

/// Loads the host of the case in `directory`: recorded (`host.bp`, written by `bedplate snapshot`) or fake
/// (`host.toml`, see `bedplate_testhosts`, with the ledger in `ledger.json` if present).
///
/// # Errors
/// The file is invalid.
pub fn host(directory: &Path) -> Result<Snapshot, String> {
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).ok();
    if let Some(recorded) = read("host.bp") {
        return Snapshot::from_text(&recorded).map_err(|error| format!("host.bp: {error}"));
    }
    let mut spec = HostSpec::from_toml(&read("host.toml").unwrap_or_default())
        .map_err(|error| format!("host.toml: {error}"))?;
    if let Some(ledger) = read("ledger.json") {
        spec.files.insert("/var/lib/bedplate/ledger.json".into(), ledger);
    }
    Ok(spec.build())
}

/// Case directories of a directory of `tests/data`, by name.
///
/// # Panics
/// If the directory is missing.
pub fn directories(directory: &str) -> Vec<(String, PathBuf)> {
    let directory = crate::data(directory);
    let entries = std::fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    let named = |path: PathBuf| Some((path.file_name()?.to_string_lossy().into_owned(), path));
    let mut all: Vec<_> = paths.filter(|path| path.is_dir()).filter_map(named).collect();
    all.sort();
    all
}
