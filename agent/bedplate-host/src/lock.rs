//! Ensures that one bedplate at a time changes a host, with a lock on a file inside the host.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt as _;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, major, minor};
use nix::unistd::geteuid;

use super::write::DirWriter;
use super::{STATE_DIRECTORY, WriteError, Writer as _, process, trust};
use bedplate_base::terminal::one_line;

/// The lock's file in [`STATE_DIRECTORY`].
pub const LOCK: &str = "/var/lib/bedplate/lock";
/// Limit for a displayed command line, in characters.
const COMMAND: usize = 200;

/// The lock of a host, held until it is dropped. If bedplate is killed, the tools that it started keep the lock.
#[derive(Debug)]
pub struct HostLock {
    file: File,
}

impl Drop for HostLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a background process of a tool has the descriptor too, and would keep the
        // lock. On an error, the lock ends with the last of these descriptors.
        let _ = self.file.unlock();
    }
}

/// A process that holds the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Process ID.
    pub pid: u32,
    /// Command line, if readable.
    pub command: Option<String>,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {}", self.pid)?;
        self.command.as_ref().map_or(Ok(()), |command| write!(f, ": {command}"))
    }
}

/// Reason why the lock was not acquired.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another bedplate holds it.
    #[error(
        "another bedplate process is running{}; wait for it to finish",
        .by.as_ref().map_or_else(String::new, |by| format!(" ({by})"))
    )]
    Held {
        /// The holder, if known.
        by: Option<Holder>,
    },
    /// A bedplate was killed, and a tool that it started still holds the lock.
    #[error(
        "a killed bedplate (process {killed}) left a tool running{}; wait for it to finish",
        .by.as_ref().map_or_else(String::new, |by| format!(" ({by})"))
    )]
    Orphaned {
        /// Process ID of the killed bedplate.
        killed: u32,
        /// The tool, if known.
        by: Option<Holder>,
    },
    /// The lock file cannot be created.
    #[error("cannot create the lock file")]
    Make(#[source] WriteError),
    /// Other users can write bedplate's state directory.
    #[error("unsafe owner or mode on the state directory")]
    Untrusted(#[source] WriteError),
    /// The lock file cannot be opened or locked.
    #[error("cannot lock {}: {reason}", LOCK)]
    Lock {
        /// The system's error text.
        reason: String,
    },
}

impl DirWriter {
    /// Acquires the host's lock.
    ///
    /// # Errors
    /// [`LockError`] names the holder if known.
    pub fn lock(&mut self) -> Result<HostLock, LockError> {
        self.make_directory(STATE_DIRECTORY, 0o700).map_err(LockError::Make)?;
        self.check_trust(STATE_DIRECTORY).map_err(LockError::Untrusted)?;
        let file = self.lock_file()?;
        // flock(2) through the standard library, because nix's guard takes ownership of the file.
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held_by(&file)),
            Err(TryLockError::Error(error)) => return Err(unusable(&error)),
        }
        // Tools inherit the lock: if bedplate is killed, the next one does not start an update-grub while the first
        // still runs.
        fcntl(&file, FcntlArg::F_SETFD(FdFlag::empty())).map_err(failed)?;
        Ok(HostLock { file })
    }

    fn lock_file(&self) -> Result<File, LockError> {
        let refused = |reason: String| LockError::Lock { reason };
        // Not with replace_file: two instances would each lock their own file. Never block: a pipe may have no writer.
        let flags = OFlag::O_RDONLY
            | OFlag::O_CREAT
            | OFlag::O_NOFOLLOW
            | OFlag::O_NONBLOCK
            | OFlag::O_NOCTTY;
        let regular =
            |stat: &FileStat| stat.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFREG.bits();
        let no_file = || refused("not a regular file; remove it".to_owned());
        match self.open_inside(LOCK, OFlag::O_PATH | OFlag::O_NOFOLLOW).and_then(|fd| fstat(&fd)) {
            Ok(stat) if regular(&stat) => {}
            Ok(_) => return Err(no_file()),
            Err(Errno::ENOENT) => {}
            Err(errno) => return Err(failed(errno)),
        }
        let private = Mode::from_bits_truncate(0o600);
        let file = File::from(self.create_inside(LOCK, flags, private).map_err(failed)?);
        let stat = fstat(&file).map_err(failed)?;
        if !regular(&stat) {
            return Err(no_file());
        }
        // A user who can open it can lock it and block every bedplate, so only its owner may open it.
        if stat.st_mode & 0o777 != 0o600 && stat.st_uid == geteuid().as_raw() {
            fchmod(&file, private).map_err(failed)?;
        }
        match trust::distrust(&fstat(&file).map_err(failed)?, &self.display_path(LOCK)) {
            Some(why) => Err(refused(why)),
            None => Ok(file),
        }
    }
}

