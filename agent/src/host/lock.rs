//! One bedplate at a time on one host: a lock on a file inside the host. It is the only thing here.

use std::fs::{File, TryLockError};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::stat::{Mode, fstat, major, minor};

use super::write::DirWriter;
use super::{WriteError, Writer as _};

/// Where bedplate keeps what it remembers of a host.
pub const DIRECTORY: &str = "/var/lib/bedplate";
/// The lock's file in it.
const LOCK: &str = "/var/lib/bedplate/lock";

/// The lock of a host, held until it is dropped and every tool started meanwhile has ended.
#[derive(Debug)]
pub struct HostLock {
    _file: File,
}

/// Why the lock was not had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another bedplate has it.
    #[error(
        "another bedplate is at work on this host{}: wait until it is done",
        .pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
    )]
    Held {
        /// Who, where the system tells.
        pid: Option<u32>,
    },
    /// A bedplate was killed, and what it started has the lock still.
    #[error(
        "a bedplate that was killed (process {pid}) has left a tool at work on this host: wait until that has ended"
    )]
    Orphaned {
        /// Who was killed.
        pid: u32,
    },
    /// The lock file cannot be made.
    #[error("cannot make the lock file")]
    Make(#[source] WriteError),
    /// The lock file cannot be opened or locked.
    #[error("cannot lock {}: {reason}", LOCK)]
    Lock {
        /// The system's words.
        reason: String,
    },
}

impl DirWriter {
    /// Take the host's lock, or say who has it. A lock file that is there is opened and nothing of it is changed.
    pub fn lock(&mut self) -> Result<HostLock, LockError> {
        let unusable = |error: std::io::Error| LockError::Lock { reason: error.to_string() };
        let failed = |errno: Errno| unusable(errno.into());
        self.make_directory(DIRECTORY, 0o700).map_err(LockError::Make)?;
        // Not by replace_file: two instances would each lock a file of their own.
        let flags = OFlag::O_RDONLY | OFlag::O_CREAT | OFlag::O_NOFOLLOW;
        let file =
            self.create_inside(LOCK, flags, Mode::from_bits_truncate(0o600)).map_err(failed)?;
        let file = File::from(file);
        // flock(2), by the standard library: nix's guard would unlock for the tools that inherit the lock, too.
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held_by(holder(&file))),
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        // Tools inherit the lock: should bedplate be killed, the next one does not start an update-grub
        // beside the one that is still at work.
        fcntl(&file, FcntlArg::F_SETFD(FdFlag::empty())).map_err(failed)?;
        Ok(HostLock { _file: file })
    }
}

/// A lock outlives the process that took it where a tool has inherited it.
fn held_by(pid: Option<u32>) -> LockError {
    let gone = |pid: &u32| !std::path::Path::new(&format!("/proc/{pid}")).exists();
    match pid {
        Some(pid) if gone(&pid) => LockError::Orphaned { pid },
        pid => LockError::Held { pid },
    }
}

/// Who has the lock on `file`, as `/proc/locks` tells (man proc_locks): `1: FLOCK ADVISORY WRITE PID MAJ:MIN:INODE 0 EOF`.
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
    // Btrfs shows another device number there than to stat(2): then only an inode that is alone will do.
    match (named.iter().find(|(same_device, _)| *same_device), &named[..]) {
        (Some((_, pid)), _) | (None, [(_, pid)]) => Some(*pid),
        _ => None,
    }
}
