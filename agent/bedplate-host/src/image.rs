//! An image's root directory: opened once, and shared by all that read, write or run something in it. Who may rename the
//! directory could otherwise put another one in its place between two of them.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::NixPath;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{FileStat, Mode, fstat, stat};

use super::trust;

/// openat2 says EAGAIN when a rename or mount raced with a `..`; the race cannot last (man openat2).
const RACES: u64 = 128;

/// There while systemd runs (sd_booted(3)).
const BOOTED: &str = "/run/systemd/system";

/// Why an image root cannot be used at all.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct ImageError {
    what: String,
    source: Option<std::io::Error>,
}

impl ImageError {
    fn unopened(directory: &Path, errno: Errno) -> Self {
        let what = format!("cannot open the directory {}", directory.display());
        Self { what, source: Some(errno.into()) }
    }
}

/// The root directory of an image, open.
#[derive(Debug)]
pub struct ImageRoot {
    fd: OwnedFd,
    directory: PathBuf,
}

impl ImageRoot {
    /// Opens it.
    ///
    /// # Errors
    /// It cannot be opened, or there is no safe way to stay inside it.
    pub fn open(directory: &Path) -> Result<Arc<Self>, ImageError> {
        let failed = |errno| ImageError::unopened(directory, errno);
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let fd = openat(AT_FDCWD, directory, flags, Mode::empty()).map_err(failed)?;
        let root = ImageRoot { fd, directory: directory.to_owned() };
        match root.inside("/", flags, Mode::empty()).0 {
            // Container runtimes older than the call answer EPERM.
            Err(Errno::ENOSYS | Errno::EPERM) => {
                let what = format!(
                    "cannot stay inside the directory {}: this kernel or container runtime has no openat2; Linux 5.6 or newer \
                     is needed, and a seccomp profile that allows the call",
                    directory.display()
                );
                Err(ImageError { what, source: None })
            }
            Err(errno) => Err(failed(errno)),
            Ok(_) => Ok(Arc::new(root)),
        }
    }

    /// Opens one that is to be changed: it has to be the caller's or root's own.
    ///
    /// # Errors
    /// Those of [`ImageRoot::open`], and where others could change it while it is worked on.
    pub fn open_to_change(directory: &Path) -> Result<Arc<Self>, ImageError> {
        let root = Self::open(directory)?;
        let stat = root.stat().map_err(|errno| ImageError::unopened(directory, errno))?;
        let shown = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        match trust::distrust(&stat, &shown.display().to_string()) {
            Some(why) => {
                let what = format!("the directory {} is not trusted: {why}", directory.display());
                Err(ImageError { what, source: None })
            }
            None => Ok(root),
        }
    }

    /// What a path of the image is called on this machine, for messages.
    pub fn display_path(&self, path: &str) -> String {
        format!("{}{path}", self.directory.display().to_string().trim_end_matches('/'))
    }

    /// Whether it is the root directory of this machine: `/`, or a bind mount of it.
    pub fn is_running_machine(&self) -> bool {
        is_same(self.stat(), "/")
    }

    /// Whether a system runs in it.
    pub fn has_running_system(&self) -> bool {
        self.is_booted() || self.has_init(Path::new("/proc"))
    }

    /// Whether systemd's own sign of a running system is there (sd_booted(3)). This machine's `/run`, mounted in an image while it
    /// is built, does not count.
    fn is_booted(&self) -> bool {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let open = |path| self.inside(path, flags, Mode::empty()).0;
        open("/run").is_ok_and(|run| !is_same(fstat(&run), "/run")) && open(BOOTED).is_ok()
    }

    /// Whether it is the root directory of a container's first process. A container's `/run` is mounted for its processes only.
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

    /// Where a child can enter it, whatever has its name by now. It is resolved in the child, before the descriptor closes.
    pub(super) fn path_for_child(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))
    }

    /// openat2 with everything resolved inside; the second value is how many calls it took.
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

/// Whether a process, by its directory in /proc, is the first one of its PID namespace (`NSpid` in proc_pid_status(5)).
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
    fn root_of_this_machine_is_known_by_any_name() {
        let is_running =
            |path: &str| ImageRoot::open(Path::new(path)).unwrap().is_running_machine();
        assert!(is_running("/") && is_running("/usr/..") && is_running("/proc/self/root"));
        let image = tempfile::tempdir().unwrap();
        assert!(!is_running(image.path().to_str().unwrap()));
    }

    #[test]
    fn running_system_is_known_by_its_own_run() {
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
    fn container_is_known_by_its_first_process() {
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
