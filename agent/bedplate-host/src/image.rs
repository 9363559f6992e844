//! Root directory of an image, opened once and shared by all code that reads, writes or runs tools in it. Otherwise a
//! user who may rename the directory could replace it between two operations.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::NixPath;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{FileStat, Mode, fstat, stat};

use super::trust;

/// openat2 returns EAGAIN when a rename or mount raced with a `..`; the race cannot last (man openat2).
const RACES: u64 = 128;

/// Exists while systemd runs (sd_booted(3)).
const BOOTED: &str = "/run/systemd/system";

/// Reason why an image root cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct ImageError {
    what: String,
    source: Option<std::io::Error>,
}

impl ImageError {
    fn unopened(kind: &str, directory: &Path, errno: Errno) -> Self {
        let what = format!("cannot open {kind} {}", directory.display());
        Self { what, source: Some(errno.into()) }
    }

    pub(super) fn new(what: String) -> Self {
        Self { what, source: None }
    }
}

/// Name of the root of an image in messages.
const IMAGE: &str = "image root";

/// An open root directory of an image.
#[derive(Debug)]
pub struct ImageRoot {
    fd: OwnedFd,
    directory: PathBuf,
}

impl ImageRoot {
    /// Opens the root of an image.
    ///
    /// # Errors
    /// [`ImageError`] if it cannot be opened, or if the kernel cannot restrict path lookups to it.
    pub fn open(directory: &Path) -> Result<Arc<Self>, ImageError> {
        Self::open_kind(IMAGE, directory)
    }

    /// [`ImageRoot::open`] for a root directory that messages call `kind`.
    pub(super) fn open_kind(kind: &str, directory: &Path) -> Result<Arc<Self>, ImageError> {
        let failed = |errno| ImageError::unopened(kind, directory, errno);
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let fd = openat(AT_FDCWD, directory, flags, Mode::empty()).map_err(failed)?;
        let root = ImageRoot { fd, directory: directory.to_owned() };
        match root.inside("/", flags, Mode::empty()).0 {
            // Container runtimes older than the call return EPERM.
            Err(Errno::ENOSYS | Errno::EPERM) => Err(ImageError::new(format!(
                "cannot confine paths to {kind} {}: no openat2; needs Linux 5.6 or newer, and a seccomp \
                    profile that allows the call",
                directory.display()
            ))),
            Err(errno) => Err(failed(errno)),
            Ok(_) => Ok(Arc::new(root)),
        }
    }

    /// Opens a root for changes: it must belong to the caller or root.
    ///
    /// # Errors
    /// Errors of [`ImageRoot::open`], and a root that other users could change at the same time.
    pub fn open_to_change(directory: &Path) -> Result<Arc<Self>, ImageError> {
        let root = Self::open(directory)?;
        let stat = root.stat().map_err(|errno| ImageError::unopened(IMAGE, directory, errno))?;
        let shown = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        match trust::distrust(&stat, &shown.display().to_string()) {
            Some(why) => {
                let what = format!("image root {} is not trusted: {why}", directory.display());
                Err(ImageError::new(what))
            }
            None => Ok(root),
        }
    }

    /// Returns the path on this machine of a path in the image, for messages.
    pub fn display_path(&self, path: &str) -> String {
        format!("{}{path}", self.directory.display().to_string().trim_end_matches('/'))
    }

    /// Whether this is the root directory of the running machine: `/`, or a bind mount of it.
    pub fn is_running_machine(&self) -> bool {
        is_same(self.stat(), "/")
    }

    /// Whether a system runs in it.
    pub fn has_running_system(&self) -> bool {
        self.is_booted() || self.has_init(Path::new("/proc"))
    }

    /// Whether the marker of a system run by systemd exists (sd_booted(3)). Ignores this machine's `/run`, if it is
    /// mounted in the image during a build.
    fn is_booted(&self) -> bool {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let open = |path| self.inside(path, flags, Mode::empty()).0;
        open("/run").is_ok_and(|run| !is_same(fstat(&run), "/run")) && open(BOOTED).is_ok()
    }

