//! The short way to the PCI functions of an image: once the links of `/sys/bus/pci/devices` were read, their real
//! directories are known. A path below them that takes no link at all needs no resolving inside the root, and an
//! attribute costs one open instead of a directory and an attribute.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{SFlag, fstatat};

/// Directory of the PCI functions: links into [`REAL_DEVICES`].
pub(super) const DEVICES: &str = "/sys/bus/pci/devices";
/// Where their real directories are.
const REAL_DEVICES: &str = "/sys/devices";

/// What is known of the functions' real directories.
pub(super) struct Functions {
    /// `/sys/devices`.
    fd: OwnedFd,
    /// Function → its directory below that.
    real: BTreeMap<String, String>,
    /// The function whose directory was last seen to be reached without any link.
    seen: String,
}

impl Functions {
    /// From the links of [`DEVICES`], if that directory is where it seems to be.
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

    /// Open something in a function's real directory; `None` = take the long way.
    pub(super) fn open(&mut self, path: &str, flags: OFlag) -> Option<Result<OwnedFd, Errno>> {
        let (function, name) = split(path)?;
        let real = format!("{}/{name}", self.real.get(function)?);
        let resolve = ResolveFlag::RESOLVE_BENEATH
            | ResolveFlag::RESOLVE_NO_SYMLINKS
            | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        match openat2(&self.fd, real.as_str(), OpenHow::new().flags(flags).resolve(resolve)) {
            // A link or a `..` on the way, or a race.
            Err(Errno::ELOOP | Errno::EXDEV | Errno::EAGAIN) => None,
            opened => {
                if opened.is_ok() && self.seen != function {
                    function.clone_into(&mut self.seen);
                }
                Some(opened)
            }
        }
    }

    /// Open an attribute of a function for reading, if it is a regular file; `None` = take the long way. It is looked at
    /// first, because opening a device can do something. One look by name costs less than a descriptor to look at, and it
    /// is enough here: only root could put a device there in between, and a pipe is opened without waiting.
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

    /// Where readlinkat may be asked for a link of a function. It follows links among the directories of a path,
    /// so only a directory that was just seen to have none is asked this way, and only for its own entries.
    pub(super) fn link(&self, path: &str) -> Option<(BorrowedFd<'_>, String)> {
        let (function, name) = split(path)?;
        let own = function == self.seen && !name.contains('/') && name != "..";
        own.then(|| Some((self.fd.as_fd(), format!("{}/{name}", self.real.get(function)?))))?
    }
}

/// The function that a path is about, and what of it.
fn split(path: &str) -> Option<(&str, &str)> {
    let (function, name) = path.strip_prefix(DEVICES)?.strip_prefix('/')?.split_once('/')?;
    (!name.is_empty()).then_some((function, name))
}
