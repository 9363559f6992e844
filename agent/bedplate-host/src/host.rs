//! What reads and what writes a host: the traits, and what they answer.

use crate::{KernelLog, LineFilter, snapshot_paths};
use bedplate_base::ReadError;
use serde::de::DeserializeOwned;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bedplate_base::value::PciAddress;
use bedplate_base::value::flow_control::FlowControl;
use bedplate_base::value::vf::{EswitchMode, VfAttributes, VfTable};

/// Which sort of host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostKind {
    /// The running machine, `/`.
    Live,
    /// A root directory that is not running (`--root DIR`).
    Image,
    /// A recorded machine (`--snapshot FILE`, `--demo NAME`): read only. A recorded image is an [`HostKind::Image`],
    /// so that it is planned as one.
    Snapshot,
}

/// What reading has cost so far. On real hardware config-space dwords are the cost that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct ReadCost {
    /// System calls made by the reader.
    pub syscalls: u64,
    /// 32-bit config-space reads asked of the hardware.
    pub config_dwords: u64,
}

/// When a file was last written, since 1970 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModifiedAt {
    /// Whole seconds.
    pub seconds: i64,
    /// And this much.
    pub nanoseconds: i64,
}

/// The config space of one function. Offsets are in bytes; reads never wrap or pad.
pub trait ConfigSpace {
    /// Fill `buffer` from `offset`; returns how many bytes there were (64 for an unprivileged reader,
    /// 256 or 4096 otherwise). A short read is "unknown", not "no capability" (handbook §3.1).
    fn read(&self, offset: u16, buffer: &mut [u8]) -> Result<usize, ReadError>;
}

/// Where bedplate keeps what it remembers of a host, inside the host.
pub const STATE_DIRECTORY: &str = "/var/lib/bedplate";
/// Directory of the daemon's own files, the only one on a disk that it may write: what is beside it decides what runs as root.
pub const DAEMON_DIRECTORY: &str = "/var/lib/bedplate/daemon";

/// The read half of a host. Nothing here changes anything.
pub trait Reader {
    /// Which sort of host.
    fn kind(&self) -> HostKind;

    /// Whether it is a recording, of a running machine or of an image: nothing of it can be changed.
    fn is_recording(&self) -> bool {
        false
    }

    /// How a path of the host is named to people: an image's with its root in front, so that nobody takes it for their own.
    fn display_path(&self, path: &str) -> String {
        path.to_owned()
    }

    /// The whole file (symlinks followed inside the host). Refuses above 16 MiB.
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError>;

    /// The same for what decides what is done as root: only what belongs to the caller or to root and is not to be written by
    /// others. A recorded host has no owners, and nothing is done to it.
    fn read_trusted(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        self.read(path)
    }

    /// Whether a directory is to be trusted like that.
    fn trusted_directory(&self, path: &str) -> Result<(), ReadError> {
        let _ = path;
        Ok(())
    }

    /// At most `limit` bytes from the start: for /proc files that cost per line (cpuinfo, kallsyms).
    fn read_start(&self, path: &str, limit: usize) -> Result<Vec<u8>, ReadError>;

    /// Names in a directory, sorted, without `.` and `..`.
    fn list(&self, path: &str) -> Result<Vec<String>, ReadError>;

    /// A symbolic link's own text.
    fn link(&self, path: &str) -> Result<String, ReadError>;

    /// All symbolic links of one directory: (name, link text), sorted; other entries are left out.
    fn links(&self, path: &str) -> Result<Vec<(String, String)>, ReadError>;

    /// Whether something is there (symlinks followed inside the host).
    fn exists(&self, path: &str) -> Result<bool, ReadError>;

    /// When a file or directory was last written (symlinks followed inside the host); a recording does not keep that.
    fn modified(&self, path: &str) -> Result<ModifiedAt, ReadError> {
        Err(ReadError::NotRecorded { path: path.to_owned() })
    }

    /// SHA-256 of a regular file of at most 2 GiB (symlinks followed inside the host); a recording does not keep that.
    fn digest(&self, path: &str) -> Result<[u8; 32], ReadError> {
        Err(ReadError::NotRecorded { path: path.to_owned() })
    }

    /// Whether another process holds a lock for writing on a file (fcntl(2)); a recording knows of none.
    fn is_locked(&self, path: &str) -> Result<bool, ReadError> {
        let _ = path;
        Ok(false)
    }

    /// Open one function's config space for positioned reads.
    fn config(&self, address: PciAddress) -> Result<Box<dyn ConfigSpace + '_>, ReadError>;

