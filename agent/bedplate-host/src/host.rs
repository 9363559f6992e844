//! Traits for reading and writing a host, and their result types.

use crate::{KernelLog, LineFilter, snapshot_paths};
use bedplate_base::ReadError;
use serde::de::DeserializeOwned;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bedplate_base::value::PciAddress;
use bedplate_base::value::flow_control::FlowControl;
use bedplate_base::value::vf::{EswitchMode, VfAttributes, VfTable};

/// Class of host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostKind {
    /// The running machine: `/`, or a mount of it (`--host-root DIR`).
    Live,
    /// A root directory that is not running (`--root DIR`).
    Image,
    /// A recorded machine (`--snapshot FILE`, `--demo NAME`): read-only. A recorded image is an [`HostKind::Image`], so
    /// that planning treats it as one.
    Snapshot,
}

/// Cost of all reads so far. On real hardware, config-space dwords dominate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct ReadCost {
    /// System calls made by the reader.
    pub syscalls: u64,
    /// 32-bit config-space reads from the hardware.
    pub config_dwords: u64,
}

/// Time of the last write to a file, since 1970 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModifiedAt {
    /// Whole seconds.
    pub seconds: i64,
    /// The rest, in nanoseconds.
    pub nanoseconds: i64,
}

/// The config space of one function. Offsets are in bytes; reads never wrap or pad.
pub trait ConfigSpace {
    /// Fills `buffer` from `offset` and returns the number of bytes available (64 for an unprivileged reader, 256 or
    /// 4096 otherwise). A short read is "unknown", not "no capability" (handbook §3.1).
    fn read(&self, offset: u16, buffer: &mut [u8]) -> Result<usize, ReadError>;
}

/// Mount point of POSIX shared memory (shm_overview(7)).
pub const SHM: &str = "/dev/shm";
/// Directory of bedplate's persistent state, inside the host.
pub const STATE_DIRECTORY: &str = "/var/lib/bedplate";
/// Directory of the daemon's own files, the only one on a disk that it may write. Its siblings decide what runs as
/// root.
pub const DAEMON_DIRECTORY: &str = "/var/lib/bedplate/daemon";

/// The read half of a host. Never changes anything.
pub trait Reader {
    /// Returns the class of the host.
    fn kind(&self) -> HostKind;

    /// Whether this is a snapshot, of a running machine or of an image: it cannot be changed.
    fn is_recording(&self) -> bool {
        false
    }

    /// Returns the path to show to operators. For an image it starts with the image root, to distinguish it from the
    /// operator's own paths.
    fn display_path(&self, path: &str) -> String {
        path.to_owned()
    }

    /// Reads a whole file (symlinks followed inside the host). Fails above 16 MiB.
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError>;

    /// Reads a file that decides what runs as root. Fails unless it belongs to the caller or root and is not writable
    /// by other users. A recorded host has no owners, and is never changed.
    fn read_trusted(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        self.read(path)
    }

    /// Checks that a directory is trusted by the same rules.
    fn trusted_directory(&self, path: &str) -> Result<(), ReadError> {
        let _ = path;
        Ok(())
    }

    /// Reads at most `limit` bytes from the start: for /proc files that cost per line (cpuinfo, kallsyms).
    fn read_start(&self, path: &str, limit: usize) -> Result<Vec<u8>, ReadError>;

    /// Lists the names in a directory, sorted, without `.` and `..`.
    fn list(&self, path: &str) -> Result<Vec<String>, ReadError>;

    /// Returns the text of a symbolic link.
    fn link(&self, path: &str) -> Result<String, ReadError>;

    /// Returns all symbolic links of one directory as (name, link text), sorted. Skips other entries.
    fn links(&self, path: &str) -> Result<Vec<(String, String)>, ReadError>;

    /// Whether the path exists (symlinks followed inside the host).
    fn exists(&self, path: &str) -> Result<bool, ReadError>;

    /// Returns the time of the last write to a file or directory (symlinks followed inside the host). Snapshots lack
    /// it.
    fn modified(&self, path: &str) -> Result<ModifiedAt, ReadError> {
        Err(ReadError::NotRecorded { path: path.to_owned() })
    }

    /// Returns the SHA-256 of a regular file of at most 2 GiB (symlinks followed inside the host). Snapshots lack it.
    fn digest(&self, path: &str) -> Result<[u8; 32], ReadError> {
        Err(ReadError::NotRecorded { path: path.to_owned() })
    }

    /// Whether another process holds a write lock on a file (fcntl(2)). Always false for a snapshot.
    fn is_locked(&self, path: &str) -> Result<bool, ReadError> {
        let _ = path;
        Ok(false)
    }

    /// Opens one function's config space for positioned reads.
    fn config(&self, address: PciAddress) -> Result<Box<dyn ConfigSpace + '_>, ReadError>;

    /// Reads a PF's VFs through one of its network interfaces, and that interface's own permanent address.
    fn vfs(&self, pf: PciAddress, interface: &str) -> Result<VfTable, ReadError> {
        let _ = pf;
        answer(self, &snapshot_paths::vfs_at(interface), snapshot_paths::vfs_named(interface))
    }

