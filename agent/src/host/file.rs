//! Regular files of this machine, looked at before they are opened: a pipe where a state file should be would hold its
//! reader up for ever, and opening a device can do something.

use std::fs::File;
use std::io::{Error, ErrorKind, Read as _, Result};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};

/// Open again what an `O_PATH` descriptor stands for, by whatever name it has now. ENOENT: there is no /proc.
pub(super) fn reopen(looked_at: &OwnedFd, flags: OFlag) -> std::result::Result<OwnedFd, Errno> {
    let flags = flags | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let path = format!("/proc/self/fd/{}", looked_at.as_raw_fd());
    openat(AT_FDCWD, path.as_str(), flags, Mode::empty())
}

/// Opens a regular file for reading, and says what it is.
///
/// # Errors
/// The system's own; it is not a regular file.
pub fn open(path: &Path) -> Result<(File, FileStat)> {
    let looked_at = openat(AT_FDCWD, path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    let stat = fstat(&looked_at)?;
    match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
        SFlag::S_IFREG => {}
        SFlag::S_IFDIR => return Err(Errno::EISDIR.into()),
        _ => return Err(Error::new(ErrorKind::InvalidInput, "it is not a regular file")),
    }
    let file = match reopen(&looked_at, OFlag::O_RDONLY) {
        Err(Errno::ENOENT) => {
            let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
            openat(AT_FDCWD, path, flags, Mode::empty())?
        }
        opened => opened?,
    };
    Ok((File::from(file), stat))
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// Those of [`open`]; it is larger.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    let (file, stat) = open(path)?;
    let too_large =
        || Error::new(ErrorKind::FileTooLarge, format!("it is larger than {most} bytes"));
    if u64::try_from(stat.st_size).is_ok_and(|size| size > most) {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_large()) } else { Ok(bytes) }
}

/// Most bytes of a file in which bedplate keeps something.
const STATE: u64 = 16 << 20;

/// A file in which bedplate keeps something, as text.
///
/// # Errors
/// Those of [`read`]; it is not UTF-8.
pub fn text(path: &Path) -> Result<String> {
    String::from_utf8(state(path)?)
        .map_err(|_| Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// A file in which bedplate keeps something.
///
/// # Errors
/// Those of [`read`].
pub fn state(path: &Path) -> Result<Vec<u8>> {
    read(path, STATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_plain_file_is_refused_at_once() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::write(at("plain"), "text").unwrap();
        std::os::unix::fs::symlink("plain", at("link")).unwrap();
        nix::unistd::mkfifo(&at("fifo"), Mode::from_bits_truncate(0o600)).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        std::fs::create_dir(at("directory")).unwrap();
        // Terabytes by its length, nothing on the disk.
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
        // Endless, and of no length: what a file system of the kernel's may show.
        let endless = read(Path::new("/proc/self/maps"), 10).unwrap_err();
        assert_eq!(endless.kind(), ErrorKind::FileTooLarge);
    }
}