    /// What the kernel says of a PF's VFs by one of its network interfaces, and that interface's own permanent address.
    fn vfs(&self, pf: PciAddress, interface: &str) -> Result<VfTable, ReadError> {
        let _ = pf;
        answer(self, &snapshot_paths::vfs_at(interface), snapshot_paths::vfs_named(interface))
    }

    /// The mode of a PF's eswitch; `None` = its driver has none. The kernel tells root only.
    fn eswitch(&self, pf: PciAddress) -> Result<Option<EswitchMode>, ReadError> {
        answer(self, &snapshot_paths::eswitch_at(pf), snapshot_paths::eswitch_named(pf))
    }

    /// What the driver of a function's network interface says of its flow control; `None` = it has no DCB.
    fn flow_control(
        &self,
        function: PciAddress,
        interface: &str,
    ) -> Result<Option<FlowControl>, ReadError> {
        let _ = function;
        let named = snapshot_paths::flow_control_named(interface);
        answer(self, &snapshot_paths::flow_control_at(interface), named)
    }

    /// Interfaces that default routes of the main table go through, every next hop of every family.
    fn default_routes(&self) -> Result<BTreeSet<String>, ReadError> {
        answer(self, snapshot_paths::ROUTES, snapshot_paths::ROUTES_NAMED.to_owned())
    }

    /// Of the lines of the kernel's log what `keep` leaves. Not there where no kernel runs, or its log is not shown.
    fn kernel_log(&self, keep: LineFilter) -> Result<KernelLog, ReadError> {
        let mut log: KernelLog =
            answer(self, snapshot_paths::KERNEL_LOG, snapshot_paths::KERNEL_LOG_NAMED.to_owned())?;
        log.keep(keep);
        Ok(log)
    }

    /// What reading has cost so far.
    fn cost(&self) -> ReadCost {
        ReadCost::default()
    }

    /// File content as text without its final newline and surrounding blanks: the way of sysfs attributes.
    /// Old kernels end some lists in a NUL; that goes as well.
    fn attribute(&self, path: &str) -> Result<String, ReadError> {
        let blank = |character: char| character.is_whitespace() || character == '\0';
        self.text(path).map(|text| text.trim_matches(blank).to_owned())
    }

    /// File content as text; bytes that are not UTF-8 make it a failed read.
    fn text(&self, path: &str) -> Result<String, ReadError> {
        String::from_utf8(self.read(path)?).map_err(|_| ReadError::Failed {
            path: path.to_owned(),
            reason: "it is not UTF-8 text".into(),
        })
    }
}

/// Why a write did not happen or did not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot {doing} {path}: {reason}")]
pub struct WriteError {
    /// What was being done (`replace`, `write`).
    pub doing: &'static str,
    /// Path inside the host.
    pub path: String,
    /// Why it failed, and what to do where that is known.
    pub reason: String,
}

/// Why something was not set on a NIC.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct NicError {
    /// Message of the system.
    pub error: WriteError,
    /// Whose fault it is.
    pub cause: NicCause,
}

/// What has kept something from being set on a NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NicCause {
    /// Its driver: it cannot do it, or says why not.
    Driver,
    /// There was no answer in time. The driver may still be at it, under locks that the next request waits for.
    NoAnswer,
    /// Anything else: rights, an interface that is not there.
    Other,
}

/// What a file is besides its content: what is kept when it is replaced, and put back when it is restored.
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

/// What a tool left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// How it ended.
    pub end: ToolEnd,
    /// stdout and stderr together, as they came, the last 64 KiB.
    pub output: String,
}

/// How a tool ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolEnd {
    /// Exit status.
    Exited(i32),
    /// Killed by a signal.
    Signal(i32),
    /// Ran past its limit and was killed with everything it started.
    TimedOut,
    /// Could not be started.
    NotStarted(String),
}

impl fmt::Display for ToolEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ToolEnd::Exited(status) => write!(f, "exit status {status}"),
            ToolEnd::Signal(signal) => write!(f, "killed by signal {signal}"),
            ToolEnd::TimedOut => f.write_str("ran past its time limit and was killed"),
            ToolEnd::NotStarted(why) => write!(f, "could not be started: {why}"),
        }
    }
}

/// What a file must hold at the moment in which it is replaced or removed: another program's edit is never overwritten.
#[derive(Debug, Clone, Copy)]
pub enum Expected<'a> {
    /// Anything, for files that only bedplate writes.
    Anything,
    /// These bytes; `None`: there is no file.
    Content(Option<&'a [u8]>),
}