    /// Reads the mode of a PF's eswitch; `None` if its driver has no eswitch. The kernel requires root.
    fn eswitch(&self, pf: PciAddress) -> Result<Option<EswitchMode>, ReadError> {
        answer(self, &snapshot_paths::eswitch_at(pf), snapshot_paths::eswitch_named(pf))
    }

    /// Reads the flow control of a function's network interface; `None` if its driver has no DCB.
    fn flow_control(
        &self,
        function: PciAddress,
        interface: &str,
    ) -> Result<Option<FlowControl>, ReadError> {
        let _ = function;
        let named = snapshot_paths::flow_control_named(interface);
        answer(self, &snapshot_paths::flow_control_at(interface), named)
    }

    /// Returns the interfaces of all default routes of the main table: every next hop, every family.
    fn default_routes(&self) -> Result<BTreeSet<String>, ReadError> {
        answer(self, snapshot_paths::ROUTES, snapshot_paths::ROUTES_NAMED.to_owned())
    }

    /// Returns the lines of the kernel's log that pass `keep`. Not found if no kernel runs, or if its log is hidden.
    fn kernel_log(&self, keep: LineFilter) -> Result<KernelLog, ReadError> {
        let mut log: KernelLog =
            answer(self, snapshot_paths::KERNEL_LOG, snapshot_paths::KERNEL_LOG_NAMED.to_owned())?;
        log.keep(keep);
        Ok(log)
    }

    /// Reads the sector that Btrfs reserves for GRUB's environment block, from the block device of the file system.
    /// Bytes that are not UTF-8 are kept ([`bedplate_base::lossless_text`]).
    fn grub_header_block(&self, device: &str) -> Result<String, ReadError> {
        let _ = device;
        let named = snapshot_paths::GRUB_HEADER_BLOCK_NAMED.to_owned();
        answer(self, snapshot_paths::GRUB_HEADER_BLOCK, named)
    }

    /// Returns the cost of all reads so far.
    fn cost(&self) -> ReadCost {
        ReadCost::default()
    }

    /// Reads a file as text without its final newline and surrounding blanks, as sysfs attributes are read. Also strips
    /// the NUL that old kernels put at the end of some lists.
    fn attribute(&self, path: &str) -> Result<String, ReadError> {
        let blank = |character: char| character.is_whitespace() || character == '\0';
        self.text(path).map(|text| text.trim_matches(blank).to_owned())
    }

    /// Reads a file as text. Fails on bytes that are not UTF-8.
    fn text(&self, path: &str) -> Result<String, ReadError> {
        String::from_utf8(self.read(path)?).map_err(|_| ReadError::Failed {
            path: path.to_owned(),
            reason: "not UTF-8 text".into(),
        })
    }
}

/// Reason why a write failed or did not persist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot {doing} {path}: {reason}")]
pub struct WriteError {
    /// The operation (`replace`, `write`).
    pub doing: &'static str,
    /// Path inside the host.
    pub path: String,
    /// The cause, and the fix if known.
    pub reason: String,
}

/// Reason why a setting was not made on a NIC.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct NicError {
    /// The system error.
    pub error: WriteError,
    /// The component responsible.
    pub cause: NicCause,
}

/// Cause of a failed NIC setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NicCause {
    /// The driver: it does not support the setting, or reports why it refuses.
    Driver,
    /// No answer in time. The driver may still be working, under locks that the next request waits for.
    NoAnswer,
    /// Any other cause: missing rights, a missing interface.
    Other,
}

/// Metadata of a file, kept when it is replaced and written when it is restored.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileMeta {
    /// Permission bits, set-id and sticky bits (`07777`).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Extended attributes that belong to the file and not to its content (ACLs, security label), values as hex.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub xattrs: BTreeMap<String, String>,
}

/// Result of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// How it ended.
    pub end: ToolEnd,
    /// stdout and stderr together, in order of arrival, the last 64 KiB.
    pub output: String,
}

/// How a tool ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolEnd {
    /// Exit status.
    Exited(i32),
    /// Killed by a signal.
    Signal(i32),
    /// Exceeded its limit and was killed with all processes that it started.
    TimedOut,
    /// Could not be started.
    NotStarted(String),
}

impl fmt::Display for ToolEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ToolEnd::Exited(status) => write!(f, "exit status {status}"),
            ToolEnd::Signal(signal) => write!(f, "killed by signal {signal}"),
            ToolEnd::TimedOut => f.write_str("exceeded its time limit and was killed"),
            ToolEnd::NotStarted(why) => write!(f, "could not start: {why}"),
        }
    }
}

/// Required content of a file at the moment of its replacement or removal, so that no other program's edit is
/// overwritten.
#[derive(Debug, Clone, Copy)]
pub enum Expected<'a> {
    /// Any content, for files that only bedplate writes.
    Anything,
    /// Exactly these bytes; `None` for no file.
    Content(Option<&'a [u8]>),
}

