//! The write half of a host that is a directory: the running machine (`/`) or an image root. Each method is one step
//! that happens either completely or not at all; no method knows its purpose. `resolve` resolves paths, `replace`
//! replaces files, `attribute` writes sysfs and config space, `nic` uses netlink, `error_text` makes messages.

mod attribute;
mod error_text;
mod fat;
mod meta;
mod nic;
mod replace;
mod resolve;
mod state_file;
mod trusted_directory;
mod unlink;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::Mode;

use super::image::{ImageError, ImageRoot};
use super::{
    Expected, FileMeta, NicError, SHM, ToolOutput, WriteError, Writer, grub_mkconfig, tool,
};
use bedplate_base::value::PciAddress;
use bedplate_base::value::vf::{EswitchMode, VfAttributes};
use error_text::Fault;
pub use state_file::{
    remove_own_directory, remove_own_file, replace_own_file, replace_public_file, temporary,
};

/// Called before every system call that changes something, with the step and the path inside the host. An error stops
/// the writer there, like `kill -9`: no cleanup happens unless the gate allows it too.
pub(crate) type Gate = Box<dyn FnMut(&str, &str) -> std::io::Result<()> + Send>;

enum Root {
    Live,
    Image { root: Arc<ImageRoot>, chroot_tools: bool },
}

/// Writes a host that is a directory.
pub struct DirWriter {
    root: Root,
    gate: Gate,
    /// Whether data must be on the disk before a write is reported as done.
    durable: bool,
    /// Whether the host is on FAT; `None` means that the file system is queried.
    fat: Option<bool>,
}

impl DirWriter {
    /// Creates a writer for the running machine.
    pub fn live() -> Self {
        Self::new(Root::Live)
    }

    /// Creates a writer for an image root. Resolves every path inside it; runs tools inside it only if `chroot_tools`.
    ///
    /// # Errors
    /// [`ImageError`] if it cannot be opened, or not safely.
    pub fn image(directory: &Path, chroot_tools: bool) -> Result<Self, ImageError> {
        ImageRoot::open(directory).map(|root| Self::within(root, chroot_tools))
    }

    /// Creates a writer for a root that is already open.
    pub fn within(root: Arc<ImageRoot>, chroot_tools: bool) -> Self {
        Self::new(Root::Image { root, chroot_tools })
    }

    fn new(root: Root) -> Self {
        DirWriter { root, gate: Box::new(|_, _| Ok(())), durable: true, fat: None }
    }

    /// Adds a gate before every system call that changes something.
    pub fn gated(mut self, gate: Gate) -> Self {
        self.gate = gate;
        self
    }

    /// Treats the file system as one where a rename takes several steps.
    pub fn on_fat(mut self) -> Self {
        self.fat = Some(true);
        self
    }

    /// Opens a path inside the host: no symbolic link, `..` or magic link of an image leaves it.
    pub(super) fn open_inside(&self, path: &str, flags: OFlag) -> Result<OwnedFd, Errno> {
        self.create_inside(path, flags, Mode::empty())
    }

    /// Like `open_inside`; with `O_CREAT` among the flags, a new file gets `mode`.
    pub(super) fn create_inside(
        &self,
        path: &str,
        flags: OFlag,
        mode: Mode,
    ) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlag::O_CLOEXEC;
        match &self.root {
            Root::Live => openat(AT_FDCWD, path, flags, mode),
            Root::Image { root, .. } => root.inside(path, flags, mode).0,
        }
    }

    /// Returns the path on this machine of a path of the host, for messages.
    pub(super) fn display_path(&self, path: &str) -> String {
        match &self.root {
            Root::Live => path.to_owned(),
            Root::Image { root, .. } => root.display_path(path),
        }
    }

    /// Calls the gate.
    fn pass(&mut self, step: &str, path: &str) -> Result<(), Fault> {
        (self.gate)(step, path)
            .map_err(|error| Fault::Refused(format!("stopped before {step}: {error}")))
    }
}

