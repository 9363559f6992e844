//! Opens paths for a directory reader, and restricts their reach.

use std::borrow::Cow;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, makedev};

use super::foreign::Mount;
use super::refusal::{error, refused};
use super::{DirReader, ImageRoot, Root};
use crate::file::{self, NotOpened};
use crate::kmsg;
use bedplate_base::ReadError;

/// Rights of a container that reads the kernel's log.
const KERNEL_LOG: &str = "the container needs CAP_SYSLOG and access to the device (Kubernetes: `privileged: true`; Docker and \
    Podman: `--device /dev/kmsg --cap-add SYSLOG`)";
/// Rights of a container that reads a block device.
const BLOCK_DEVICES: &str = "the container needs access to the device (Kubernetes: `privileged: true`; Docker and Podman: \
    `--device`)";

impl DirReader {
    /// Opens a path inside the host. Never blocks on a FIFO and never gains a controlling terminal.
    pub(super) fn open(&self, path: &str, flags: OFlag) -> Result<OwnedFd, ReadError> {
        let mut flags = flags | OFlag::O_CLOEXEC;
        if !flags.contains(OFlag::O_PATH) {
            // openat2 refuses these together with O_PATH, which needs neither.
            flags |= OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        }
        let (root, foreign, at): (&ImageRoot, &[Mount], Cow<'_, str>) = match &self.root {
            Root::Live => {
                let opened = openat(AT_FDCWD, path, flags, Mode::empty());
                self.count(1 + closes(&opened));
                return opened.map_err(|errno| error(path, errno));
            }
            Root::Mounted(mounted) => (&mounted.root, &[], mounted.located(path)?),
            Root::Image { root, foreign } => (root, foreign, Cow::Borrowed(path)),
        };
        if foreign.iter().any(|mount| super::is_below(path, mount.path)) {
            return Err(ReadError::NotFound { path: path.to_owned() });
        }
        if let Some(opened) =
            self.functions.borrow_mut().as_mut().and_then(|known| known.open(path, flags))
        {
            self.count(1 + closes(&opened));
            return opened.map_err(|errno| error(path, errno));
        }
        let (fd, calls) = root.inside(&at, flags, Mode::empty());
        self.count(calls + closes(&fd));
        let fd = fd.map_err(|errno| error(path, errno))?;
        if !foreign.is_empty()
            && foreign.iter().any(|mount| self.device_of(&fd) == Some(mount.device))
        {
            return Err(ReadError::NotFound { path: path.to_owned() });
        }
        Ok(fd)
    }

    fn device_of(&self, fd: &OwnedFd) -> Option<u64> {
        self.count(1);
        fstat(fd).ok().map(|stat| stat.st_dev)
    }

    /// Opens an attribute of an image's PCI function for reading. `None` means that the caller must resolve it.
    pub(super) fn open_attribute(&self, path: &str) -> Option<Result<OwnedFd, ReadError>> {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let mut functions = self.functions.borrow_mut();
        let opened = functions.as_mut()?.open_attribute(path, flags)?;
        // One stat; on success also an open and a close.
        self.count(if opened.is_ok() { 3 } else { 1 });
        Some(opened.map_err(|errno| error(path, errno)))
    }

    /// Opens a regular file for reading. Checks the type first, because opening a device can have effects (a watchdog
    /// starts, a tape rewinds), and would wake the writer of a pipe. Opens exactly the checked file, even if the name
    /// was reused.
    pub(super) fn open_file(&self, path: &str) -> Result<(OwnedFd, FileStat), ReadError> {
        self.open_type(path, SFlag::S_IFREG, "not a regular file")
    }

    /// Opens a block device for reading, with the same care.
    pub(super) fn open_block_device(&self, path: &str) -> Result<OwnedFd, ReadError> {
        let opened = self.open_type(path, SFlag::S_IFBLK, "not a block device");
        opened.map(|(fd, _)| fd).map_err(|error| self.of_container(error, BLOCK_DEVICES))
    }

    /// Opens the kernel's log through a mount, with the same care.
    pub(super) fn open_kernel_log(&self) -> Result<OwnedFd, ReadError> {
        let opened = self.open_type(kmsg::PATH, SFlag::S_IFCHR, "not a character device");
        let (fd, stat) = opened.map_err(|error| self.of_container(error, KERNEL_LOG))?;
        match stat.st_rdev == makedev(1, 11) {
            true => Ok(fd),
            false => Err(refused(kmsg::PATH, "not the kernel's log")),
        }
    }

    /// Replaces the advice of a denied read: in a container, root may lack the right too.
    fn of_container(&self, error: ReadError, why: &str) -> ReadError {
        match (error, &self.root) {
            (ReadError::Denied { path }, Root::Mounted(_)) => {
                ReadError::Hidden { path, why: why.to_owned() }
            }
            (error, _) => error,
        }
    }

    fn open_type(
        &self,
        path: &str,
        kind: SFlag,
        otherwise: &str,
    ) -> Result<(OwnedFd, FileStat), ReadError> {
        let failed = |errno| error(path, errno);
        let opened = file::open_type(kind, |flags| self.open(path, flags), failed);
        // On success also one stat, the second open, and a close.
        self.count(if opened.is_ok() { 3 } else { 0 });
        opened.map_err(|why| match why {
            NotOpened::Failed(error) => error,
            NotOpened::Directory => failed(Errno::EISDIR),
            NotOpened::OtherType => refused(path, otherwise),
        })
    }
}

/// Returns the number of descriptors to be closed later.
fn closes<T, E>(opened: &Result<T, E>) -> u64 {
    u64::from(opened.is_ok())
}
