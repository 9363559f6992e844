//! Fast path to the PCI functions of an image. Once the links of `/sys/bus/pci/devices` have been read, their real
//! directories are known. A path below them without any link needs no resolving inside the root, and an attribute costs
//! one open instead of two.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{SFlag, fstatat};

/// Directory of the PCI functions: links into [`REAL_DEVICES`].
pub(super) const DEVICES: &str = "/sys/bus/pci/devices";
/// Parent of their real directories.
const REAL_DEVICES: &str = "/sys/devices";

/// Real directories of the PCI functions.
pub(super) struct Functions {
    /// `/sys/devices`.
    fd: OwnedFd,
    /// Each function's directory below that.
    real: BTreeMap<String, String>,
    /// The last function whose directory was reached without any link.
    seen: String,
}

impl Functions {
    /// Builds the map from the links of [`DEVICES`], if no link leads to that directory itself.
    pub(super) fn new(root: &OwnedFd, links: &[(String, String)]) -> Option<Self> {
        let open = |path: &str| {
            let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
            let resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_SYMLINKS;
            openat2(root, path, OpenHow::new().flags(flags).resolve(resolve)).ok()
        };
        open(DEVICES)?;
        let real = |text: &str| {
            let below = text.strip_prefix("../../../devices/")?;
            below.split('/').all(|part| !matches!(part, "" | "." | "..")).then(|| below.to_owned())
        };
        let real =
            links.iter().filter_map(|(name, text)| Some((name.clone(), real(text)?))).collect();
        Some(Functions { fd: open(REAL_DEVICES)?, real, seen: String::new() })
    }

    /// Opens a path in a function's real directory. `None` means that the caller must resolve it.
    pub(super) fn open(&mut self, path: &str, flags: OFlag) -> Option<Result<OwnedFd, Errno>> {
        let (function, name) = split(path)?;
        let real = format!("{}/{name}", self.real.get(function)?);
        let resolve = ResolveFlag::RESOLVE_BENEATH
            | ResolveFlag::RESOLVE_NO_SYMLINKS
            | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        match openat2(&self.fd, real.as_str(), OpenHow::new().flags(flags).resolve(resolve)) {
            // A link or a `..` in the path, or a race.
            Err(Errno::ELOOP | Errno::EXDEV | Errno::EAGAIN) => None,
            opened => {
                if opened.is_ok() && self.seen != function {
                    function.clone_into(&mut self.seen);
                }
                Some(opened)
            }
        }
    }

    /// Opens an attribute of a function for reading, if it is a regular file. `None` means that the caller must resolve
    /// it. Checks the type first, because opening a device can have effects. Checking by name is cheaper than with a
    /// descriptor, and safe enough: only root could put a device there in between, and opening a pipe does not block.
    pub(super) fn open_attribute(
        &mut self,
        path: &str,
        flags: OFlag,
    ) -> Option<Result<OwnedFd, Errno>> {
        let (function, name) = split(path)?;
        let real = format!("{}/{name}", self.real.get(function)?);
        let stat = match fstatat(&self.fd, real.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(errno) => return Some(Err(errno)),
        };
        let kind = SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits());
        (kind == SFlag::S_IFREG).then(|| self.open(path, flags))?
    }

    /// Returns directory and name for a readlinkat of a function's link. readlinkat follows links among the directories
    /// of a path, so this allows only a directory just reached without any link, and only its own entries.
    pub(super) fn link(&self, path: &str) -> Option<(BorrowedFd<'_>, String)> {
        let (function, name) = split(path)?;
        let own = function == self.seen && !name.contains('/') && name != "..";
        own.then(|| Some((self.fd.as_fd(), format!("{}/{name}", self.real.get(function)?))))?
    }
}

/// Splits a path into the function and the rest.
fn split(path: &str) -> Option<(&str, &str)> {
    let (function, name) = path.strip_prefix(DEVICES)?.strip_prefix('/')?.split_once('/')?;
    (!name.is_empty()).then_some((function, name))
}
