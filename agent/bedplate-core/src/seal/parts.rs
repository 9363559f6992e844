//! Registry of bedplate's state on a host: parts that a seal removes or preserves, with reasons.

use std::fmt::Write as _;

use serde::Serialize;

use super::records;
use crate::enforce_hold;
use crate::ledger::{self, Ledger, Sha};
use crate::{reboot_hold as hold, reboot_record as record};
use bedplate_base::OptionalRead as _;
use bedplate_base::ReadError;
use bedplate_host::LOCK;
use bedplate_host::published::{
    COLLECTED, COLLECTOR, FEATURE_FILE, FEATURES, RUN_DIRECTORY, RUN_FILES,
};
use bedplate_host::write::temporary;
use bedplate_host::{DAEMON_DIRECTORY, HostKind, Reader, STATE_DIRECTORY};

bedplate_base::named! {
    /// Whether a part of the state stays.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
    #[cfg_attr(feature = "schemars", schemars(rename = "Fate"))]
    pub enum SealDisposition {
        /// Clones need it.
        Kept = "kept",
        /// It identifies or holds the host.
        Removed = "removed",
    }
}

/// A part of bedplate's state.
pub struct Part {
    /// Path, or path and part of the file.
    pub name: &'static str,
    /// Content.
    pub content: &'static str,
    /// Reason for its disposition.
    pub why: &'static str,
    /// Location.
    pub(super) source: Source,
}

