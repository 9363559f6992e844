//! Limits of jobs: locked memory, shared memory, device nodes, and settings of the kernel and the driver that slow them.

use super::super::unread::{OrUnread as _, unread};
use super::super::{
    Check, CheckInput, DeviceKind, Evidence, Group, Judgement, LimitsFinding, Outcome, Severity,
    Verdict,
};
use super::size;
use bedplate_base::{Reading, ResourceLimit, counted};
use bedplate_facts::limits::{Launcher, MOUNTS, PERSISTENCED, SHM};
use bedplate_facts::systemd_units::Setting;

/// Minimum that NVIDIA's framework containers request (`--shm-size=1g`).
const ENOUGH_SHM: u64 = 1 << 30;
/// Services that start containers; a container gets CAP_IPC_LOCK if its pod requests it.
const OF_CONTAINERS: [&str; 7] =
    ["containerd", "crio", "docker", "k3s", "k3s-agent", "rke2-agent", "rke2-server"];

pub(crate) const MEMLOCK: Check = Check {
    id: "limits.memlock",
    group: Group::Limits,
    verifies: "jobs may lock as much memory as RDMA registers",
    severity: Severity::Fail,
    needs_root: false,
    what: "LimitMEMLOCK is infinity for services that start jobs: slurmd, and the container runtime (containerd, crio, \
           docker, k3s, rke2); a pod has the runtime's limits, not kubelet's. A limit fails for slurmd, and is a warning for \
           a runtime: a container with CAP_IPC_LOCK has no limit. If neither is installed, sessions are checked: limits.conf \
           and limits.d for all users (`*`). Slurm passes on the limits of the submitting shell unless slurm.conf has \
           `PropagateResourceLimitsExcept=MEMLOCK`; this is not checked. A service that runs keeps the limit with which it \
           started, whatever its unit says now.",
    why: "Registering memory locks it. With systemd's default of 8 MiB, ibv_reg_mr fails with `Cannot allocate memory`, and \
          NCCL with it.",
    source: "handbook §5.6; systemd.exec(5), limits.conf(5); Linux drivers/infiniband/core/umem.c ib_umem_get",
    how: "unit files and drop-ins below /etc, /run, /usr/local/lib and /usr/lib; system.conf (DefaultLimitMEMLOCK); \
          /etc/security; /proc/PID/limits of processes that run",
    judge: memlock,
};

pub(crate) const DEVICE_NODES: Check = Check {
    id: "limits.device-nodes",
    group: Group::Limits,
    verifies: "the device nodes that jobs open exist",
    severity: Severity::Fail,
    needs_root: false,
    what: "/dev/infiniband/uverbsN of every RDMA device; /dev/nvidiactl, /dev/nvidia-uvm and a /dev/nvidiaN for each GPU of \
           the driver; /dev/kfd for amdgpu. A missing verbs node, /dev/kfd, /dev/nvidiactl, or all GPU nodes missing, fails. \
           A single missing GPU node, or /dev/nvidia-uvm, is a warning: CUDA creates it when a host program first uses the \
           GPU, and a container that starts earlier has none.",
    why: "Containers get the nodes that exist when they start. Without uverbs no program can use RDMA, whatever sysfs shows.",
    source: "handbook §5.3, §6.2",
    how: "infiniband_verbs/ of each NIC in /sys/bus/pci/devices; /dev",
    judge: device_nodes,
};

pub(crate) const SHARED_MEMORY: Check = Check {
    id: "limits.shm",
    group: Group::Limits,
    verifies: "/dev/shm has space for NCCL and data loaders",
    severity: Severity::Warn,
    needs_root: false,
    what: "A tmpfs of at least 1 GiB is mounted on /dev/shm: on the host, or in the container in which this runs. The \
           kernel's default is half of memory.",
    why: "NCCL passes data between the processes of a node through it, and stops when it is full. Containers get 64 MiB \
          unless configured otherwise (`--shm-size`, an emptyDir of medium Memory, `--ipc=host`): run this check inside one.",
    source: "handbook §8.5; Linux Documentation/filesystems/tmpfs.rst",
    how: "/proc/mounts",
    judge: shm,
};

pub(crate) const NUMA_BALANCING: Check = Check {
    id: "limits.numa-balancing",
    group: Group::Limits,
    verifies: "the kernel does not move pages between NUMA nodes under running jobs",
    severity: Severity::Warn,
    needs_root: false,
    what: "kernel.numa_balancing is 0. A host with one NUMA node has nothing to balance.",
    why: "The kernel unmaps pages to see who uses them, and moves them: jobs pinned to their node pay for this without \
          benefit. RCCL warns about it.",
    source: "handbook §14.6; Linux Documentation/admin-guide/sysctl/kernel.rst",
    how: "/proc/sys/kernel/numa_balancing; /sys/devices/system/node/online",
    judge: numa_balancing,
};

