//! One bedplate at a time on one host: a lock on a file inside the host. It is the only thing here.

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
/// Characters of a command line that are shown.
const COMMAND: usize = 200;

/// The lock of a host, held until it is dropped. Only if bedplate is killed do the tools that it started keep it.
#[derive(Debug)]
pub struct HostLock {
    file: File,
}

impl Drop for HostLock {
    fn drop(&mut self) {
        // Not by closing it alone: what a tool has left in the background has the descriptor, too, and would keep the lock.
        // An error leaves it to the end of the last one that has it.
        let _ = self.file.unlock();
    }
}

/// A process that is in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its number.
    pub pid: u32,
    /// Its command line, where that can be read.
    pub command: Option<String>,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {}", self.pid)?;
        self.command.as_ref().map_or(Ok(()), |command| write!(f, ": {command}"))
    }
}

/// Why the lock was not had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another bedplate has it.
    #[error(
        "another bedplate is at work on this host{}: wait until it is done",
        .by.as_ref().map_or_else(String::new, |by| format!(" ({by})"))
    )]
    Held {
        /// Who, where the system says.
        by: Option<Holder>,
    },
    /// A bedplate was killed, and what it started has the lock still.
    #[error(
        "a bedplate that was killed (process {killed}) has left a tool at work on this host{}: wait until that has ended",
        .by.as_ref().map_or_else(String::new, |by| format!(" ({by})"))
    )]
    Orphaned {
        /// Who was killed.
        killed: u32,
        /// The tool, where the system says.
        by: Option<Holder>,
    },
    /// The lock file cannot be made.
    #[error("cannot make the lock file")]
    Make(#[source] WriteError),
    /// The directory of bedplate's state is not bedplate's alone.
    #[error("cannot trust what bedplate keeps on this host")]
    Untrusted(#[source] WriteError),
    /// The lock file cannot be opened or locked.
    #[error("cannot lock {}: {reason}", LOCK)]
    Lock {
        /// The system's words.
        reason: String,
    },
}

impl DirWriter {
    /// Take the host's lock, or say who has it.
    ///
    /// # Errors
    /// [`LockError`].
    pub fn lock(&mut self) -> Result<HostLock, LockError> {
        self.make_directory(STATE_DIRECTORY, 0o700).map_err(LockError::Make)?;
        self.check_trust(STATE_DIRECTORY).map_err(LockError::Untrusted)?;
        let file = self.lock_file()?;
        // flock(2), by the standard library: nix's guard keeps the file to itself.
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held_by(&file)),
            Err(TryLockError::Error(error)) => return Err(unusable(&error)),
        }
        // Tools inherit the lock: should bedplate be killed, the next one does not start an update-grub
        // beside the one that is still at work.
        fcntl(&file, FcntlArg::F_SETFD(FdFlag::empty())).map_err(failed)?;
        Ok(HostLock { file })
    }

    fn lock_file(&self) -> Result<File, LockError> {
        let refused = |reason: String| LockError::Lock { reason };
        // Not by replace_file: two instances would each lock a file of their own. Never waiting: a pipe has no writer.
        let flags = OFlag::O_RDONLY
            | OFlag::O_CREAT
            | OFlag::O_NOFOLLOW
            | OFlag::O_NONBLOCK
            | OFlag::O_NOCTTY;
        let regular =
            |stat: &FileStat| stat.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFREG.bits();
        let no_file = || refused("it is not a regular file: remove it".to_owned());
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
        // Who may open it may lock it, and keep every bedplate out: it is for its owner alone.
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

/// A lock outlives the process that took it where a tool has inherited it.
fn held_by(file: &File) -> LockError {
    let gone = |pid: u32| !std::path::Path::new(&format!("/proc/{pid}")).exists();
    match holder(file) {
        Some(killed) if gone(killed) => LockError::Orphaned { killed, by: other_holder(file) },
        pid => LockError::Held { by: pid.map(Holder::bedplate) },
    }
}

impl Holder {
    /// A bedplate, with its arguments: there are no secrets among them.
    fn bedplate(pid: u32) -> Self {
        let command = process::describe(pid).map(|process| one_line(&process.command));
        let command = command.filter(|command| !command.is_empty());
        Holder { pid, command: command.map(|command| command.chars().take(COMMAND).collect()) }
    }
}

/// A process that has `file` open, other than this one, by its name alone: arguments of tools may hold secrets. Only root sees
/// the descriptors of all.
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
