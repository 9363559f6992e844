//! Hosts that are directories: the running machine (`/`, or a mount of it in a container) and image roots. Read-only;
//! every read goes through `open`, which decides what a path may reach. No parsing, no knowledge of the content.

mod below_mount;
mod config;
mod content;
mod foreign;
mod functions;
mod header_block;
mod mounted;
mod namespaces;
mod open;
mod refusal;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::sys::stat::{FileStat, fstat, fstatat};
use rustix::fs::FileType;
use sha2::{Digest as _, Sha256};

use self::config::{RecordedConfigReader, Registers};
use self::functions::{DEVICES, Functions};
use self::mounted::Mounted;
use self::refusal::error;
pub use super::image::{ImageError, ImageRoot};
use super::{
    ConfigSpace, HostKind, KernelLog, LineFilter, ModifiedAt, ReadCost, Reader, file, kmsg,
    netlink, snapshot_paths, trust,
};
use bedplate_base::OptionalRead as _;
use bedplate_base::ReadError;
use bedplate_base::value::PciAddress;
use bedplate_base::value::flow_control::FlowControl;
use bedplate_base::value::vf::{EswitchMode, VfTable};

/// Largest file that [`Reader::read`] accepts.
const LARGEST: usize = 16 << 20;
const TOO_LARGE: &str = "larger than 16 MiB";
/// Buffer size for files and directories: holds any sysfs attribute, and most directories, in one call.
const BUFFER: usize = 64 << 10;
enum Root {
    Live,
    Mounted(Mounted),
    Image { root: Arc<ImageRoot>, foreign: Vec<foreign::Mount> },
}

/// Reads a host that is a directory.
pub struct DirReader {
    root: Root,
    syscalls: Cell<u64>,
    config_dwords: Cell<u64>,
    buffer: RefCell<Vec<u8>>,
    /// For an image or a mount, the directory of each PCI function, once the links of `/sys/bus/pci/devices` have been read.
    functions: RefCell<Option<Functions>>,
}

impl DirReader {
    /// Creates a reader for the running machine.
    pub fn live() -> Self {
        Self::new(Root::Live)
    }

    /// Creates a reader for the running machine through a mount of its root directory in a container. Resolves every path
    /// inside it. A path whose content depends on a namespace of the reading process is [`ReadError::Hidden`], unless the
    /// namespace is the host's. The own root directory is as [`DirReader::live`].
    ///
    /// # Errors
    /// [`ImageError`] if it cannot be opened, or is not the root directory of the running machine with /proc and /sys.
    pub fn mounted(directory: &Path) -> Result<Self, ImageError> {
        if mounted::is_own_root(directory) {
            return Ok(Self::live());
        }
        Mounted::open(directory).map(|mounted| Self::new(Root::Mounted(mounted)))
    }

    /// Creates a reader for an image root. Resolves every path inside it: no absolute symlink, `..` or magic link
    /// leaves it.
    ///
    /// # Errors
    /// [`ImageError`] if it cannot be opened, or not safely.
    pub fn image(directory: &Path) -> Result<Self, ImageError> {
        ImageRoot::open(directory).map(Self::within)
    }

    /// Creates a reader for a root that is already open.
    pub fn within(root: Arc<ImageRoot>) -> Self {
        let foreign = foreign::mounts(&root);
        Self::new(Root::Image { root, foreign })
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

    /// Returns the directories of an image that are mounts of the build machine (`/proc`, `/sys`, `/run`). They do not
    /// describe the image, and read as missing.
    pub fn foreign_mounts(&self) -> Vec<&'static str> {
        match &self.root {
            Root::Live | Root::Mounted(_) => Vec::new(),
            Root::Image { foreign, .. } => foreign.iter().map(|mount| mount.path).collect(),
        }
    }

    /// Returns the values that stay unknown through a mount, each with the right or namespace that the container lacks.
    pub fn missing_rights(&self) -> Vec<String> {
        match &self.root {
            Root::Mounted(mounted) => mounted.missing_rights(),
            Root::Live | Root::Image { .. } => Vec::new(),
        }
    }

