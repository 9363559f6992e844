//! Limits of jobs.

use serde::Serialize;

use super::{DeviceKind, FEW, FindingText, size, text};

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
            Self::MemlockLimited { services } => text(
                "jobs of {} are limited in the memory that they lock",
                services.join(", "),
                unlimited(services),
            ),
            Self::MemlockLimitedUnlessContainer { services } => text(
                "jobs of {} are limited in the memory that they lock, unless their containers have CAP_IPC_LOCK",
                services.join(", "),
                format!(
                    "{}; or give each container CAP_IPC_LOCK (docker: `--ulimit memlock=-1`)",
                    unlimited(services)
                ),
            ),
            Self::SessionMemlockLimited => text(
                "sessions are limited in the memory that they lock; no service here starts jobs",
                "",
                "`* - memlock unlimited` in a file of /etc/security/limits.d, and a new session",
            ),
            Self::NodeMissing { path, kind } => text(
                "no device node {}",
                path,
                match kind {
                    DeviceKind::Nic => {
                        "`modprobe ib_uverbs`; where it is loaded, `udevadm trigger -c add -s infiniband_verbs`"
                    }
                    _ if path == "/dev/kfd" => {
                        "`dmesg | grep -i kfd`: it says why amdgpu makes none"
                    }
                    _ => {
                        "`nvidia-modprobe -c 0 -u` makes them; nvidia-persistenced does so at boot"
                    }
                },
            ),
            Self::ShmNotMounted => text(
                "nothing is mounted on /dev/shm",
                "",
                "`mount -t tmpfs tmpfs /dev/shm`; systemd does so at boot",
            ),
            Self::ShmSmall { bytes } => text(
                "/dev/shm has {}, less than 1 GiB",
                size(*bytes),
                "`mount -o remount,size=50% /dev/shm`, and the same in /etc/fstab; in a container `--shm-size=1g` or more",
            ),
            Self::NumaBalancingOn { .. } => text(
                "the kernel balances memory between NUMA nodes",
                "",
                "`set = { \"kernel.numa_balancing\" = 0 }` in [sysctl] of the profile, then `bedplate apply`",
            ),
            Self::PersistencedDown => text(
                "nvidia-persistenced does not run",
                "",
                "`systemctl enable --now nvidia-persistenced`; nothing, where another program holds the GPUs open",
            ),
        };
        text.listed(FEW, "nodes")
    }
}

/// Returns the remedy that lifts the limit of the first service.
fn unlimited(services: &[&str]) -> String {
    let first = services.first().copied().unwrap_or_default();
    format!(
        "`systemctl edit {first}`: `[Service]`, `LimitMEMLOCK=infinity`; then `systemctl restart {first}`"
    )
}
