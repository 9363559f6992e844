//! Obstacles: files that a seal cannot or must not remove. They are detected before any removal.

use std::collections::BTreeSet;

use crate::revert::Refused;
use bedplate_host::{HostKind, Reader, STATE_DIRECTORY, symlink};

use super::parts::{PARTS, Source};
use super::{PartPlan, refusal};

/// Returns the obstacles to the removal of `parts`, which are in the order of [`PARTS`].
pub(super) fn obstacles(parts: &[PartPlan], reader: &dyn Reader) -> Vec<Refused> {
    let is_live = reader.kind() == HostKind::Live;
    let removed: Vec<(Source, &PartPlan)> = PARTS
        .iter()
        .zip(parts)
        .map(|(part, planned)| (part.source, planned))
        // `withdraw` removes these, and follows no link of another user.
        .filter(|(source, part)| !(part.items.is_empty() || is_live && source.is_published()))
        .collect();
    let mut found = Vec::new();
    if !is_live && !removed.is_empty() {
        let directories = removed.iter().filter_map(|(source, _)| source.directory());
        let directories: BTreeSet<&str> = directories.chain([STATE_DIRECTORY]).collect();
        found.extend(directories.into_iter().filter_map(|path| redirected(reader, path)));
    }
    // Behind a link, names refer to other files.
    if found.is_empty() {
        let files = removed.iter().filter(|(source, _)| source.has_paths());
        let files = files.flat_map(|(_, part)| part.items.iter().map(|path| (part.part, path)));
        found.extend(files.filter_map(|(part, path)| irregular(reader, part, path)));
    }
    found
}

/// Detects a directory of an image that a link replaces by one of another purpose (`/run` a link to `/etc`). A link
/// that preserves the last three names of the path leads to the same directory in another place (`/var` to `/data/var`,
/// `/run` to `/var/run`).
fn redirected(reader: &dyn Reader, directory: &str) -> Option<Refused> {
    let real = symlink::resolved(reader, directory);
    let names = directory.matches('/').count().min(3);
    let purpose = |path: &str| path.rsplit('/').take(names).map(str::to_owned).collect::<Vec<_>>();
    (purpose(&real) != purpose(directory)).then(|| Refused {
        subject: directory.to_owned(),
        reason: format!("a symbolic link leads to {real}, whose files are not bedplate's"),
        fix: "replace the link with a directory, or remove it".into(),
    })
}

/// Detects an entry that bedplate did not write: it writes regular files only.
fn irregular(reader: &dyn Reader, part: &str, path: &str) -> Option<Refused> {
    let refused = |reason: &str| Refused {
        subject: path.to_owned(),
        reason: reason.to_owned(),
        fix: "move it away, or remove it by hand".into(),
    };
    if reader.link(path).is_ok() {
        return Some(refused("unexpected symbolic link"));
    }
    if reader.list(path).is_ok() {
        return Some(refused("unexpected directory"));
    }
    match reader.read_start(path, 0) {
        Err(error) if !error.is_absent() => Some(refusal::unreadable(part, &error)),
        _ => None,
    }
}