    /// Returns the root that confines all paths.
    fn confinement(&self) -> Option<&ImageRoot> {
        match &self.root {
            Root::Live => None,
            Root::Mounted(mounted) => Some(&mounted.root),
            Root::Image { root, .. } => Some(root),
        }
    }

    /// Checks that netlink answers for this host.
    fn needs_network(&self, path: String) -> Result<(), ReadError> {
        match &self.root {
            Root::Mounted(mounted) => mounted.needs_network(path),
            Root::Live | Root::Image { .. } => Ok(()),
        }
    }

    /// Whether the owner of a file may execute it.
    ///
    /// # Errors
    /// [`ReadError`], as for reading it.
    pub fn is_executable(&self, path: &str) -> Result<bool, ReadError> {
        let (_, stat) = self.open_file(path)?;
        Ok(stat.st_mode & 0o100 != 0)
    }

    fn count(&self, calls: u64) {
        self.syscalls.set(self.syscalls.get() + calls);
    }

    fn count_dwords(&self, offset: u16, got: usize) {
        let start = u64::from(offset);
        let dwords =
            (start + got as u64).div_ceil(4) - if got == 0 { start.div_ceil(4) } else { start / 4 };
        self.config_dwords.set(self.config_dwords.get() + dwords);
    }

    fn check_trust(&self, path: &str, stat: &FileStat) -> Result<(), ReadError> {
        let shown = self.display_path(path);
        let why = trust::distrust(stat, &shown);
        why.map_or(Ok(()), |why| Err(ReadError::Untrusted { path: shown, why }))
    }
}

/// Size limit for hashed files, 2 GiB: several times the largest initramfs.
const MOST_HASHED: u64 = 2 << 30;

impl Reader for DirReader {
    fn kind(&self) -> HostKind {
        match self.root {
            Root::Live | Root::Mounted(_) => HostKind::Live,
            Root::Image { .. } => HostKind::Image,
        }
    }

    fn display_path(&self, path: &str) -> String {
        match &self.root {
            Root::Live | Root::Mounted(_) => path.to_owned(),
            Root::Image { root, .. } => root.display_path(path),
        }
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        self.read_up_to(path, LARGEST + 1, true)
    }

    fn read_trusted(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        let (fd, stat) = self.open_file(path)?;
        self.check_trust(path, &stat)?;
        // A link may lead to a directory where other users can replace the file.
        self.count(2);
        if let Some((directory, stat)) = file::real_directory(&fd)
            && let Some(why) = trust::distrust_directory(&stat)
        {
            let directory = match &self.root {
                Root::Mounted(mounted) => mounted.path_of_host(&directory),
                Root::Live | Root::Image { .. } => directory,
            };
            let why = format!("directory {}: {why}", directory.display());
            return Err(ReadError::Untrusted { path: path.to_owned(), why });
        }
        self.read_from(&fd, path, LARGEST + 1, true)
    }

