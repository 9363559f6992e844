//! Hosts that are directories: the running machine (`/`) and image roots. Reading only; every byte goes through
//! `DirReader::open`, which decides what a path may reach. No parsing and no knowledge of what is read.

mod functions;

use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2, readlinkat};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat};
use nix::sys::statfs::{FsType, PROC_SUPER_MAGIC, SYSFS_MAGIC, fstatfs};
use nix::sys::uio::pread;
use rustix::fs::{FileType, RawDir};

use self::functions::{DEVICES, Functions};
use super::{ConfigSpace, HostKind, ReadCost, ReadError, Reader, netlink};
use crate::value::PciAddress;
use crate::value::vf::{EswitchMode, VfTable};

/// Largest file [`Reader::read`] takes.
const LARGEST: usize = 16 << 20;
/// Buffer for files and directories: holds any sysfs attribute, and most directories, in one call.
const BUFFER: usize = 64 << 10;
/// openat2 says EAGAIN when a rename or mount raced with a `..`; the race cannot last (man openat2).
const RACES: u64 = 128;
/// What the kernel makes up itself.
const KERNEL_FILESYSTEMS: [FsType; 2] = [SYSFS_MAGIC, PROC_SUPER_MAGIC];

/// Why an image root cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The directory itself.
    #[error("cannot open the image root {path}")]
    Root {
        /// The directory, as given.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: std::io::Error,
    },
    /// No safe way to stay inside the image.
    #[error(
        "cannot stay inside the image root {path}: this kernel or container runtime has no openat2; \
         Linux 5.6 or newer is needed, and a seccomp profile that allows the call"
    )]
    NoOpenat2 {
        /// The directory, as given.
        path: PathBuf,
    },
}

/// A directory that belongs to the machine the image is built on.
struct Foreign {
    path: &'static str,
    device: u64,
}

enum Root {
    Live,
    Image { fd: OwnedFd, foreign: Vec<Foreign> },
}

/// Reads a host that is a directory.
pub struct DirReader {
    root: Root,
    syscalls: Cell<u64>,
    config_dwords: Cell<u64>,
    buffer: RefCell<Vec<u8>>,
    /// In an image, once the links of `/sys/bus/pci/devices` were read: the short way to each function.
    functions: RefCell<Option<Functions>>,
}

impl DirReader {
    /// The running machine.
    pub fn live() -> Self {
        Self::new(Root::Live)
    }

    /// An image root. Every path is resolved inside it: no absolute symlink, `..` or magic link leaves it.
    pub fn image(directory: &Path) -> Result<Self, ImageError> {
        let failed =
            |errno: Errno| ImageError::Root { path: directory.to_owned(), source: errno.into() };
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let fd = openat(AT_FDCWD, directory, flags, Mode::empty()).map_err(failed)?;
        let own = fstat(&fd).map_err(failed)?.st_dev;
        match inside(&fd, "/", flags).0 {
            // Container runtimes older than the call answer EPERM.
            Err(Errno::ENOSYS | Errno::EPERM) => {
                return Err(ImageError::NoOpenat2 { path: directory.to_owned() });
            }
            Err(errno) => return Err(failed(errno)),
            Ok(_) => {}
        }
        let foreign = ["/proc", "/run", "/sys"]
            .into_iter()
            .filter_map(|path| foreign_mount(&fd, path, own).map(|device| Foreign { path, device }))
            .collect();
        Ok(Self::new(Root::Image { fd, foreign }))
    }

    fn new(root: Root) -> Self {
        DirReader {
            root,
            syscalls: Cell::new(0),
            config_dwords: Cell::new(0),
            buffer: RefCell::new(vec![0; BUFFER]),
            functions: RefCell::new(None),
        }
    }