fn unusable(error: &std::io::Error) -> LockError {
    LockError::Lock { reason: error.to_string() }
}

fn failed(errno: Errno) -> LockError {
    unusable(&errno.into())
}

/// Returns the error for a held lock. A lock outlives the process that acquired it if a tool has inherited it.
fn held_by(file: &File) -> LockError {
    let gone = |pid: u32| !std::path::Path::new(&format!("/proc/{pid}")).exists();
    match holder(file) {
        Some(killed) if gone(killed) => LockError::Orphaned { killed, by: other_holder(file) },
        pid => LockError::Held { by: pid.map(Holder::bedplate) },
    }
}

impl Holder {
    /// Describes a bedplate process, with its arguments: they contain no secrets.
    fn bedplate(pid: u32) -> Self {
        let command = process::describe(pid).map(|process| one_line(&process.command));
        let command = command.filter(|command| !command.is_empty());
        Holder { pid, command: command.map(|command| command.chars().take(COMMAND).collect()) }
    }
}

/// Finds another process that has `file` open. Reports only its name, because a tool's arguments may hold secrets. Only
/// root can read the descriptors of all processes.
fn other_holder(file: &File) -> Option<Holder> {
    let own = file.metadata().ok()?;
    std::fs::read_dir("/proc").ok()?.flatten().find_map(|process| {
        let pid: u32 = process.file_name().to_str()?.parse().ok()?;
        let opened = std::fs::read_dir(process.path().join("fd")).ok()?;
        let same = opened.flatten().any(|fd| {
            std::fs::metadata(fd.path())
                .is_ok_and(|meta| (meta.dev(), meta.ino()) == (own.dev(), own.ino()))
        });
        let command = || std::fs::read_to_string(process.path().join("comm")).ok();
        (same && pid != std::process::id())
            .then(|| Holder { pid, command: command().map(|name| one_line(name.trim_end())) })
    })
}

/// Returns the process that holds the lock on `file`, from `/proc/locks` (man proc_locks): `1: FLOCK ADVISORY WRITE PID
/// MAJ:MIN:INODE 0 EOF`.
fn holder(file: &File) -> Option<u32> {
    let stat = fstat(file).ok()?;
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let device = format!("{:02x}:{:02x}", major(stat.st_dev), minor(stat.st_dev));
    let named: Vec<(bool, u32)> = locks
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, "FLOCK", _, "WRITE", pid, place, ..] = words[..] else { return None };
            let (on, inode) = place.rsplit_once(':')?;
            (inode == stat.st_ino.to_string()).then_some((on == device, pid.parse().ok()?))
        })
        .filter(|(_, pid)| *pid != 0)
        .collect();
    // Btrfs shows a different device number there than in stat(2): accept another device only if the inode is unique.
    match (named.iter().find(|(same_device, _)| *same_device), &named[..]) {
        (Some((_, pid)), _) | (None, [(_, pid)]) => Some(*pid),
        _ => None,
    }
}
