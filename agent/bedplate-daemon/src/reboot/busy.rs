//! Detection of work on this host: processes that hold GPUs or RDMA devices open, and the operator's own check (`command`).
//! Makes no decisions. An unknown state is reported as unknown, never as idle.

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

/// Daemons that hold the devices while they run, with or without work. Names as the kernel stores them, cut to 15 bytes
/// (`TASK_COMM_LEN` of `include/linux/sched.h`, less the final NUL; handbook §14.7).
///
/// A process can set its own name to any of these. It then hides only its own work.
pub(crate) const DAEMONS: [&str; 13] = [
    // nvidia-persistenced: keeping the devices open is its only purpose.
    "nvidia-persiste",
    // nv-fabricmanager: holds every NVSwitch and GPU from boot on HGX and DGX.
    "nv-fabricmanage",
    // DCGM's host engine, and the exporter that embeds one: they monitor through NVML.
    "nv-hostengine",
    "dcgm-exporter",
    // nvidia-device-plugin of Kubernetes: waits for NVML's health events. It stays when a node is drained.
    "nvidia-device-p",
    // nvidia-imex: joins the memory of several hosts over NVLink while they run (GB200, GB300 NVL72).
    "nvidia-imex",
    // kubelet, and the tools that discover and assign devices for it: MIG manager, feature discovery, the device plugins
    // of AMD, RDMA and SR-IOV.
    "kubelet",
    "nvidia-mig-mana",
    "gpu-feature-dis",
    "k8s-device-plug",
    "k8s-rdma-shared",
    "sriovdp",
    // rdma-core's address resolution: `acm_open_dev` of `ibacm/src/acm.c` opens each device permanently.
    "ibacm",
];

/// Name prefixes of further daemons: NVIDIA System Management of DGX (`nvsm_core`, `nvsm_api_gateway` …).
pub(crate) const FAMILIES: [&str; 1] = ["nvsm"];

/// Bytes of a process name that the kernel stores.
const KEPT: usize = 15;

/// A process that has a device open.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// The process id.
    pub pid: u32,
    /// The device's path in the view of the process.
    pub device: String,
    /// The process name, at most 15 bytes, without control characters.
    pub comm: String,
}

/// Users of the devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceUse {
    /// Open devices, sorted by process and device.
    pub holders: Vec<Holder>,
    /// Number of processes whose open files could not be read.
    pub unreadable: usize,
}

impl DeviceUse {
    /// Returns one line about the first holder, or about unreadable processes; `None` only if certainly no process
    /// uses a device. `who` returns the owner and start time of a process. The line is public, so it omits the
    /// arguments of the process.
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
            format!("processes that could not be checked for open devices: {}", self.unreadable)
        });
        first.or(blind)
    }

    fn processes(&self) -> usize {
        self.holders.iter().map(|holder| holder.pid).collect::<BTreeSet<_>>().len()
    }
}

/// Whether a process of this name holds devices permanently, with or without work. `idle`: names set by the operator.
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

/// Lists the processes that hold GPUs (`/dev/nvidia*`, `/dev/kfd`) or RDMA devices (`/dev/infiniband/uverbs*`) open, except
/// [`DAEMONS`], [`FAMILIES`], the operator's `idle` ones and this process. `proc_root` is the `/proc` of the outermost
/// process namespace; other namespaces do not show all processes.
///
/// Processes of other users are readable only with CAP_SYS_PTRACE (proc(5), `/proc/pid/fd`); without it they are `unreadable`.
///
/// # Errors
/// The reason in one sentence, if the processes cannot be listed.
pub fn holders(proc_root: &Path, idle: &[String]) -> Result<DeviceUse, String> {
    let list = |_| format!("cannot list the processes in {}", proc_root.display());
    let mut pids = BTreeSet::new();
    for entry in fs::read_dir(proc_root).map_err(list)? {
        let name = entry.map_err(list)?.file_name();
        // Only directories of processes have numeric names.
        pids.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    // Process 1 always exists: `/proc` is not mounted, or hides processes (`hidepid`).
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

/// Returns the devices among the open files, and whether all files were readable.
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

/// Whether the process or file disappeared during the read; then it uses no device any more.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ESRCH as i32)
}

/// Returns the device that a link of `/proc/PID/fd` leads to, if it is a GPU or RDMA device.
fn device(target: &str) -> Option<String> {
    // A removed node is still in use, for example that of a driver's container.
    let path = target.strip_suffix(" (deleted)").unwrap_or(target);
    let counts = path.starts_with("/dev/nvidia")
        || path == "/dev/kfd"
        || path.starts_with("/dev/infiniband/uverbs");
    counts.then(|| one_line(path))
}

#[cfg(test)]
mod tests;
