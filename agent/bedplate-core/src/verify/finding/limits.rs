//! Limits of jobs.

use serde::Serialize;

use super::{DeviceKind, FEW, FindingText, in_profile, size, text};

/// A finding about the limits of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "LimitsCode"))]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum LimitsFinding {
    /// Services pass a limit of locked memory on to jobs.
    MemlockLimited {
        /// Services, without `.service`.
        services: Vec<&'static str>,
    },
    /// Container runtimes pass a limit of locked memory on to containers without CAP_IPC_LOCK.
    MemlockLimitedUnlessContainer {
        /// Services, without `.service`.
        services: Vec<&'static str>,
    },
    /// Running services have a limit of locked memory that their units no longer have.
    MemlockOfProcesses {
        /// Services, without `.service`.
        services: Vec<&'static str>,
    },
    /// Sessions have a limit of locked memory.
    SessionMemlockLimited,
    /// A device node is missing.
    NodeMissing {
        /// Path.
        path: String,
        /// Kind of the device.
        kind: DeviceKind,
    },
    /// Nothing is mounted on /dev/shm.
    ShmNotMounted,
    /// /dev/shm has less than 1 GiB.
    ShmSmall {
        /// Size in bytes.
        bytes: u64,
    },
    /// The kernel moves pages between NUMA nodes.
    NumaBalancingOn {
        /// `kernel.numa_balancing`.
        mode: u32,
    },
    /// nvidia-persistenced does not run.
    PersistencedDown,
}

impl LimitsFinding {
    pub(super) fn text(&self) -> FindingText {
        let text = match self {
            Self::MemlockLimited { services } => in_profile(
                "jobs of {} have a limit of locked memory",
                services.join(", "),
                NO_LIMIT,
                &restart(services),
            ),
            Self::MemlockLimitedUnlessContainer { services } => in_profile(
                "jobs of {} have a limit of locked memory, unless their containers have CAP_IPC_LOCK",
                services.join(", "),
                NO_LIMIT,
                &format!(
                    "{}; or give each container CAP_IPC_LOCK (docker: `--ulimit memlock=-1`)",
                    restart(services)
                ),
            ),
            Self::MemlockOfProcesses { services } => text(
                "{} started with a limit of locked memory, which its unit no longer has, and passes it on to jobs",
                services.join(", "),
                format!("drain this node and reboot it, or {}", reread(services)),
            ),
            Self::SessionMemlockLimited => in_profile(
                "sessions have a limit of locked memory; no service here starts jobs",
                "",
                NO_LIMIT,
                ", start a new session",
            ),
            Self::NodeMissing { path, kind } => {
                text("no device node {}", path, node_fix(path, *kind))
            }
            Self::ShmNotMounted => text(
                "nothing is mounted on /dev/shm",
                "",
                "run `mount -t tmpfs tmpfs /dev/shm`; systemd does so at boot",
            ),
            Self::ShmSmall { bytes } => in_profile(
                "/dev/shm has {}, less than 1 GiB",
                size(*bytes),
                "[limits] shm_size = \"50%\"",
                "; for a container, use `--shm-size=1g` or more",
            ),
            Self::NumaBalancingOn { .. } => in_profile(
                "the kernel balances memory between NUMA nodes",
                "",
                "[sysctl] set = { \"kernel.numa_balancing\" = 0 }",
                "",
            ),
            Self::PersistencedDown => text(
                "nvidia-persistenced does not run",
                "",
                "run `systemctl enable --now nvidia-persistenced`, unless another program keeps the GPUs open",
            ),
        };
        text.listed(FEW, "nodes")
    }
}

/// Returns the fix that creates a device node.
fn node_fix(path: &str, kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Nic => {
            "run `modprobe ib_uverbs`. Already loaded? Run `udevadm trigger -c add -s infiniband_verbs`"
        }
        _ if path == "/dev/kfd" => "check `dmesg | grep -i kfd` for why amdgpu creates none",
        _ => "run `nvidia-modprobe -c 0 -u`; nvidia-persistenced creates them at boot",
    }
}

/// Setting without a limit of locked memory.
const NO_LIMIT: &str = "[limits] memlock = \"unlimited\"";

/// Returns the last step of a fix: a service that runs keeps its limit.
fn restart(services: &[&str]) -> String {
    format!(", drain the node and reboot it (or {})", reread(services))
}

/// Returns the commands after which services have the limits of their units. The reload can take the GPUs from containers.
fn reread(services: &[&str]) -> String {
    format!(
        "run `systemctl daemon-reload && systemctl restart {}` while no job and no container with GPUs runs",
        services.join(" ")
    )
}
