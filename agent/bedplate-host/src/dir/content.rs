//! Reads open files and directories of a directory reader.

use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, readlinkat};
use rustix::fs::{FileType, RawDir};

use super::refusal::{error, refused};
use super::{BUFFER, DirReader, LARGEST, Root, TOO_LARGE, is_below, is_kernels};
use bedplate_base::ReadError;

impl DirReader {
    pub(super) fn read_up_to(
        &self,
        path: &str,
        limit: usize,
        whole: bool,
    ) -> Result<Vec<u8>, ReadError> {
        // The kernel's own file systems have only regular files, and report meaningless sizes.
        let fd = match !matches!(self.root, Root::Image { .. }) && is_kernels(path) {
            true => self.open(path, OFlag::O_RDONLY)?,
            false => {
                if let Some(fd) = self.open_attribute(path) {
                    return self.read_from(&fd?, path, limit, whole);
                }
                let (fd, stat) = self.open_file(path)?;
                if whole && usize::try_from(stat.st_size).is_ok_and(|size| size > LARGEST) {
                    return Err(refused(path, TOO_LARGE));
                }
                fd
            }
        };
        self.read_from(&fd, path, limit, whole)
    }

    pub(super) fn read_from(
        &self,
        fd: &OwnedFd,
        path: &str,
        limit: usize,
        whole: bool,
    ) -> Result<Vec<u8>, ReadError> {
        let mut buffer = self.buffer.borrow_mut();
        let mut bytes = Vec::new();
        loop {
            let room = buffer.len().min(limit - bytes.len());
            self.count(1);
            let got =
                nix::unistd::read(fd, &mut buffer[..room]).map_err(|errno| error(path, errno))?;
            bytes.extend_from_slice(&buffer[..got]);
            // A sysfs attribute arrives whole in one read. Files of /proc and of control groups do not: only 0 is their end.
            let is_attribute = is_below(path, "/sys") && !is_below(path, "/sys/fs/cgroup");
            let ended = got == 0 || (got < room && is_attribute);
            if ended || (!whole && bytes.len() == limit) {
                return Ok(bytes);
            }
            if bytes.len() == limit {
                return Err(refused(path, TOO_LARGE));
            }
        }
    }

    pub(super) fn entries(
        &self,
        path: &str,
        mut each: impl FnMut(&OwnedFd, &str, FileType) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let fd = self.open(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
        let mut space: Vec<MaybeUninit<u8>> = vec![MaybeUninit::uninit(); BUFFER / 2];
        let mut directory = RawDir::new(&fd, &mut space);
        loop {
            self.count(u64::from(directory.is_buffer_empty()));
            let Some(entry) = directory.next() else { return Ok(()) };
            let entry =
                entry.map_err(|errno| error(path, Errno::from_raw(errno.raw_os_error())))?;
            let name = entry.file_name().to_string_lossy();
            if name != "." && name != ".." {
                each(&fd, &name, entry.file_type())?;
            }
        }
    }

    pub(super) fn read_link_at(&self, directory: BorrowedFd, name: &str) -> Result<String, Errno> {
        self.count(1);
        Ok(readlinkat(directory, name)?.to_string_lossy().into_owned())
    }
}
