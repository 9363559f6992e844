//! Namespaces of a container that reads the host through a mount, compared with those of the host's process 1.

use std::collections::BTreeSet;

use nix::fcntl::{OFlag, readlinkat};
use nix::sys::stat::fstat;

use super::below_mount::{open, text};
use super::is_below;
use crate::image::ImageRoot;

/// A namespace that decides what a path shows (namespaces(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Namespace {
    Net,
    Pid,
    Ipc,
    Uts,
    User,
}

use Namespace::{Ipc, Net, Pid, User, Uts};

/// Paths that show the namespace of the process that opens them, even through the host's procfs. `kernel.pid_max`
/// belongs to the PID namespace since Linux 6.14. Version 1 of the control groups omits processes of other PID
/// namespaces from its lists.
const SHOWN: [(&str, Namespace); 21] = [
    ("/proc/sys/net", Net),
    ("/proc/sys/kernel/ns_last_pid", Pid),
    ("/proc/sys/kernel/pid_max", Pid),
    ("/sys/fs/cgroup/systemd", Pid),
    ("/proc/sys/fs/mqueue", Ipc),
    ("/proc/sys/kernel/auto_msgmni", Ipc),
    ("/proc/sys/kernel/msg_next_id", Ipc),
    ("/proc/sys/kernel/msgmax", Ipc),
    ("/proc/sys/kernel/msgmnb", Ipc),
    ("/proc/sys/kernel/msgmni", Ipc),
    ("/proc/sys/kernel/sem", Ipc),
    ("/proc/sys/kernel/sem_next_id", Ipc),
    ("/proc/sys/kernel/shm_next_id", Ipc),
    ("/proc/sys/kernel/shm_rmid_forced", Ipc),
    ("/proc/sys/kernel/shmall", Ipc),
    ("/proc/sys/kernel/shmmax", Ipc),
    ("/proc/sys/kernel/shmmni", Ipc),
    ("/proc/sysvipc", Ipc),
    ("/proc/sys/kernel/domainname", Uts),
    ("/proc/sys/kernel/hostname", Uts),
    ("/proc/sys/user", User),
];

impl Namespace {
    /// Returns the cause of a hidden value, and the remedy.
    pub(super) fn remedy(self) -> &'static str {
        match self {
            Net => {
                "the container has a network namespace of its own; run it in the host's (Kubernetes: `hostNetwork: \
                 true`; Docker and Podman: `--network host`)"
            }
            Pid => {
                "the container has a PID namespace of its own; run it in the host's (Kubernetes: `hostPID: true`; Docker \
                 and Podman: `--pid host`)"
            }
            Ipc => {
                "not known to be in the host's IPC namespace; run the container in it (Kubernetes: `hostIPC: true`; \
                 Docker and Podman: `--ipc host`), with CAP_SYS_PTRACE to compare"
            }
            Uts => {
                "not known to be in the host's UTS namespace; run the container in it (Kubernetes: `hostNetwork: true`; \
                 Docker and Podman: `--uts host`), with CAP_SYS_PTRACE to compare"
            }
            User => {
                "not known to be in the host's user namespace; run the container in it, with CAP_SYS_PTRACE to compare"
            }
        }
    }

    /// Returns the values that are unknown in another namespace.
    pub(super) fn unknown(self) -> &'static str {
        match self {
            Net => {
                "attributes of VFs, eswitch modes, flow control, default routes and sysctls in net are unknown"
            }
            Pid => "kernel.pid_max and the processes of services are unknown",
            Ipc | Uts | User => "some sysctls are unknown",
        }
    }
}

/// Namespaces that are known to be the host's.
pub(super) struct Namespaces(BTreeSet<Namespace>);

impl Namespaces {
    /// Compares the reading process with process 1 of the mount's procfs.
    pub(super) fn compare(root: &ImageRoot) -> Self {
        let is_hosts = |namespace: &Namespace| match namespace {
            Net => is_same_network(root),
            Pid => is_same_pid(root),
            Ipc => is_same_link(root, "ipc"),
            Uts => is_same_link(root, "uts"),
            User => is_same_link(root, "user"),
        };
        Namespaces([Net, Pid, Ipc, Uts, User].into_iter().filter(is_hosts).collect())
    }

    #[cfg(test)]
    pub(super) fn of_host(namespaces: &[Namespace]) -> Self {
        Namespaces(namespaces.iter().copied().collect())
    }

    /// Whether the namespace is known to be the host's.
    pub(super) fn is_hosts(&self, namespace: Namespace) -> bool {
        self.0.contains(&namespace)
    }

    /// Returns the namespace because of which `path` does not show the host's value.
    pub(super) fn hiding(&self, path: &str) -> Option<Namespace> {
        let shown = SHOWN.iter().find(|(prefix, _)| is_below(path, prefix));
        shown.map(|(_, namespace)| *namespace).filter(|namespace| !self.is_hosts(*namespace))
    }
}

/// Compares the inode number of one file in both processes' `net`: each network namespace has a procfs tree of its own,
/// and the kernel numbers all of its entries from one pool (fs/proc/generic.c, `proc_alloc_inum`). Requires no
/// privilege, unlike the links in /proc/1/ns.
fn is_same_network(root: &ImageRoot) -> bool {
    let inode = |process: &str| {
        let fd = open(root, &format!("/proc/{process}/net/dev"), OFlag::O_PATH).ok()?;
        Some(fstat(&fd).ok()?.st_ino)
    };
    let own = inode("self");
    own.is_some() && own == inode("1")
}

/// Whether the reading process has a number only in the PID namespace of the mount's procfs, and in none below it
/// (`NSpid` in proc_pid_status(5)).
fn is_same_pid(root: &ImageRoot) -> bool {
    let status = text(root, "/proc/self/status").unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.is_some_and(|numbers| numbers.split_whitespace().count() == 1)
}

/// Compares the links in /proc/PID/ns. Those of process 1 require CAP_SYS_PTRACE.
fn is_same_link(root: &ImageRoot, name: &str) -> bool {
    let link =
        |process: &str| readlinkat(root.fd(), format!("proc/{process}/ns/{name}").as_str()).ok();
    let own = link("self");
    own.is_some() && own == link("1")
}