impl Writer for DirWriter {
    fn replace_expected(
        &mut self,
        path: &str,
        bytes: &[u8],
        mode: u32,
        expected: Expected<'_>,
    ) -> Result<(), WriteError> {
        self.replace(path, bytes, replace::KeptMeta::Found { new_mode: mode }, expected)
            .map_err(|fault| fault.about("replace", path))
    }

    fn restore_expected(
        &mut self,
        path: &str,
        bytes: &[u8],
        meta: &FileMeta,
        expected: Expected<'_>,
    ) -> Result<(), WriteError> {
        self.replace(path, bytes, replace::KeptMeta::Given(meta), expected)
            .map_err(|fault| fault.about("restore", path))
    }

    fn file_meta(&self, path: &str) -> Result<Option<FileMeta>, WriteError> {
        let look = || match self.locate(path)? {
            resolve::Location::Found(place) => place.meta(),
            resolve::Location::NoDirectory(_) => Ok(None),
        };
        look().map_err(|fault| fault.about("replace", path))
    }

    fn remove_expected(&mut self, path: &str, expected: Expected<'_>) -> Result<(), WriteError> {
        self.remove(path, expected).map_err(|fault| fault.about("remove", path))
    }

    fn make_directory(&mut self, path: &str, mode: u32) -> Result<(), WriteError> {
        self.directory_made(path, mode)
            .map(drop)
            .map_err(|fault| fault.about("create directory", path))
    }

    fn remove_directory(&mut self, path: &str) -> Result<bool, WriteError> {
        self.remove_if_empty(path).map_err(|fault| fault.about("remove directory", path))
    }

    fn remove_stale_temporary_files(&mut self, path: &str) -> Result<usize, WriteError> {
        self.remove_stale_files_next_to(path).map_err(|fault| fault.about("clean up next to", path))
    }

    fn restore_cut_short(&mut self, path: &str) -> Result<bool, WriteError> {
        self.restore_old(path).map_err(|fault| fault.about("restore", path))
    }

    fn write_attribute(&mut self, path: &str, value: &str, limit_s: u32) -> Result<(), WriteError> {
        match path {
            SHM => self.shm_size(value),
            _ => self.attribute(path, value, limit_s),
        }
        .map_err(|fault| fault.about("write", path))
    }

    fn write_config(
        &mut self,
        address: PciAddress,
        offset: u16,
        value: u16,
    ) -> Result<(), WriteError> {
        let path = format!("/sys/bus/pci/devices/{address}/config");
        self.config_word(&path, offset, value).map_err(|fault| fault.about("write", &path))
    }

    fn set_vf(
        &mut self,
        pf: PciAddress,
        interface: &str,
        vf: u16,
        attributes: &VfAttributes,
        limit_s: u32,
    ) -> Result<(), NicError> {
        self.vf((pf, interface), vf, attributes, limit_s)
    }

    fn set_eswitch(
        &mut self,
        pf: PciAddress,
        mode: EswitchMode,
        limit_s: u32,
    ) -> Result<(), NicError> {
        self.eswitch(pf, mode, limit_s)
    }

    fn runs_tools(&self) -> bool {
        matches!(self.root, Root::Live | Root::Image { chroot_tools: true, .. })
    }

    fn run_tool(&mut self, argv: &[String], limit_s: u32) -> ToolOutput {
        if !self.runs_tools() {
            return tool::not_started("tools of an image run only with --chroot-tools".into());
        }
        if let Err(fault) = self.pass("run", argv.first().map_or("", String::as_str)) {
            return tool::not_started(fault.to_string());
        }
        match &self.root {
            Root::Live => {
                grub_mkconfig::run(argv, Path::new("/proc"), grub_mkconfig::PATIENCE, || {
                    tool::run(argv, limit_s, None)
                })
            }
            Root::Image { root, .. } => tool::run(argv, limit_s, Some(&root.path_for_child())),
        }
    }
}
