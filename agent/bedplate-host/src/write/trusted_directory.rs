//! Opens the directory of one of bedplate's own files, following only links that belong to root. A metrics collector
//! may own its directory, or the one above: a link there would make root write to any path.

use std::io::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};
use nix::unistd::geteuid;

use crate::symlink::{MOST_LINKS, components};

/// Opens the directory at an absolute path; `None` if it is missing.
///
/// # Errors
/// A system error, a relative path, or a link in the path that belongs to another user or leads into another user's
/// directory.
pub(super) fn directory(path: &str) -> Result<Option<OwnedFd>> {
    if !path.starts_with('/') {
        // Relative to `/`, it would be another directory.
        return Err(Error::new(ErrorKind::InvalidInput, format!("{path} is not an absolute path")));
    }
    let mut at = open(AT_FDCWD, "/")?;
    let mut rest: Vec<String> = components(path);
    // Number of components left after the target of the current link.
    let mut behind_link = None;
    let mut links = 0;
    while let Some(name) = rest.pop() {
        let next = match open(&at, &name) {
            Ok(next) => next,
            Err(Errno::ENOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let stat = fstat(&next)?;
        if is_link(&stat) {
            links += 1;
            if links > MOST_LINKS {
                return Err(Errno::ELOOP.into());
            }
            if !is_ours(&stat) {
                let uid = stat.st_uid;
                return Err(refused(format!("{name} in {path} is a link owned by uid {uid}")));
            }
            let target = readlinkat(&at, name.as_str())?;
            let target = target.to_str().ok_or(Errno::EILSEQ)?;
            if target.starts_with('/') {
                at = open(AT_FDCWD, "/")?;
            }
            behind_link = behind_link.or(Some(rest.len()));
            rest.extend(components(target));
        } else {
            // The target path of root's link (/var to /data/var) must belong to root; directories below it may be a
            // collector's.
            if behind_link.is_some() && !is_ours(&stat) {
                let uid = stat.st_uid;
                return Err(refused(format!(
                    "a link in {path} leads to {name}, owned by uid {uid}"
                )));
            }
            at = next;
        }
        behind_link = behind_link.filter(|left| rest.len() > *left);
    }
    // A descriptor that can be synced; fails here if it is not a directory.
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(Some(openat(&at, ".", flags, Mode::empty())?))
}

fn open(at: impl std::os::fd::AsFd, name: &str) -> std::result::Result<OwnedFd, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

fn is_link(stat: &FileStat) -> bool {
    stat.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFLNK.bits()
}

fn is_ours(stat: &FileStat) -> bool {
    stat.st_uid == 0 || stat.st_uid == geteuid().as_raw()
}

fn refused(why: String) -> Error {
    Error::new(ErrorKind::PermissionDenied, format!("{why}; the link is not followed"))
}
