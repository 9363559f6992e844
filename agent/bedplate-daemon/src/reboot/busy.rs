//! Who is at work on this host: processes that hold GPUs or RDMA devices open, and the operator's own answer (`command`).
//! Looks, and decides nothing. What is not known is said to be so, never "nobody".

mod command;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use nix::errno::Errno;

use bedplate_base::format_utc;
use bedplate_base::terminal::one_line;
use bedplate_host::process::ProcessOwner;

pub(crate) use command::busy_command;

/// Daemons that hold the devices as long as they run, work or no work: by the name that the kernel keeps, cut to 15
/// bytes (`TASK_COMM_LEN` of `include/linux/sched.h`, less the final NUL; handbook §14.7).
///
/// A process can call itself any of these. It then hides its own work only.
pub(crate) const DAEMONS: [&str; 13] = [
    // nvidia-persistenced: to keep the devices open is all that it is for.
    "nvidia-persiste",
    // nv-fabricmanager: holds every NVSwitch and GPU from boot on HGX and DGX.
    "nv-fabricmanage",
    // DCGM's host engine, and the exporter that has one inside itself: they watch through NVML.
    "nv-hostengine",
    "dcgm-exporter",
    // nvidia-device-plugin of Kubernetes: waits for NVML's health events. It stays when a node is drained.
    "nvidia-device-p",
    // nvidia-imex: joins the memory of several hosts over NVLink, for as long as they run (GB200, GB300 NVL72).
    "nvidia-imex",
    // kubelet, and what finds and hands out devices on its behalf: MIG manager, feature discovery, AMD's device plugin,
    // those of RDMA and SR-IOV.
    "kubelet",
    "nvidia-mig-mana",
    "gpu-feature-dis",
    "k8s-device-plug",
    "k8s-rdma-shared",
    "sriovdp",
    // rdma-core's address resolution: `acm_open_dev` of `ibacm/src/acm.c` opens each device for good.
    "ibacm",
];

/// The same for families of daemons: NVIDIA System Management of DGX (`nvsm_core`, `nvsm_api_gateway` …).
pub(crate) const FAMILIES: [&str; 1] = ["nvsm"];

/// Bytes of a name that the kernel keeps.
const KEPT: usize = 15;

/// One process that has one device open.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// The process.
    pub pid: u32,
    /// The device's path, as the process sees it.
    pub device: String,
    /// The process's name, at most 15 bytes; fit to be shown.
    pub comm: String,
}

/// What can be said about who uses the devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceUse {
    /// Who holds what, by process and device.
    pub holders: Vec<Holder>,
    /// Processes that could not be looked into.
    pub unreadable: usize,
}

impl DeviceUse {
    /// Why the host is not to be disturbed, in one line; none when nobody is at work for certain. `who` says whose a
    /// process is and since when it runs; everybody reads the line, so its arguments are not in it.
    pub fn reason(&self, who: impl FnOnce(u32) -> Option<ProcessOwner>) -> Option<String> {
        let first = self.holders.first().map(|holder| {
            let more = match self.processes() {
                1 => String::new(),
                all => format!("; other processes with open devices: {}", all - 1),
            };
            let who = who(holder.pid).map(|who| {
                let since = who.started.map(|at| format!(", since {}", format_utc(at)));
                format!(", user {}{}", one_line(&who.user), since.unwrap_or_default())
            });
            let (comm, pid, who) = (&holder.comm, holder.pid, who.unwrap_or_default());
            format!("{comm} (pid {pid}{who}) uses {}{more}", holder.device)
        });
        let blind = (self.unreadable > 0).then(|| {
            format!("{} processes could not be checked for open devices", self.unreadable)
        });
        first.or(blind)
    }

    fn processes(&self) -> usize {
        self.holders.iter().map(|holder| holder.pid).collect::<BTreeSet<_>>().len()
    }
}

/// Whether a process of this name holds devices for good, work or no work. `idle`: those that the operator has named.
fn is_idle_process(comm: &str, idle: &[String]) -> bool {
    let kept = |name: &String| {
        // The kernel has cut the process's own name as well.
        let cut =
            name.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= KEPT);
        name[..cut.last().unwrap_or(0)] == *comm
    };
    DAEMONS.contains(&comm)
        || FAMILIES.iter().any(|family| comm.starts_with(family))
        || idle.iter().any(kept)
}

/// Who holds GPUs (`/dev/nvidia*`, `/dev/kfd`) or RDMA devices (`/dev/infiniband/uverbs*`) open, but for [`DAEMONS`],
/// [`FAMILIES`], the operator's `idle` ones and this process. `proc_root` is `/proc`, of the outermost process namespace:
/// others do not show everybody.
///
/// Other users' processes open only to CAP_SYS_PTRACE (proc(5), `/proc/pid/fd`); without it they are `unreadable`.
///
/// # Errors
/// Why nothing can be said about who uses the devices, in one sentence.
pub fn holders(proc_root: &Path, idle: &[String]) -> Result<DeviceUse, String> {
    let list = |_| format!("the processes in {} cannot be listed", proc_root.display());
    let mut pids = BTreeSet::new();
    for entry in fs::read_dir(proc_root).map_err(list)? {
        let name = entry.map_err(list)?.file_name();
        // Only processes have numbers for names.
        pids.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    // It is always there: `/proc` is not mounted, or hides processes (`hidepid`).
    if !pids.contains(&1) {
        let root = proc_root.display();
        return Err(format!("{root} does not show all processes: process 1 is missing"));
    }
    pids.remove(&std::process::id());
    let mut in_use = DeviceUse { holders: Vec::new(), unreadable: 0 };
    for pid in pids {
        let process = proc_root.join(pid.to_string());
        let comm = match fs::read(process.join("comm")) {
            Ok(comm) => one_line(String::from_utf8_lossy(&comm).trim_end_matches('\n')),
            Err(error) if is_gone(&error) => continue,
            Err(_) => "?".into(),
        };
        if is_idle_process(&comm, idle) {
            continue;
        }
        let (devices, readable) = devices(&process.join("fd"));
        in_use.unreadable += usize::from(!readable);
        in_use.holders.extend(devices.into_iter().map(|device| Holder {
            pid,
            device,
            comm: comm.clone(),
        }));
    }
    Ok(in_use)
}

/// The devices among the open files, and whether all of the files could be seen.
fn devices(fds: &Path) -> (BTreeSet<String>, bool) {
    let mut devices = BTreeSet::new();
    let mut readable = true;
    let entries = match fs::read_dir(fds) {
        Ok(entries) => entries,
        Err(error) => return (devices, is_gone(&error)),
    };
    for entry in entries {
        match entry.and_then(|entry| fs::read_link(entry.path())) {
            Ok(target) => devices.extend(device(&target.to_string_lossy())),
            Err(error) => readable &= is_gone(&error),
        }
    }
    (devices, readable)
}

/// The process, or the file, went away while we looked: it uses nothing any more.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ESRCH as i32)
}

/// The device that a link of `/proc/PID/fd` leads to, if it is one that work is done on.
fn device(target: &str) -> Option<String> {
    // A node that is removed, as a driver's container does with its own, is in use all the same.
    let path = target.strip_suffix(" (deleted)").unwrap_or(target);
    let counts = path.starts_with("/dev/nvidia")
        || path == "/dev/kfd"
        || path.starts_with("/dev/infiniband/uverbs");
    counts.then(|| one_line(path))
}

#[cfg(test)]
mod tests;
