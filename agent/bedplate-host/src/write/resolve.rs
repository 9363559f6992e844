//! Resolves a path inside the host to the directory and name to write. The kernel resolves every directory part inside
//! the root. Only links at the last component are followed here, so that the link stays and its target is replaced
//! (`/etc/default/grub` is a link on some systems).

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, readlinkat};
use nix::sys::stat::{Mode, SFlag, fchmod, fstat, mkdirat};
use nix::unistd::{AccessFlags, UnlinkatFlags, faccessat, fsync, unlinkat};
use rustix::fs::IFlags;

use super::error_text::{Fault, failed_to};
use super::{DirWriter, meta};
use crate::file::{self, NotOpened};
use crate::symlink::{MOST_LINKS, is_plain};
use crate::{Expected, FileMeta, WriteError, trust};

/// The end of a path.
pub(super) struct Place {
    /// The directory, open for reading so that it can be synced.
    pub(super) directory: OwnedFd,
    /// The name in it; not a symbolic link.
    pub(super) name: String,
    /// Whether a symbolic link led here.
    pub(super) linked: bool,
}

/// Result of [`DirWriter::locate`].
pub(super) enum Location {
    /// The directory exists; the file may or may not.
    Found(Place),
    /// This directory of the path is missing.
    NoDirectory(String),
}

impl DirWriter {
    /// Follows `path` to its end, inside the host. Changes nothing.
    pub(super) fn locate(&self, path: &str) -> Result<Location, Fault> {
        let mut at_path = checked(path)?.to_owned();
        for followed in 0..=MOST_LINKS {
            let (parent, name) = split(&at_path)?;
            let linked = followed > 0;
            let Some(directory) = self.directory(parent)? else {
                if linked {
                    return Err(dangling(&at_path));
                }
                self.can_be_made(parent)?;
                return Ok(Location::NoDirectory(parent.into()));
            };
            match readlinkat(&directory, name) {
                Ok(text) => {
                    let text = text.into_string().map_err(|_| {
                        Fault::refusal(
                            "symbolic link with a target that is not UTF-8; replace it by hand",
                        )
                    })?;
                    at_path = if text.starts_with('/') {
                        text
                    } else {
                        format!("{}/{text}", parent.trim_end_matches('/'))
                    };
                }
                Err(Errno::ENOENT) if linked => return Err(dangling(&at_path)),
                // EINVAL: not a link.
                Err(Errno::ENOENT | Errno::EINVAL) => {
                    let name = name.to_owned();
                    return Ok(Location::Found(Place { directory, name, linked }));
                }
                Err(errno) => return Err(failed_to("inspect")(errno)),
            }
        }
        Err(failed_to("follow links")(Errno::ELOOP))
    }

    /// Checks that a missing directory can be created: no dangling link may have its name, or the name of one above it.
    fn can_be_made(&self, path: &str) -> Result<(), Fault> {
        let (parent, name) = split(path)?;
        let Some(directory) = self.directory(parent)? else { return self.can_be_made(parent) };
        match readlinkat(&directory, name) {
            Ok(_) => Err(dangling(path)),
            Err(_) => Ok(()),
        }
    }

    /// Opens a directory; `None` if it is missing.
    fn directory(&self, path: &str) -> Result<Option<OwnedFd>, Fault> {
        match self.open_inside(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY) {
            Ok(fd) => Ok(Some(fd)),
            Err(Errno::ENOENT) => Ok(None),
            Err(Errno::ENOTDIR) => {
                Err(Fault::refusal(format!("{path} is not a directory; move it away")))
            }
            Err(errno) => Err(failed_to("open the directory")(errno)),
        }
    }

    /// Like [`DirWriter::locate`], but creates missing directories durably (0755).
    pub(super) fn locate_or_make(&mut self, path: &str) -> Result<Place, Fault> {
        match self.locate(path)? {
            Location::Found(place) => Ok(place),
            Location::NoDirectory(parent) => {
                let directory = self.directory_made(&parent, 0o755)?;
                let (_, name) = split(path)?;
                Ok(Place { directory, name: name.to_owned(), linked: false })
            }
        }
    }