/// Location of a part, which determines its removal.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// A file or directory that stays.
    Preserved(&'static str),
    /// Ledger entries; the function removes them and returns their names.
    Entries(fn(&mut Ledger) -> Vec<String>),
    /// Saved contents without a ledger entry.
    SurplusBlobs,
    /// A file.
    File(&'static str),
    /// A file with a hold on the host.
    Hold(&'static str),
    /// Files of a directory that belong to no other part.
    Directory(&'static str),
    /// A published file, with the temporary file of an interrupted write.
    Published(&'static str, &'static str),
    /// The files that the daemon publishes below /run.
    Run,
    /// bedplate's line in the list of packages that request a reboot, on a running host.
    RebootRequired,
}

/// The daemon's baseline of the host's devices.
pub const DEVICES: &str = "/var/lib/bedplate/daemon/devices.json";
/// Packages that request a reboot, one per line.
const REQUIRED_BY: &str = "/run/reboot-required.pkgs";

/// Every part, in the order of removal: holds last.
pub const PARTS: &[Part] = &[
    Part {
        name: "/etc/bedplate/",
        content: "the profile",
        why: "clones enforce it",
        source: Source::Preserved("/etc/bedplate"),
    },
    Part {
        name: "ledger.json: files, directories, owned, undo",
        content: "the files that bedplate wrote, and their state before",
        why: "with it `apply` has nothing to change on a clone, and `revert` works there",
        source: Source::Preserved(ledger::LEDGER),
    },
    Part {
        name: "blobs/",
        content: "file contents from before bedplate's changes",
        why: "`revert` restores them",
        source: Source::Preserved(ledger::BLOBS),
    },
    Part {
        name: "lock",
        content: "an empty file",
        why: "prevents concurrent runs of bedplate",
        source: Source::Preserved(LOCK),
    },
    Part {
        name: "ledger.json: attributes, registers, vfs, starts, eswitches",
        content: "runtime values: VF counts and attributes, drivers of VFs, ACS bits, sysctls",
        why: "named by PCI address and boot id; no clone has that boot",
        source: Source::Entries(records::take_runtime),
    },
    Part {
        name: "ledger.json: waiting",
        content: "module options pending until a boot",
        why: "named by boot id; the first boot of a clone is that boot",
        source: Source::Entries(records::take_waiting),
    },
    Part {
        name: "ledger.json: history",
        content: "results about devices, and the reasons of results",
        why: "they name devices and may quote tools; the other results and the reasons of allowed lints stay",
        source: Source::Entries(records::take_history),
    },
    Part {
        name: "blobs/ without an entry in the ledger",
        content: "contents left by an interrupted run",
        why: "nothing restores them",
        source: Source::SurplusBlobs,
    },
    Part {
        name: "/run/bedplate/",
        content: "status, metrics, the ready marker",
        why: "published about this host",
        source: Source::Run,
    },
    Part {
        name: "/run/reboot-required",
        content: "bedplate's request for a reboot",
        why: "published about this host; requests of other packages stay",
        source: Source::RebootRequired,
    },
    Part {
        name: "/var/lib/prometheus/node-exporter/bedplate.prom",
        content: "metrics",
        why: "published about this host",
        source: Source::Published(COLLECTOR, COLLECTED),
    },
    Part {
        name: "/etc/kubernetes/node-feature-discovery/features.d/bedplate",
        content: "labels",
        why: "published about this host",
        source: Source::Published(FEATURES, FEATURE_FILE),
    },
    Part {
        name: "daemon/devices.json",
        content: "the baseline of GPUs and NICs",
        why: "a clone would report the devices of this host as missing",
        source: Source::File(DEVICES),
    },
    Part {
        name: "daemon/reboot.json",
        content: "attempts, dry runs, requests, a scheduled reboot, the slot of the lock server",
        why: "named by boot id and lock id; a clone would count them as its own",
        source: Source::File(record::RECORD),
    },
    Part {
        name: "daemon/, other files",
        content: "state of the daemon",
        why: "the daemon writes it again",
        source: Source::Directory(DAEMON_DIRECTORY),
    },
    Part {
        name: "hold.json",
        content: "the hold on reboots",
        why: "it would hold every clone",
        source: Source::Hold(hold::HOLD),
    },
    Part {
        name: "enforce-hold.json",
        content: "the hold on enforcement (`revert --hold`)",
        why: "it would hold every clone",
        source: Source::Hold(enforce_hold::HOLD),
    },
];

impl Part {
    /// Whether a seal removes it.
    pub fn fate(&self) -> SealDisposition {
        match self.source {
            Source::Preserved(_) => SealDisposition::Kept,
            _ => SealDisposition::Removed,
        }
    }
}

impl Source {
    /// Returns files or entries to remove. Takes entries out of `ledger`, which is the caller's copy.
    pub(super) fn items(
        self,
        ledger: &mut Ledger,
        reader: &dyn Reader,
    ) -> Result<Vec<String>, ReadError> {
        match self {
            Source::Preserved(_) => Ok(Vec::new()),
            Source::Entries(take) => Ok(take(ledger)),
            Source::SurplusBlobs => surplus(ledger, reader),
            Source::File(path) | Source::Hold(path) => present(reader, &[path.to_owned()]),
            Source::Directory(directory) => other_files(reader, directory),
            Source::Run => published(reader),
            Source::Published(directory, name) => {
                present(reader, &with_temporary(&format!("{directory}/{name}")))
            }
            Source::RebootRequired => requested(reader),
        }
    }

    /// Whether it stays and exists.
    pub(super) fn is_kept(self, reader: &dyn Reader) -> Result<bool, ReadError> {
        match self {
            Source::Preserved(path) => reader.exists(path),
            _ => Ok(false),
        }
    }

    /// Returns the directory of its items; `None`: it has no directory in an image.
    pub(super) fn directory(self) -> Option<&'static str> {
        match self {
            Source::Entries(_) => Some(STATE_DIRECTORY),
            Source::SurplusBlobs => Some(ledger::BLOBS),
            Source::File(path) | Source::Hold(path) => path.rsplit_once('/').map(|split| split.0),
            Source::Directory(directory) | Source::Published(directory, _) => Some(directory),
            Source::Run => Some(RUN_DIRECTORY),
            Source::Preserved(_) | Source::RebootRequired => None,
        }
    }

    /// Whether its items are paths.
    pub(super) fn has_paths(self) -> bool {
        self.is_file() || matches!(self, Source::SurplusBlobs)
    }

    /// Whether its items are files that the writer removes.
    pub(super) fn is_file(self) -> bool {
        self.is_hold()
            || matches!(
                self,
                Source::File(_) | Source::Directory(_) | Source::Published(..) | Source::Run
            )
    }

    /// Whether it holds the host, and is removed last.
    pub(super) fn is_hold(self) -> bool {
        matches!(self, Source::Hold(_))
    }

    /// Whether the daemon publishes it.
    pub(super) fn is_published(self) -> bool {
        matches!(self, Source::Published(..) | Source::Run | Source::RebootRequired)
    }
}

/// Returns bedplate's files in [`RUN_DIRECTORY`]. On a running host all its files are bedplate's; in an image they may
/// not be.
fn published(reader: &dyn Reader) -> Result<Vec<String>, ReadError> {
    match reader.kind() {
        HostKind::Live => files(reader, RUN_DIRECTORY),
        HostKind::Image | HostKind::Snapshot => {
            let own: Vec<String> = RUN_FILES.iter().flat_map(|path| with_temporary(path)).collect();
            present(reader, &own)
        }
    }
}

/// Returns a file's path, and that of the temporary file of an interrupted write.
fn with_temporary(path: &str) -> [String; 2] {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    [path.to_owned(), format!("{directory}/{}", temporary(name))]
}

/// Returns the paths in `paths` that exist. A dangling link exists.
fn present(reader: &dyn Reader, paths: &[String]) -> Result<Vec<String>, ReadError> {
    let mut found = Vec::new();
    for path in paths {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        if names(reader, directory)?.iter().any(|own| own == name) {
            found.push(path.clone());
        }
    }
    Ok(found)
}

/// Returns the names in a directory; empty if it is absent.
fn names(reader: &dyn Reader, directory: &str) -> Result<Vec<String>, ReadError> {
    Ok(reader.list(directory).optional()?.unwrap_or_default())
}

fn files(reader: &dyn Reader, directory: &str) -> Result<Vec<String>, ReadError> {
    let names = names(reader, directory)?;
    Ok(names.into_iter().map(|name| format!("{directory}/{name}")).collect())
}

fn other_files(reader: &dyn Reader, directory: &str) -> Result<Vec<String>, ReadError> {
    let mut found = files(reader, directory)?;
    let has_part = |path: &str| {
        PARTS.iter().any(|part| matches!(part.source, Source::File(own) if own == path))
    };
    found.retain(|path| !has_part(path));
    Ok(found)
}

fn surplus(ledger: &Ledger, reader: &dyn Reader) -> Result<Vec<String>, ReadError> {
    let needed = ledger.blobs();
    let blobs = names(reader, ledger::BLOBS)?.into_iter().filter_map(|name| name.parse().ok());
    Ok(blobs.filter(|sha: &Sha| !needed.contains(sha)).map(|sha| sha.blob()).collect())
}

/// Returns the list of packages, if it contains bedplate.
fn requested(reader: &dyn Reader) -> Result<Vec<String>, ReadError> {
    // Files in the /run of an image do not belong to its state.
    if reader.kind() != HostKind::Live {
        return Ok(Vec::new());
    }
    let listed = reader.text(REQUIRED_BY).optional()?.unwrap_or_default();
    let is_listed = listed.lines().any(|line| line == "bedplate");
    Ok(is_listed.then(|| REQUIRED_BY.to_owned()).into_iter().collect())
}

/// Returns the table of docs/render.md. Paths without a leading slash are below /var/lib/bedplate.
pub fn markdown() -> String {
    let mut out = "| part | content | after `seal` | why |\n|---|---|---|---|\n".to_owned();
    for part in PARTS {
        let (name, content, why) = (part.name, part.content, part.why);
        let _ = writeln!(out, "| `{name}` | {content} | {} | {why} |", part.fate().name());
    }
    out
}