pub(crate) const PERSISTENCE: Check = Check {
    id: "limits.persistence",
    group: Group::Limits,
    verifies: "NVIDIA GPUs stay initialised between jobs",
    severity: Severity::Warn,
    needs_root: false,
    what: "nvidia-persistenced runs. `nvidia-smi -pm 1`, and programs that keep the GPUs open (dcgm, fabric managers), have \
           the same effect but are not visible here.",
    why: "Unless a program keeps them open, the driver shuts GPUs down after each job: the next one starts seconds later, \
          and driver settings such as clocks and MIG modes are lost.",
    source: "handbook §6.3, §14.7",
    how: "/run/nvidia-persistenced/socket",
    judge: persistence,
};

fn is_unlimited(setting: &Setting) -> bool {
    // `soft:hard` in systemd's files.
    let soft = setting.value.split(':').next().unwrap_or_default();
    ["infinity", "unlimited", "-1"].contains(&soft)
}

fn memlock(input: &CheckInput<'_>) -> Judgement {
    input.expect_carriers()?;
    let limits = &input.observed.limits;
    let Some(launchers) = limits.launchers.or_unread("the services that start jobs")? else {
        return Ok(Outcome::unknown("no unit files found"));
    };
    if launchers.is_empty() {
        return of_sessions(input);
    }
    let (mut short, mut outdated, mut seen) = (Vec::new(), Vec::new(), Vec::new());
    let mut unseen = None;
    for launcher in launchers {
        let counts = match &launcher.memlock {
            Reading::Absent => &limits.default_memlock,
            own => own,
        };
        let setting = counts.or_unread(format_args!("LimitMEMLOCK of {}", launcher.name))?;
        let (value, at) = match setting {
            Some(setting) => (setting.value.as_str(), &setting.path),
            None => ("systemd's default, 8 MiB", &launcher.unit),
        };
        seen.push(Evidence { value: format!("{}: {value}", launcher.name), source: at.clone() });
        if !setting.is_some_and(is_unlimited) {
            short.push(launcher);
            continue;
        }
        let Some(starter) = launcher.starter() else {
            if let Reading::Unknown(why) = &launcher.running {
                unseen = Some(why);
            }
            continue;
        };
        if let limit @ ResourceLimit::AtMost(_) = starter.memlock {
            let value = format!("{} runs with {limit}", launcher.name);
            seen.push(Evidence::new(value, format!("/proc/{}/limits", starter.id)));
            outdated.push(launcher);
        }
    }
    if let Some(why) = unseen.filter(|_| short.is_empty() && outdated.is_empty()) {
        return Ok(unread("limits of running services", why));
    }
    Ok(of_launchers(launchers, &short, &outdated).all_evidence(seen))
}

/// Returns the result for services whose units limit jobs (`short`), or that run with a limit (`outdated`).
fn of_launchers(launchers: &[Launcher], short: &[&Launcher], outdated: &[&Launcher]) -> Outcome {
    let names = |launchers: &[&Launcher]| -> Vec<&'static str> {
        launchers.iter().map(|launcher| launcher.name).collect()
    };
    if short.is_empty() && outdated.is_empty() {
        let all: Vec<&Launcher> = launchers.iter().collect();
        return Outcome::pass(format!("no limit for jobs of {}", names(&all).join(", ")));
    }
    let only_containers = |launchers: &[&Launcher]| {
        launchers.iter().all(|launcher| OF_CONTAINERS.contains(&launcher.name))
    };
    let services = names(short);
    let mut findings = Vec::new();
    if !short.is_empty() {
        findings.push(match only_containers(short) {
            true => LimitsFinding::MemlockLimitedUnlessContainer { services },
            false => LimitsFinding::MemlockLimited { services },
        });
    }
    if !outdated.is_empty() {
        findings.push(LimitsFinding::MemlockOfProcesses { services: names(outdated) });
    }
    let verdict = match only_containers(short) && only_containers(outdated) {
        true => Verdict::Warn,
        false => Verdict::Fail,
    };
    Outcome::with_findings(verdict, findings)
}

/// Checks user sessions: without a service that starts jobs, users start them.
fn of_sessions(input: &CheckInput<'_>) -> Judgement {
    let setting = input.observed.limits.session_memlock.or_unread("the limits of sessions")?;
    let outcome = match setting.is_some_and(is_unlimited) {
        true => Outcome::pass("no limit for sessions; no service here starts jobs"),
        false => Outcome::warn([LimitsFinding::SessionMemlockLimited]),
    };
    Ok(match setting {
        Some(setting) => outcome.evidence(format!("memlock {}", setting.value), &setting.path),
        None => outcome
            .evidence("no memlock line for all users (`*`)", "/etc/security/limits.conf, limits.d"),
    })
}