    /// Returns the path's own last component without following it: a new file replaces a link. Creates missing
    /// directories, the last one with `mode`.
    pub(super) fn locate_itself(&mut self, path: &str, mode: u32) -> Result<Place, Fault> {
        let (parent, name) = split(checked(path)?)?;
        let directory = self.directory_made(parent, mode)?;
        Ok(Place { directory, name: name.to_owned(), linked: false })
    }

    /// Checks, without changing anything, whether files can be created in a directory, or the directory itself if it is
    /// missing.
    pub fn may_write(&self, path: &str) -> Result<(), WriteError> {
        let mut there = path;
        loop {
            let tried =
                self.open_inside(there, OFlag::O_PATH | OFlag::O_DIRECTORY).and_then(|directory| {
                    faccessat(
                        &directory,
                        ".",
                        AccessFlags::W_OK | AccessFlags::X_OK,
                        AtFlags::empty(),
                    )
                });
            match (tried, there.rsplit_once('/')) {
                (Ok(()), _) => return Ok(()),
                (Err(Errno::ENOENT), Some((parent, name))) if !name.is_empty() => {
                    there = if parent.is_empty() { "/" } else { parent };
                }
                (Err(errno), _) => return Err(failed_to("access")(errno).about("write in", there)),
            }
        }
    }

    /// Checks that a directory may hold files that decide what runs as root. A missing one passes, because bedplate
    /// creates it.
    ///
    /// # Errors
    /// Other users own the directory or may write it, or it is unreadable.
    pub fn check_trust(&self, path: &str) -> Result<(), WriteError> {
        let looked = self
            .open_inside(path, OFlag::O_PATH | OFlag::O_DIRECTORY)
            .and_then(|directory| fstat(&directory));
        let fault = match looked {
            Ok(stat) => trust::distrust(&stat, &self.display_path(path)).map(Fault::refusal),
            Err(Errno::ENOENT) => None,
            Err(errno) => Some(failed_to("inspect")(errno)),
        };
        fault.map_or(Ok(()), |fault| Err(fault.about("store state in", path)))
    }

    /// Creates a directory and its missing parents; parents get 0755, the last one `mode`.
    pub(super) fn directory_made(&mut self, path: &str, mode: u32) -> Result<OwnedFd, Fault> {
        if let Some(there) = self.directory(checked(path)?)? {
            return Ok(there);
        }
        let (parent, name) = split(path)?;
        let parent = self.directory_made(parent, 0o755)?;
        self.pass("make a directory", path)?;
        match mkdirat(&parent, name, Mode::from_bits_truncate(mode)) {
            Ok(()) => {}
            Err(Errno::EEXIST) => return Err(dangling(path)),
            Err(errno) => return Err(failed_to("create the directory")(errno)),
        }
        let Some(made) = self.directory(path)? else {
            return Err(Fault::refusal(format!(
                "{path} was removed while it was created; run again"
            )));
        };
        // The umask may have cleared bits.
        fchmod(&made, Mode::from_bits_truncate(mode)).or_else(meta::fat_has_no_modes(&made))?;
        self.pass("sync a directory", path)?;
        fsync(&parent).map_err(failed_to("sync the directory"))?;
        Ok(made)
    }

    /// Removes a directory if it is empty.
    pub(super) fn remove_if_empty(&mut self, path: &str) -> Result<bool, Fault> {
        let (parent, name) = split(checked(path)?)?;
        let Some(directory) = self.directory(parent)? else { return Ok(true) };
        self.pass("remove a directory", path)?;
        match unlinkat(&directory, name, UnlinkatFlags::RemoveDir) {
            Ok(()) => {}
            Err(Errno::ENOENT) => return Ok(true),
            // A mount point is in use (EBUSY).
            Err(Errno::ENOTEMPTY | Errno::EEXIST | Errno::EBUSY) => return Ok(false),
            Err(errno) => return Err(failed_to("rmdir")(errno)),
        }
        self.pass("sync a directory", path)?;
        fsync(&directory).map_err(failed_to("sync the directory"))?;
        Ok(true)
    }
}

