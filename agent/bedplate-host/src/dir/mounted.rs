//! The running host seen from a container, below a mount of its root directory (`--host-root DIR`). The mount shows the
//! host's files, but parts of /proc, netlink and the control groups answer for the namespaces of the reading process.
//! This module proves that DIR is the running host, reads process 1 in place of the reading process, and hides each
//! path that would not show the host's value.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::{OFlag, readlinkat};
use nix::sys::statfs::{FsType, PROC_SUPER_MAGIC, SYSFS_MAGIC, fstatfs};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::below_mount::{open, text};
use super::is_below;
use super::namespaces::{Namespace, Namespaces};
use crate::image::{ImageError, ImageRoot};
use crate::mountinfo::Mount;
use crate::{boot_id, symlink};
use bedplate_base::ReadError;

/// Name of the mount in messages.
const KIND: &str = "host root";
/// File systems of the kernel that the mount must include.
const KERNEL_FILESYSTEMS: [(&str, FsType, &str); 2] =
    [("/proc", PROC_SUPER_MAGIC, "procfs"), ("/sys", SYSFS_MAGIC, "sysfs")];
/// How to mount the host.
const HOW: &str = "mount the host's / with all file systems below it (Kubernetes: hostPath `/`; Docker and Podman: \
    `-v /:/host:ro,rslave`)";
/// Paths of the reading process, and the same of process 1 of the host.
const OF_READER: [(&str, &str); 4] = [
    ("/proc/self", "/proc/1"),
    ("/proc/thread-self", "/proc/1"),
    ("/proc/mounts", "/proc/1/mounts"),
    ("/proc/net", "/proc/1/net"),
];
/// Reason why a path below another mount is hidden.
const OTHER_MOUNT: &str = "the container does not see the host's mount there, which was made or removed after the \
    container started; mount the host with `mountPropagation: HostToContainer` (Docker and Podman: `rslave`), or restart \
    the container";

/// Message about a missing right (drivers/pci/pci-sysfs.c, `pci_read_config`).
const SHORT_CONFIG: &str = "config space of PCI devices beyond 64 bytes is unknown: the container lacks CAP_SYS_ADMIN in the \
    host's user namespace";

/// A mount of the running host.
pub(super) struct Mounted {
    pub(super) root: Arc<ImageRoot>,
    /// Path of the mount in this container.
    directory: PathBuf,
    /// Mount points, as paths of the host, at which this container sees another mount than the host.
    foreign: BTreeSet<String>,
    namespaces: Namespaces,
}

impl Mounted {
    /// Opens the mount.
    ///
    /// # Errors
    /// [`ImageError`] if it cannot be opened, or is not the root directory of the running machine.
    pub(super) fn open(directory: &Path) -> Result<Self, ImageError> {
        let root = ImageRoot::open_kind(KIND, directory)?;
        let refused = |why: String| {
            ImageError::new(format!(
                "{} is not the running host's root: {why}",
                directory.display()
            ))
        };
        for (path, magic, kind) in KERNEL_FILESYSTEMS {
            let opened = open(&root, path, OFlag::O_PATH | OFlag::O_DIRECTORY);
            if !opened.is_ok_and(|fd| fstatfs(&fd).is_ok_and(|fs| fs.filesystem_type() == magic)) {
                return Err(refused(format!("{} is not a {kind}; {HOW}", root.display_path(path))));
            }
        }
        same_boot(&root).map_err(refused)?;
        let (directory, foreign) = mounts(&root).map_err(refused)?;
        let namespaces = Namespaces::compare(&root);
        Ok(Mounted { root, directory, foreign, namespaces })
    }

