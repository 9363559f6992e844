//! Opens regular files of this machine after checking their type: a pipe in place of a state file would block its
//! reader forever, and opening a device can have effects.

use std::fs::File;
use std::io::{Error, ErrorKind, Read as _, Result};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, FcntlArg, OFlag, fcntl, openat};
use nix::libc::{F_RDLCK, F_UNLCK, SEEK_SET, flock};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};

/// Reason why a path was not opened.
pub(super) enum NotOpened<E> {
    /// A system error.
    Failed(E),
    /// A directory.
    Directory,
    /// Another type than expected.
    OtherType,
}

/// Whether another process holds a write lock. Only queries the lock and never takes it, because a package manager
/// gives up when it is taken.
pub(super) fn is_locked(file: &OwnedFd) -> std::result::Result<bool, Errno> {
    let narrow = |value: i32| i16::try_from(value).map_err(|_| Errno::EINVAL);
    let mut lock = flock {
        l_type: narrow(F_RDLCK)?,
        l_whence: narrow(SEEK_SET)?,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    fcntl(file, FcntlArg::F_GETLK(&mut lock))?;
    Ok(i32::from(lock.l_type) != F_UNLCK)
}

/// Opens a file of this type for reading. Opens exactly the checked file, even if the name was reused. `open` opens the
/// name with the given flags.
pub(super) fn open_type<E>(
    kind: SFlag,
    open: impl Fn(OFlag) -> std::result::Result<OwnedFd, E>,
    failed: impl Fn(Errno) -> E,
) -> std::result::Result<(OwnedFd, FileStat), NotOpened<E>> {
    let looked_at = open(OFlag::O_PATH).map_err(NotOpened::Failed)?;
    let errno = |errno| NotOpened::Failed(failed(errno));
    let stat = fstat(&looked_at).map_err(errno)?;
    match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
        found if found == kind => {}
        SFlag::S_IFDIR => return Err(NotOpened::Directory),
        _ => return Err(NotOpened::OtherType),
    }
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let path = format!("/proc/self/fd/{}", looked_at.as_raw_fd());
    let file = match openat(AT_FDCWD, path.as_str(), flags, Mode::empty()) {
        // No /proc here: open the name again, and check that it is still the same file.
        Err(Errno::ENOENT) => {
            let file = open(flags).map_err(NotOpened::Failed)?;
            same(&file, &stat).map_err(errno)?;
            file
        }
        opened => opened.map_err(errno)?,
    };
    Ok((file, stat))
}

fn same(file: &OwnedFd, looked_at: &FileStat) -> std::result::Result<(), Errno> {
    let now = fstat(file)?;
    let is = |stat: &FileStat| (stat.st_dev, stat.st_ino);
    if is(&now) == is(looked_at) { Ok(()) } else { Err(Errno::ESTALE) }
}

/// Returns the directory that really holds an open file, with all links resolved. `None` if /proc is missing or the
/// file no longer has a name.
pub fn real_directory(file: &impl AsFd) -> Option<(PathBuf, FileStat)> {
    let link = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    let directory = std::fs::read_link(link).ok()?.parent()?.to_owned();
    let stat = nix::sys::stat::stat(&directory).ok()?;
    Some((directory, stat))
}

/// Returns a path of the machine whose files are below `root`.
pub fn under(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// Opens a regular file for reading. Returns it with its metadata.
///
/// # Errors
/// A system error, or a file that is not regular.
pub fn open(path: &Path) -> Result<(File, FileStat)> {
    let open = |flags| openat(AT_FDCWD, path, flags | OFlag::O_CLOEXEC, Mode::empty());
    match open_type(SFlag::S_IFREG, open, |errno| errno) {
        Ok((file, stat)) => Ok((File::from(file), stat)),
        Err(NotOpened::Failed(errno)) => Err(errno.into()),
        Err(NotOpened::Directory) => Err(Errno::EISDIR.into()),
        Err(NotOpened::OtherType) => Err(Error::new(ErrorKind::InvalidInput, "not a regular file")),
    }
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// Errors of [`open`], or a larger file.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    let (file, stat) = open(path)?;
    let too_large = || Error::new(ErrorKind::FileTooLarge, format!("larger than {most} bytes"));
    if u64::try_from(stat.st_size).is_ok_and(|size| size > most) {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_large()) } else { Ok(bytes) }
}

/// Size limit of a small file, in bytes.
const SMALL: u64 = 16 << 20;

/// Reads a small regular file as text: a file of bedplate's own, or of the kernel.
///
/// # Errors
/// Errors of [`read`], or text that is not UTF-8.
pub fn text(path: &Path) -> Result<String> {
    String::from_utf8(bytes(path)?)
        .map_err(|_| Error::new(ErrorKind::InvalidData, "not UTF-8 text"))
}

/// Reads a small regular file with any content.
///
/// # Errors
/// Errors of [`read`].
pub fn bytes(path: &Path) -> Result<Vec<u8>> {
    read(path, SMALL)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without /proc the name is opened again, and may belong to another file by then.
    #[test]
    fn replaced_file_is_detected() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        for name in ["one", "two"] {
            std::fs::write(at(name), name).unwrap();
        }
        let (one, stat) = open(&at("one")).unwrap();
        same(&one.into(), &stat).unwrap();
        let (two, _) = open(&at("two")).unwrap();
        assert_eq!(same(&two.into(), &stat), Err(Errno::ESTALE));
    }

    #[test]
    fn special_and_large_files_are_rejected_immediately() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::write(at("plain"), "text").unwrap();
        std::os::unix::fs::symlink("plain", at("link")).unwrap();
        nix::unistd::mkfifo(&at("fifo"), Mode::from_bits_truncate(0o600)).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        std::fs::create_dir(at("directory")).unwrap();
        // Terabytes long, but without blocks on the disk.
        File::create(at("sparse")).unwrap().set_len(1 << 40).unwrap();
        for name in ["plain", "link"] {
            assert_eq!(text(&at(name)).unwrap(), "text");
        }
        for path in [
            at("fifo"),
            at("socket"),
            at("directory"),
            at("sparse"),
            at("none"),
            "/dev/zero".into(),
        ] {
            assert!(text(&path).is_err(), "{}", path.display());
        }
        assert!(read(&at("plain"), 3).is_err());
        assert_eq!(read(&at("plain"), 4).unwrap(), b"text");
        // Endless, with a reported size of 0: possible for a kernel file system.
        let endless = read(Path::new("/proc/self/maps"), 10).unwrap_err();
        assert_eq!(endless.kind(), ErrorKind::FileTooLarge);
    }
}