/// The write half of a host. Each method is one step that happens either completely or not at all.
pub trait Writer {
    /// Atomically makes `path` hold `bytes` (temp file in the same directory, fsync, rename, fsync directory). Keeps
    /// owner, mode and xattrs of an existing file; `mode` is for a new file. Creates missing parent directories. Fails
    /// if `path` does not hold the expected content.
    fn replace_expected(
        &mut self,
        path: &str,
        bytes: &[u8],
        mode: u32,
        expected: Expected<'_>,
    ) -> Result<(), WriteError>;

    /// [`Writer::replace_expected`] for any current content.
    fn replace_file(&mut self, path: &str, bytes: &[u8], mode: u32) -> Result<(), WriteError> {
        self.replace_expected(path, bytes, mode, Expected::Anything)
    }

    /// Replaces like [`Writer::replace_expected`], but with the given owner, mode and xattrs instead of the current
    /// ones. Used for undo.
    fn restore_expected(
        &mut self,
        path: &str,
        bytes: &[u8],
        meta: &FileMeta,
        expected: Expected<'_>,
    ) -> Result<(), WriteError>;

    /// [`Writer::restore_expected`] for any current content.
    fn restore_file(
        &mut self,
        path: &str,
        bytes: &[u8],
        meta: &FileMeta,
    ) -> Result<(), WriteError> {
        self.restore_expected(path, bytes, meta, Expected::Anything)
    }

    /// Returns the metadata that a replacement would keep, if the file exists. Fails, before any write, where
    /// [`Writer::replace_file`] would fail: on a directory, a device, a dangling symbolic link.
    fn file_meta(&self, path: &str) -> Result<Option<FileMeta>, WriteError>;

    /// Removes a file durably. Succeeds if it is missing. Fails if it does not hold the expected content.
    fn remove_expected(&mut self, path: &str, expected: Expected<'_>) -> Result<(), WriteError>;

    /// [`Writer::remove_expected`] for any current content.
    fn remove_file(&mut self, path: &str) -> Result<(), WriteError> {
        self.remove_expected(path, Expected::Anything)
    }

    /// Creates a directory with `mode`, and missing parents. Succeeds without a change if it exists.
    fn make_directory(&mut self, path: &str, mode: u32) -> Result<(), WriteError>;

    /// Removes a directory if it is empty. Returns `false` if it is not. Succeeds if it is missing.
    fn remove_directory(&mut self, path: &str) -> Result<bool, WriteError>;

    /// Removes temporary files that killed runs left in the directory of `path`. Returns their number.
    fn remove_stale_temporary_files(&mut self, path: &str) -> Result<usize, WriteError>;

    /// Restores `path` from its backup copy, if a power cut during the rename left it empty (FAT). Returns whether it
    /// did.
    fn restore_cut_short(&mut self, path: &str) -> Result<bool, WriteError>;

    /// Writes a sysfs attribute in one write(2), limited to `limit_s` seconds. For [`SHM`], sets the size of the file system
    /// mounted there.
    fn write_attribute(&mut self, path: &str, value: &str, limit_s: u32) -> Result<(), WriteError>;

    /// Writes a 16-bit register of config space in one write(2) of two bytes.
    fn write_config(
        &mut self,
        address: PciAddress,
        offset: u16,
        value: u16,
    ) -> Result<(), WriteError>;

    /// Sets attributes of a VF through its PF's network interface, limited to `limit_s` seconds each. The kernel sets
    /// both rates together: pass both, or the missing one is set to 0.
    fn set_vf(
        &mut self,
        pf: PciAddress,
        interface: &str,
        vf: u16,
        attributes: &VfAttributes,
        limit_s: u32,
    ) -> Result<(), NicError>;

    /// Changes the mode of a PF's eswitch, limited to `limit_s` seconds.
    fn set_eswitch(
        &mut self,
        pf: PciAddress,
        mode: EswitchMode,
        limit_s: u32,
    ) -> Result<(), NicError>;

    /// Whether [`Writer::run_tool`] runs tools here. In an image it does so only on request.
    fn runs_tools(&self) -> bool;

    /// Runs a tool of the host with a time limit. At the limit its whole process group is killed.
    fn run_tool(&mut self, argv: &[String], limit_s: u32) -> ToolOutput;
}

/// Reads a recorded answer. If it is missing, it was never queried: older snapshots have none.
fn answer<T: DeserializeOwned>(
    reader: &(impl Reader + ?Sized),
    at: &str,
    named: String,
) -> Result<T, ReadError> {
    let bytes = reader.read(at).map_err(|error| match error {
        ReadError::NotFound { .. } | ReadError::NotRecorded { .. } => {
            ReadError::NotRecorded { path: named.clone() }
        }
        ReadError::Denied { .. } => ReadError::Denied { path: named.clone() },
        ReadError::Failed { reason, .. } => ReadError::Failed { path: named.clone(), reason },
        ReadError::Untrusted { why, .. } => ReadError::Untrusted { path: named.clone(), why },
        ReadError::Hidden { why, .. } => ReadError::Hidden { path: named.clone(), why },
    })?;
    serde_json::from_slice(&bytes)
        .map_err(|error| ReadError::Failed { path: named, reason: error.to_string() })
}