impl Place {
    /// Opens the file for reading; `None` if it is missing. Fails if it is not a regular file.
    pub(super) fn file(&self) -> Result<Option<OwnedFd>, Fault> {
        let open = |flags| {
            let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            openat(&self.directory, self.name.as_str(), flags, Mode::empty())
        };
        match file::open_type(SFlag::S_IFREG, open, |errno| errno) {
            Ok((file, _)) => Ok(Some(file)),
            Err(NotOpened::Failed(Errno::ENOENT)) => Ok(None),
            Err(NotOpened::Failed(errno)) => Err(failed_to("inspect")(errno)),
            Err(NotOpened::Directory) => {
                Err(Fault::refusal("a directory is in place of the file; move it away"))
            }
            Err(NotOpened::OtherType) => Err(Fault::refusal(
                "a device, pipe or socket is in place of the file (a link to /dev/null disables a file); remove it if \
                unintended",
            )),
        }
    }

    /// Checks that the file still has the expected content. Another program may have written it since it was read.
    pub(super) fn expect(&self, expected: Expected) -> Result<(), Fault> {
        let Expected::Content(content) = expected else { return Ok(()) };
        let mut found = Vec::new();
        let there = match self.file()? {
            Some(file) => {
                File::from(file).read_to_end(&mut found).map_err(|error| {
                    Fault::refusal(format!("cannot read the current content: {error}"))
                })?;
                Some(found.as_slice())
            }
            None => None,
        };
        match there == content {
            true => Ok(()),
            false => Err(Fault::refusal("changed by another program; plan again")),
        }
    }

    /// Returns the metadata that a replacement would keep.
    pub(super) fn meta(&self) -> Result<Option<FileMeta>, Fault> {
        self.file()?.map(|file| meta::read(&file)).transpose()
    }

    /// Checks the owner of a restored file: it must be the owner of its directory or of the current file. A ledger
    /// record alone must not give a file to another user.
    pub(super) fn may_own(&self, to: &FileMeta, there: Option<&FileMeta>) -> Result<(), Fault> {
        let directory = fstat(&self.directory).map_err(failed_to("inspect the directory"))?;
        let uid = to.uid == directory.st_uid || there.is_some_and(|there| there.uid == to.uid);
        let gid = to.gid == directory.st_gid || there.is_some_and(|there| there.gid == to.gid);
        if uid && gid {
            return Ok(());
        }
        Err(Fault::refusal(format!(
            "the ledger records owner {}:{}, but the directory belongs to {}:{}; restore the file by hand from {}",
            to.uid,
            to.gid,
            directory.st_uid,
            directory.st_gid,
            crate::STATE_DIRECTORY
        )))
    }

    /// Returns a better message for EPERM if an immutable flag on the file or its directory is the cause.
    pub(super) fn why_not(&self, step: &'static str, errno: Errno) -> Fault {
        let flagged = |fd: &OwnedFd| {
            rustix::fs::ioctl_getflags(fd)
                .is_ok_and(|flags| flags.intersects(IFlags::IMMUTABLE | IFlags::APPEND))
        };
        if errno == Errno::EPERM {
            if self.file().ok().flatten().is_some_and(|file| flagged(&file)) {
                return Fault::refusal(format!(
                    "{step}: immutable or append-only file; run chattr -i -a on it first"
                ));
            }
            if flagged(&self.directory) {
                return Fault::refusal(format!(
                    "{step}: immutable or append-only directory; run chattr -i -a on it first"
                ));
            }
        }
        failed_to(step)(errno)
    }
}

/// Checks that a path is absolute, without empty, `.` or `..` components.
fn checked(path: &str) -> Result<&str, Fault> {
    let good = path == "/" || is_plain(path) && !path.contains('\0');
    if good { Ok(path) } else { Err(Fault::refusal("not a plain absolute path")) }
}

/// Splits a path into directory and last component. A path without a last name is a directory.
fn split(path: &str) -> Result<(&str, &str), Fault> {
    match path.rsplit_once('/') {
        Some((_, "" | "." | "..")) | None => {
            Err(Fault::refusal("a directory is in place of the file; move it away"))
        }
        Some(("", name)) => Ok(("/", name)),
        Some((parent, name)) => Ok((parent, name)),
    }
}

fn dangling(path: &str) -> Fault {
    Fault::refusal(format!(
        "symbolic link to {path}, which does not exist on this host; restore the target or remove the link"
    ))
}