    /// Directories of an image that are mounts of the machine it is built on (`/proc`, `/sys`, `/run`):
    /// they say nothing about the image and read as not there.
    pub fn foreign_mounts(&self) -> Vec<&'static str> {
        match &self.root {
            Root::Live => Vec::new(),
            Root::Image { foreign, .. } => foreign.iter().map(|mount| mount.path).collect(),
        }
    }

    fn count(&self, calls: u64) {
        self.syscalls.set(self.syscalls.get() + calls);
    }

    /// Open a path inside the host. Never blocks on a FIFO and never gains a controlling terminal.
    fn open(&self, path: &str, flags: OFlag) -> Result<OwnedFd, ReadError> {
        let mut flags = flags | OFlag::O_CLOEXEC;
        if !flags.contains(OFlag::O_PATH) {
            // openat2 refuses these together with O_PATH, which opens nothing anyway.
            flags |= OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        }
        let Root::Image { fd: root, foreign } = &self.root else {
            self.count(2);
            return openat(AT_FDCWD, path, flags, Mode::empty())
                .map_err(|errno| error(path, errno));
        };
        if foreign.iter().any(|mount| is_below(path, mount.path)) {
            return Err(ReadError::NotFound { path: path.to_owned() });
        }
        if let Some(opened) =
            self.functions.borrow_mut().as_mut().and_then(|known| known.open(path, flags))
        {
            self.count(2);
            return opened.map_err(|errno| error(path, errno));
        }
        let (fd, calls) = inside(root, path, flags);
        self.count(calls + 1);
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

    fn read_up_to(&self, path: &str, limit: usize, whole: bool) -> Result<Vec<u8>, ReadError> {
        let fd = self.open(path, OFlag::O_RDONLY)?;
        let failed = |errno| error(path, errno);
        // Elsewhere than in the kernel's own trees a path can be a device or a pipe: reading one has side effects.
        if !is_below(path, "/sys") && !is_below(path, "/proc") {
            self.count(1);
            let stat = fstat(&fd).map_err(failed)?;
            match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
                SFlag::S_IFREG => {}
                SFlag::S_IFDIR => return Err(error(path, Errno::EISDIR)),
                _ => return Err(refused(path, "it is not a regular file")),
            }
        }
        let mut buffer = self.buffer.borrow_mut();
        let mut bytes = Vec::new();
        loop {
            let room = buffer.len().min(limit - bytes.len());
            self.count(1);
            let got = nix::unistd::read(&fd, &mut buffer[..room]).map_err(failed)?;
            bytes.extend_from_slice(&buffer[..got]);
            // A sysfs attribute comes whole in one read. Files of /proc do not: only 0 is their end.
            let ended = got == 0 || (got < room && is_below(path, "/sys"));
            if ended || (!whole && bytes.len() == limit) {
                return Ok(bytes);
            }
            if bytes.len() == limit {
                return Err(refused(path, "it is larger than 16 MiB"));
            }
        }
    }

    fn entries(
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

    fn read_link_at(&self, directory: BorrowedFd, name: &str) -> Result<String, Errno> {
        self.count(1);
        Ok(readlinkat(directory, name)?.to_string_lossy().into_owned())
    }
}

impl Reader for DirReader {
    fn kind(&self) -> HostKind {
        match self.root {
            Root::Live => HostKind::Live,
            Root::Image { .. } => HostKind::Image,
        }
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        self.read_up_to(path, LARGEST + 1, true)
    }