    /// Whether it is the root directory of a container's first process. A container's `/run` is visible only to its
    /// processes.
    fn has_init(&self, processes: &Path) -> bool {
        let is_own = |process: &Path| {
            is_init(process) && is_same(self.stat(), process.join("root").as_path())
        };
        std::fs::read_dir(processes)
            .is_ok_and(|entries| entries.flatten().any(|entry| is_own(&entry.path())))
    }

    pub(super) fn stat(&self) -> Result<FileStat, Errno> {
        fstat(&self.fd)
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Returns the path for a child to enter the open directory under any name. The child resolves it before the descriptor
    /// closes.
    pub(super) fn path_for_child(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))
    }

    /// Calls openat2 with everything resolved inside; also returns the number of calls made.
    pub(super) fn inside(
        &self,
        path: &str,
        flags: OFlag,
        mode: Mode,
    ) -> (Result<OwnedFd, Errno>, u64) {
        let resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        let how = OpenHow::new().flags(flags).mode(mode).resolve(resolve);
        let mut calls = 0;
        loop {
            calls += 1;
            match openat2(&self.fd, path, how) {
                Err(Errno::EAGAIN) if calls < RACES => {}
                opened => return (opened, calls),
            }
        }
    }
}

/// Whether an open directory is the one at `path` on this machine.
fn is_same<P: NixPath + ?Sized>(opened: Result<FileStat, Errno>, path: &P) -> bool {
    let identity = |stat: FileStat| (stat.st_dev, stat.st_ino);
    opened.map(identity).is_ok_and(|opened| stat(path).map(identity) == Ok(opened))
}

/// Whether a process, given its directory in /proc, is the first of its PID namespace (`NSpid` in proc_pid_status(5)).
fn is_init(process: &Path) -> bool {
    let is_first = |pids: &str| pids.split_whitespace().last() == Some("1");
    std::fs::read_to_string(process.join("status")).is_ok_and(|status| {
        status.lines().filter_map(|line| line.strip_prefix("NSpid:")).any(is_first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_root_is_detected_under_any_name() {
        let is_running =
            |path: &str| ImageRoot::open(Path::new(path)).unwrap().is_running_machine();
        assert!(is_running("/") && is_running("/usr/..") && is_running("/proc/self/root"));
        let image = tempfile::tempdir().unwrap();
        assert!(!is_running(image.path().to_str().unwrap()));
    }

    #[test]
    fn running_system_is_detected_by_its_own_run_directory() {
        let image = tempfile::tempdir().unwrap();
        let root = ImageRoot::open(image.path()).unwrap();
        assert!(!root.has_running_system());
        std::fs::create_dir_all(image.path().join("etc/systemd/system")).unwrap();
        std::os::unix::fs::symlink("etc", image.path().join("run")).unwrap();
        assert!(!root.has_running_system(), "units of the image");
        std::fs::remove_file(image.path().join("run")).unwrap();
        std::fs::create_dir_all(image.path().join("run/systemd/system")).unwrap();
        assert!(root.has_running_system());
    }

    #[test]
    fn container_is_detected_by_its_first_process() {
        let (image, processes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = ImageRoot::open(image.path()).unwrap();
        let process = |pid: &str, status: &str, root: &Path| {
            let directory = processes.path().join(pid);
            std::fs::create_dir(&directory).unwrap();
            std::fs::write(directory.join("status"), status).unwrap();
            std::os::unix::fs::symlink(root, directory.join("root")).unwrap();
        };
        process("1", "Name:\tinit\nNSpid:\t1\n", Path::new("/"));
        process("21", "Name:\tapt\nNSpid:\t21\n", image.path());
        assert!(!root.has_init(processes.path()), "a tool in the image");
        process("32", "Name:\tsystemd\nNSpid:\t32\t1\n", image.path());
        assert!(root.has_init(processes.path()));
    }
}