/// The write half of a host. Each method is one step that either happens whole or not at all.
pub trait Writer {
    /// Atomically make `path` hold `bytes` (temp file in the same directory, fsync, rename, fsync directory), keeping
    /// owner, mode and xattrs of what was there; `mode` is for a new file. Missing parent directories are made. Refused
    /// where `path` does not hold what is expected.
    fn replace_expected(
        &mut self,
        path: &str,
        bytes: &[u8],
        mode: u32,
        expected: Expected<'_>,
    ) -> Result<(), WriteError>;

    /// The same, whatever `path` holds.
    fn replace_file(&mut self, path: &str, bytes: &[u8], mode: u32) -> Result<(), WriteError> {
        self.replace_expected(path, bytes, mode, Expected::Anything)
    }

    /// Replaces like [`Writer::replace_expected`], but with owner, mode and xattrs as given instead of those of what is
    /// there: the way back.
    fn restore_expected(
        &mut self,
        path: &str,
        bytes: &[u8],
        meta: &FileMeta,
        expected: Expected<'_>,
    ) -> Result<(), WriteError>;

    /// The same, whatever `path` holds.
    fn restore_file(
        &mut self,
        path: &str,
        bytes: &[u8],
        meta: &FileMeta,
    ) -> Result<(), WriteError> {
        self.restore_expected(path, bytes, meta, Expected::Anything)
    }

    /// What a replacement would keep; `None` = nothing there. Refuses, before anything is written, what
    /// [`Writer::replace_file`] would refuse: a directory, a device, a dangling symbolic link.
    fn file_meta(&self, path: &str) -> Result<Option<FileMeta>, WriteError>;

    /// Remove a file (and make that durable). Not being there is success. Refused where it does not hold what is expected.
    fn remove_expected(&mut self, path: &str, expected: Expected<'_>) -> Result<(), WriteError>;

    /// The same, whatever `path` holds.
    fn remove_file(&mut self, path: &str) -> Result<(), WriteError> {
        self.remove_expected(path, Expected::Anything)
    }

    /// Make a directory with `mode`, and missing parents. Being there already is success and changes nothing.
    fn make_directory(&mut self, path: &str, mode: u32) -> Result<(), WriteError>;

    /// Remove a directory if it is empty; `false` = it is not, and stays. Not being there is success.
    fn remove_directory(&mut self, path: &str) -> Result<bool, WriteError>;

    /// Remove temporary files that killed runs left beside `path`; says how many there were.
    fn remove_stale_temporary_files(&mut self, path: &str) -> Result<usize, WriteError>;

    /// Put back what a replacement kept of `path`, where a power cut in its rename left nothing there (FAT); whether it did.
    fn restore_cut_short(&mut self, path: &str) -> Result<bool, WriteError>;

    /// Write a sysfs attribute in one write(2), bounded by `limit_s` seconds.
    fn write_attribute(&mut self, path: &str, value: &str, limit_s: u32) -> Result<(), WriteError>;

    /// Write a 16-bit register of config space in one write(2) of two bytes.
    fn write_config(
        &mut self,
        address: PciAddress,
        offset: u16,
        value: u16,
    ) -> Result<(), WriteError>;

    /// Set attributes of a VF through its PF's network interface, bounded by `limit_s` seconds each. One rate takes the
    /// other with it: both are given, or the one that is missing becomes 0.
    fn set_vf(
        &mut self,
        pf: PciAddress,
        interface: &str,
        vf: u16,
        attributes: &VfAttributes,
        limit_s: u32,
    ) -> Result<(), NicError>;

    /// Change the mode of a PF's eswitch, bounded by `limit_s` seconds.
    fn set_eswitch(
        &mut self,
        pf: PciAddress,
        mode: EswitchMode,
        limit_s: u32,
    ) -> Result<(), NicError>;

    /// Whether [`Writer::run_tool`] runs anything here: not in an image, unless that was asked for.
    fn runs_tools(&self) -> bool;

    /// Run a tool of the host, bounded in time; its whole process group is killed at the limit.
    fn run_tool(&mut self, argv: &[String], limit_s: u32) -> ToolOutput;
}

/// An answer that was kept. What is not there was not asked for: older snapshots have none.
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
    })?;
    serde_json::from_slice(&bytes)
        .map_err(|error| ReadError::Failed { path: named, reason: error.to_string() })
}