fn device_nodes(input: &CheckInput<'_>) -> Judgement {
    input.expect_carriers()?;
    let nodes = &input.observed.limits.nodes;
    if nodes.is_empty() {
        return Ok(Outcome::not_applicable("no driver with device nodes"));
    }
    let missing: Vec<&String> = nodes
        .iter()
        .filter(|(_, there)| there.known() == Some(&false))
        .map(|(path, _)| path)
        .collect();
    let (verbs, others): (Vec<&String>, Vec<&String>) =
        missing.iter().partition(|path| path.starts_with("/dev/infiniband/"));
    let codes = |paths: &[&String], kind| -> Vec<LimitsFinding> {
        let code = |path: &&String| LimitsFinding::NodeMissing { path: (*path).clone(), kind };
        paths.iter().map(code).collect()
    };
    let of_gpus = codes(&others, DeviceKind::Gpu);
    let seen = |path: &&String| Evidence::new("not there", *path);
    if !verbs.is_empty() {
        return Ok(Outcome::fail(codes(&verbs, DeviceKind::Nic))
            .also(of_gpus)
            .all_evidence(verbs.iter().map(seen)));
    }
    for (path, there) in nodes {
        there.or_unread(format_args!("whether {path} exists"))?;
    }
    if !others.is_empty() {
        let is_gpu = |path: &&String| path.strip_prefix("/dev/nvidia").is_some_and(is_number);
        let all_gpus = nodes.iter().map(|(path, _)| path).filter(is_gpu).count();
        let no_gpu = all_gpus > 0 && others.iter().copied().filter(is_gpu).count() == all_gpus;
        let is_needed = |path: &&String| matches!(path.as_str(), "/dev/kfd" | "/dev/nvidiactl");
        let verdict = match no_gpu || others.iter().any(is_needed) {
            true => Verdict::Fail,
            false => Verdict::Warn,
        };
        return Ok(Outcome::with_findings(verdict, of_gpus).all_evidence(others.iter().map(seen)));
    }
    Ok(Outcome::pass(format!("{}, all present", counted(nodes.len(), "device node"))))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit())
}

fn shm(input: &CheckInput<'_>) -> Judgement {
    input.expect_carriers()?;
    Ok(match &input.observed.limits.shm {
        Reading::Unknown(why) => unread("the mount on /dev/shm", why),
        Reading::Absent => Outcome::warn([LimitsFinding::ShmNotMounted])
            .evidence(format!("no line with {SHM}"), MOUNTS),
        Reading::Known(shm) => match shm.size {
            None => Outcome::pass(format!("{}, half of memory", shm.kind))
                .evidence("no size set: the kernel's default", MOUNTS),
            Some(bytes) if bytes < ENOUGH_SHM => Outcome::warn([LimitsFinding::ShmSmall { bytes }])
                .evidence(format!("{}, {}", shm.kind, size(bytes)), MOUNTS),
            Some(bytes) => Outcome::pass(format!("{}, {}", shm.kind, size(bytes)))
                .evidence(format!("size={}k", bytes >> 10), MOUNTS),
        },
    })
}

fn numa_balancing(input: &CheckInput<'_>) -> Judgement {
    input.some_gpus()?;
    if input.facts.cpu.nodes.known().is_some_and(|nodes| !nodes.contains(['-', ','])) {
        return Ok(Outcome::not_applicable("one NUMA node"));
    }
    let path = "/proc/sys/kernel/numa_balancing";
    Ok(match &input.observed.limits.numa_balancing {
        Reading::Known(0) => Outcome::pass("off").evidence("0", path),
        Reading::Absent => Outcome::pass("not built into this kernel").evidence("not there", path),
        Reading::Known(mode) => Outcome::warn([LimitsFinding::NumaBalancingOn { mode: *mode }])
            .evidence(mode.to_string(), path),
        Reading::Unknown(why) => unread("kernel.numa_balancing", why),
    })
}

fn persistence(input: &CheckInput<'_>) -> Judgement {
    let gpus = input.some_gpus()?;
    if !gpus.iter().any(|gpu| gpu.driver.as_deref() == Some("nvidia")) {
        return Ok(Outcome::not_applicable("no GPU bound to NVIDIA's driver"));
    }
    let runs = &input.observed.limits.persistenced;
    Ok(match runs.or_unread("whether nvidia-persistenced runs")? {
        Some(true) => Outcome::pass("nvidia-persistenced runs").evidence("there", PERSISTENCED),
        _ => Outcome::warn([LimitsFinding::PersistencedDown]).evidence("not there", PERSISTENCED),
    })
}