    fn trusted_directory(&self, path: &str) -> Result<(), ReadError> {
        let fd = self.open(path, OFlag::O_PATH | OFlag::O_DIRECTORY)?;
        self.count(1);
        self.check_trust(path, &fstat(&fd).map_err(|errno| error(path, errno))?)
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
        if matches!(self.root, Root::Live) {
            return self.read_link_at(AT_FDCWD, path).map_err(failed);
        }
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
                    // Not a link, or removed since.
                    Err(Errno::EINVAL | Errno::ENOENT) => {}
                    Err(errno) => return Err(error(&format!("{path}/{name}"), errno)),
                }
            }
            Ok(())
        })?;
        links.sort_unstable();
        if let Some(root) = self.confinement()
            && path == DEVICES
        {
            self.count(3);
            *self.functions.borrow_mut() = Functions::new(root.fd(), &links);
        }
        Ok(links)
    }

    fn modified(&self, path: &str) -> Result<ModifiedAt, ReadError> {
        let fd = self.open(path, OFlag::O_PATH)?;
        self.count(1);
        let stat = fstat(&fd).map_err(|errno| error(path, errno))?;
        Ok(ModifiedAt { seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec })
    }

    fn digest(&self, path: &str) -> Result<[u8; 32], ReadError> {
        let (fd, stat) = self.open_file(path)?;
        let mut left = MOST_HASHED;
        if u64::try_from(stat.st_size).is_ok_and(|size| size > left) {
            return Err(error(path, Errno::EFBIG));
        }
        let mut buffer = self.buffer.borrow_mut();
        let mut digest = Sha256::new();
        loop {
            self.count(1);
            let got = nix::unistd::read(&fd, &mut buffer).map_err(|errno| error(path, errno))?;
            if got == 0 {
                return Ok(digest.finalize().into());
            }
            digest.update(&buffer[..got]);
            // The file may grow while it is read.
            left = left.checked_sub(got as u64).ok_or_else(|| error(path, Errno::EFBIG))?;
        }
    }

    fn is_locked(&self, path: &str) -> Result<bool, ReadError> {
        let (fd, _) = self.open_file(path)?;
        file::is_locked(&fd).map_err(|errno| error(path, errno))
    }

    fn exists(&self, path: &str) -> Result<bool, ReadError> {
        let found = match self.root {
            Root::Live => {
                self.count(1);
                fstatat(AT_FDCWD, path, AtFlags::empty())
                    .map(drop)
                    .map_err(|errno| error(path, errno))
            }
            Root::Mounted(_) | Root::Image { .. } => self.open(path, OFlag::O_PATH).map(drop),
        };
        Ok(found.optional()?.is_some())
    }

    fn config(&self, address: PciAddress) -> Result<Box<dyn ConfigSpace + '_>, ReadError> {
        let path = format!("{DEVICES}/{address}/config");
        match self.root {
            Root::Live | Root::Mounted(_) => {
                let fd = self.open(&path, OFlag::O_RDONLY)?;
                Ok(Box::new(Registers { reader: self, fd, path }))
            }
            Root::Image { .. } => {
                let bytes = self.read_up_to(&path, config::LARGEST, false)?;
                Ok(Box::new(RecordedConfigReader { reader: self, bytes }))
            }
        }
    }

    fn vfs(&self, pf: PciAddress, interface: &str) -> Result<VfTable, ReadError> {
        self.needs_network(snapshot_paths::vfs_named(interface))?;
        netlink::ask_for_vfs(self, pf, interface)
    }

    fn default_routes(&self) -> Result<BTreeSet<String>, ReadError> {
        self.needs_network(snapshot_paths::ROUTES_NAMED.to_owned())?;
        netlink::ask_for_default_routes(self)
    }

    fn eswitch(&self, pf: PciAddress) -> Result<Option<EswitchMode>, ReadError> {
        self.needs_network(snapshot_paths::eswitch_named(pf))?;
        netlink::ask_for_eswitch(self, pf)
    }

    fn flow_control(
        &self,
        function: PciAddress,
        interface: &str,
    ) -> Result<Option<FlowControl>, ReadError> {
        self.needs_network(snapshot_paths::flow_control_named(interface))?;
        netlink::ask_for_flow_control(self, function, interface)
    }

    fn kernel_log(&self, keep: LineFilter) -> Result<KernelLog, ReadError> {
        let (log, calls) = match &self.root {
            Root::Live => kmsg::read(keep)?,
            Root::Mounted(_) => kmsg::read_from(self.open_kernel_log()?.into(), keep)?,
            Root::Image { .. } => {
                return Err(ReadError::NotFound { path: kmsg::PATH.to_owned() });
            }
        };
        self.count(calls);
        Ok(log)
    }

    fn grub_header_block(&self, device: &str) -> Result<String, ReadError> {
        header_block::read(self, device)
    }

    fn cost(&self) -> ReadCost {
        ReadCost { syscalls: self.syscalls.get(), config_dwords: self.config_dwords.get() }
    }
}

fn is_kernels(path: &str) -> bool {
    is_below(path, "/sys") || is_below(path, "/proc")
}

fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests;