    /// Returns the path to open for a path of the host.
    ///
    /// # Errors
    /// [`ReadError::Hidden`] if this container would not read the host's value.
    pub(super) fn located<'p>(&self, path: &'p str) -> Result<Cow<'p, str>, ReadError> {
        let hidden =
            |why: &str| Err(ReadError::Hidden { path: path.to_owned(), why: why.to_owned() });
        if let Some(namespace) = self.namespaces.hiding(path) {
            return hidden(namespace.remedy());
        }
        if self.is_on_foreign_mount(path) {
            return hidden(OTHER_MOUNT);
        }
        let of_host = OF_READER.iter().find(|(of_reader, _)| is_below(path, of_reader));
        Ok(of_host.map_or(Cow::Borrowed(path), |(of_reader, of_host)| {
            Cow::Owned(format!("{of_host}{}", &path[of_reader.len()..]))
        }))
    }

    /// Whether the network namespace is the host's, and netlink answers for it.
    ///
    /// # Errors
    /// [`ReadError::Hidden`] for the object `path`, if not.
    pub(super) fn needs_network(&self, path: String) -> Result<(), ReadError> {
        match self.namespaces.is_hosts(Namespace::Net) {
            true => Ok(()),
            false => Err(ReadError::Hidden { path, why: Namespace::Net.remedy().to_owned() }),
        }
    }

    /// Returns a path of this container as a path of the host.
    pub(super) fn path_of_host(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.directory)
            .map_or_else(|_| path.to_owned(), |rest| Path::new("/").join(rest))
    }

    /// Returns the values that stay unknown, each with the missing right.
    pub(super) fn missing_rights(&self) -> Vec<String> {
        let mut missing: Vec<String> = [Namespace::Net, Namespace::Pid]
            .into_iter()
            .filter(|namespace| !self.namespaces.is_hosts(*namespace))
            .map(|namespace| format!("{}: {}", namespace.unknown(), namespace.remedy()))
            .collect();
        missing.extend(self.reads_short_config().then(|| SHORT_CONFIG.to_owned()));
        missing
    }

    /// Whether the kernel ends config space after 64 bytes. A user namespace shows capabilities that do not count here.
    fn reads_short_config(&self) -> bool {
        let devices = std::fs::read_dir(self.directory.join("sys/bus/pci/devices"));
        let first = devices.ok().and_then(|devices| devices.flatten().next());
        let config = first.and_then(|device| File::open(device.path().join("config")).ok());
        config.is_some_and(|config| matches!(config.read_at(&mut [0; 4], 64), Ok(0)))
    }

    /// Whether a path, with its links followed, is below a mount point at which this container sees another mount. The
    /// kernel's own file systems have no links across mounts.
    fn is_on_foreign_mount(&self, path: &str) -> bool {
        if self.foreign.is_empty() {
            return false;
        }
        let is_kernels = super::is_kernels(path);
        let mut links = 0;
        let walked = symlink::walk(path, |_, next, _| {
            if self.foreign.contains(next) {
                return Err(true);
            }
            let target = if is_kernels { None } else { self.link(next) };
            links += usize::from(target.is_some());
            if links > symlink::MOST_LINKS { Err(false) } else { Ok(target) }
        });
        walked == Err(true)
    }

    /// Returns the target of a link.
    fn link(&self, path: &str) -> Option<String> {
        let fd = open(&self.root, path, OFlag::O_PATH | OFlag::O_NOFOLLOW).ok()?;
        Some(readlinkat(&fd, "").ok()?.to_string_lossy().into_owned())
    }
}

/// Whether the directory is the root directory of this process. `/proc/PID/root` has the path `/`, too, but another mount
/// if PID has other mounts. `false` before Linux 5.8, which does not show the number of a mount.
pub(super) fn is_own_root(directory: &Path) -> bool {
    let wanted = StatxFlags::INO | StatxFlags::MNT_ID;
    let place = |path: &Path| {
        let seen = statx(CWD, path, AtFlags::empty(), wanted).ok()?;
        let known = StatxFlags::from_bits_retain(seen.stx_mask).contains(wanted);
        known.then_some((seen.stx_mnt_id, seen.stx_ino))
    };
    let own = place(Path::new("/"));
    own.is_some() && own == place(directory)
}

/// Checks that the procfs is complete and of the running kernel.
fn same_boot(root: &ImageRoot) -> Result<(), String> {
    let shown = root.display_path(boot_id::PATH);
    let there = text(root, boot_id::PATH).map_err(|error| format!("{shown}: {error}; {HOW}"))?;
    match std::fs::read_to_string(boot_id::PATH) {
        Ok(own) if own != there => {
            Err(format!("{shown} differs from {} of this container", boot_id::PATH))
        }
        // A container without a /proc of its own.
        _ => Ok(()),
    }
}

/// Compares the mounts below the directory with those of process 1. Returns the directory's path, and the mount points
/// at which they differ.
fn mounts(root: &ImageRoot) -> Result<(PathBuf, BTreeSet<String>), String> {
    let list = |process: &str| {
        let path = format!("/proc/{process}/mountinfo");
        text(root, &path).map_err(|error| {
            format!(
                "{}: {error}; run where process 1 of the host is visible: as root, or in the group of its procfs (gid=)",
                root.display_path(&path)
            )
        })
    };
    let (of_host, own) = (list("1")?, list("self")?);
    // Relative to the open directory, because this container may have no /proc.
    let link = format!("proc/self/fd/{}", root.fd().as_raw_fd());
    let directory = readlinkat(root.fd(), link.as_str()).map(PathBuf::from);
    let directory =
        directory.map_err(|errno| format!("{}: {errno}", root.display_path("/proc/self/fd")))?;
    let of_host = by_point(&of_host, Path::new("/"));
    let own = by_point(&own, &directory);
    for point in ["/", "/proc", "/sys"] {
        if !of_host.contains_key(point) || of_host.get(point) != own.get(point) {
            return Err(format!(
                "{} is another file system than {point} of process 1 in {}; {HOW}",
                root.display_path(point.trim_end_matches('/')),
                root.display_path("/proc")
            ));
        }
    }
    let points = of_host.keys().chain(own.keys());
    let foreign = points.filter(|point| of_host.get(*point) != own.get(*point));
    Ok((directory, foreign.cloned().collect()))
}

/// Returns the file system and its directory at each mount point below `directory`. The last of several mounts at one
/// point covers the rest.
fn by_point(mountinfo: &str, directory: &Path) -> BTreeMap<String, (String, String)> {
    let mounts = mountinfo.lines().filter_map(Mount::parse);
    let below = mounts.filter_map(|Mount { point, root, device, .. }| {
        let point = Path::new("/").join(Path::new(&point).strip_prefix(directory).ok()?);
        Some((point.to_str()?.to_owned(), (device, root)))
    });
    below.collect()
}

#[cfg(test)]
mod tests;