    fn read_start(&self, path: &str, limit: usize) -> Result<Vec<u8>, ReadError> {
        self.read_up_to(path, limit.min(LARGEST), false)
    }

    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        let mut names = Vec::new();
        self.entries(path, |_, name, _| {
            names.push(name.to_owned());
            Ok(())
        })?;
        names.sort_unstable();
        Ok(names)
    }

    fn link(&self, path: &str) -> Result<String, ReadError> {
        let failed = |errno| error(path, errno);
        let Root::Image { .. } = &self.root else {
            return self.read_link_at(AT_FDCWD, path).map_err(failed);
        };
        if let Some((directory, name)) =
            self.functions.borrow().as_ref().and_then(|known| known.link(path))
        {
            return self.read_link_at(directory, &name).map_err(failed);
        }
        let (directory, name) = path.trim_end_matches('/').rsplit_once('/').unwrap_or(("", path));
        let directory = if directory.is_empty() { "/" } else { directory };
        let fd = self.open(directory, OFlag::O_PATH | OFlag::O_DIRECTORY)?;
        self.read_link_at(fd.as_fd(), name).map_err(failed)
    }

    fn links(&self, path: &str) -> Result<Vec<(String, String)>, ReadError> {
        let mut links = Vec::new();
        self.entries(path, |directory, name, kind| {
            if matches!(kind, FileType::Symlink | FileType::Unknown) {
                match self.read_link_at(directory.as_fd(), name) {
                    Ok(text) => links.push((name.to_owned(), text)),
                    // Not a link after all, or gone since.
                    Err(Errno::EINVAL | Errno::ENOENT) => {}
                    Err(errno) => return Err(error(&format!("{path}/{name}"), errno)),
                }
            }
            Ok(())
        })?;
        links.sort_unstable();
        if let Root::Image { fd, .. } = &self.root
            && path == DEVICES
        {
            self.count(3);
            *self.functions.borrow_mut() = Functions::new(fd, &links);
        }
        Ok(links)
    }

    fn exists(&self, path: &str) -> Result<bool, ReadError> {
        let found = match self.root {
            Root::Live => {
                self.count(1);
                fstatat(AT_FDCWD, path, AtFlags::empty())
                    .map(drop)
                    .map_err(|errno| error(path, errno))
            }
            Root::Image { .. } => self.open(path, OFlag::O_PATH).map(drop),
        };
        match found {
            Ok(()) => Ok(true),
            Err(error) if error.is_absent() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn config(&self, address: PciAddress) -> Result<Box<dyn ConfigSpace + '_>, ReadError> {
        let path = format!("{DEVICES}/{address}/config");
        let fd = self.open(&path, OFlag::O_RDONLY)?;
        Ok(Box::new(DirConfig { reader: self, fd, path }))
    }

    fn vfs(&self, interface: &str) -> Result<VfTable, ReadError> {
        netlink::ask_for_vfs(self, interface)
    }

    fn eswitch(&self, pf: PciAddress) -> Result<Option<EswitchMode>, ReadError> {
        netlink::ask_for_eswitch(self, pf)
    }

    fn cost(&self) -> ReadCost {
        ReadCost { syscalls: self.syscalls.get(), config_dwords: self.config_dwords.get() }
    }
}

struct DirConfig<'a> {
    reader: &'a DirReader,
    fd: OwnedFd,
    path: String,
}

impl ConfigSpace for DirConfig<'_> {
    fn read(&self, offset: u16, buffer: &mut [u8]) -> Result<usize, ReadError> {
        self.reader.count(1);
        let got = pread(&self.fd, &mut *buffer, offset.into())
            .map_err(|errno| error(&self.path, errno))?;
        let start = u64::from(offset);
        let dwords =
            (start + got as u64).div_ceil(4) - if got == 0 { start.div_ceil(4) } else { start / 4 };
        self.reader.config_dwords.set(self.reader.config_dwords.get() + dwords);
        Ok(got)
    }
}

/// openat2 with everything resolved inside `root`; the second value is how many calls it took.
fn inside(root: &OwnedFd, path: &str, flags: OFlag) -> (Result<OwnedFd, Errno>, u64) {
    let resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let how = OpenHow::new().flags(flags).resolve(resolve);
    let mut calls = 0;
    loop {
        calls += 1;
        match openat2(root, path, how) {
            Err(Errno::EAGAIN) if calls < RACES => {}
            opened => return (opened, calls),
        }
    }
}

/// The device number of `path` if it is a mount that belongs to the machine at work, not to the image:
/// a kernel filesystem, or a `/run` of its own (an image that is not running has nothing there).
fn foreign_mount(root: &OwnedFd, path: &str, own: u64) -> Option<u64> {
    let (fd, _) = inside(root, path, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC);
    let fd = fd.ok()?;
    let device = fstat(&fd).ok()?.st_dev;
    let kernel_made =
        fstatfs(&fd).is_ok_and(|fs| KERNEL_FILESYSTEMS.contains(&fs.filesystem_type()));
    (kernel_made || (path == "/run" && device != own)).then_some(device)
}

fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn refused(path: &str, reason: &str) -> ReadError {
    ReadError::Failed { path: path.to_owned(), reason: reason.to_owned() }
}

fn error(path: &str, errno: Errno) -> ReadError {
    let path = path.to_owned();
    match errno {
        Errno::ENOENT | Errno::ENOTDIR => ReadError::NotFound { path },
        Errno::EACCES | Errno::EPERM => ReadError::Denied { path },
        errno => {
            let words = std::io::Error::from(errno).to_string();
            let reason = words.split(" (os error").next().unwrap_or(&words).to_owned();
            ReadError::Failed { path, reason }
        }
    }
}

#[cfg(test)]
mod tests;
