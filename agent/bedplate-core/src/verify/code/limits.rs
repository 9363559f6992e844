//! Limits that jobs run under.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use super::{CodeText, DeviceKind, size};

/// A finding about the limits of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum LimitsCode {
    /// Services hand a limit of locked memory on to jobs.
    MemlockLimited {
        /// Services, without `.service`.
        services: Vec<&'static str>,
    },
    /// Container runtimes hand a limit of locked memory on to containers without CAP_IPC_LOCK.
    MemlockLimitedUnlessContainer {
        /// Services, without `.service`.
        services: Vec<&'static str>,
    },
    /// Sessions have a limit of locked memory.
    SessionMemlockLimited,
    /// A device node is not there.
    NodeMissing {
        /// Path.
        path: String,
        /// Kind of its device.
        kind: DeviceKind,
    },
    /// Nothing is mounted on /dev/shm.
    ShmNotMounted,
    /// /dev/shm has less than 1 GiB.
    ShmSmall {
        /// Its size.
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

impl CodeText for LimitsCode {
    fn says(&self) -> Cow<'static, str> {
        let says = match self {
            LimitsCode::MemlockLimited { .. } => {
                "jobs of {} are limited in the memory that they lock"
            }
            LimitsCode::MemlockLimitedUnlessContainer { .. } => {
                "jobs of {} are limited in the memory that they lock, unless their containers have CAP_IPC_LOCK"
            }
            LimitsCode::SessionMemlockLimited => {
                "sessions are limited in the memory that they lock; no service here starts jobs"
            }
            LimitsCode::NodeMissing { .. } => "no device node {}",
            LimitsCode::ShmNotMounted => "nothing is mounted on /dev/shm",
            LimitsCode::ShmSmall { .. } => "/dev/shm has {}, less than 1 GiB",
            LimitsCode::NumaBalancingOn { .. } => "the kernel balances memory between NUMA nodes",
            LimitsCode::PersistencedDown => "nvidia-persistenced does not run",
        };
        says.into()
    }

    fn subject(&self) -> String {
        match self {
            LimitsCode::MemlockLimited { services }
            | LimitsCode::MemlockLimitedUnlessContainer { services } => services.join(", "),
            LimitsCode::NodeMissing { path, .. } => path.clone(),
            LimitsCode::ShmSmall { bytes } => size(*bytes),
            _ => String::new(),
        }
    }

    fn noun(&self) -> &'static str {
        "nodes"
    }

    fn remedy(&self) -> Cow<'static, str> {
        match self {
            LimitsCode::MemlockLimited { services } => unlimited(services).into(),
            LimitsCode::MemlockLimitedUnlessContainer { services } => format!(
                "{}; or give each container CAP_IPC_LOCK (docker: `--ulimit memlock=-1`)",
                unlimited(services)
            )
            .into(),
            LimitsCode::SessionMemlockLimited => {
                "`* - memlock unlimited` in a file of /etc/security/limits.d, and a new session".into()
            }
            LimitsCode::NodeMissing { kind: DeviceKind::Nic, .. } => {
                "`modprobe ib_uverbs`; where it is loaded, `udevadm trigger -c add -s infiniband_verbs`".into()
            }
            LimitsCode::NodeMissing { path, .. } if path == "/dev/kfd" => {
                "`dmesg | grep -i kfd`: it says why amdgpu makes none".into()
            }
            LimitsCode::NodeMissing { .. } => {
                "`nvidia-modprobe -c 0 -u` makes them; nvidia-persistenced does so at boot".into()
            }
            LimitsCode::ShmNotMounted => "`mount -t tmpfs tmpfs /dev/shm`; systemd does so at boot".into(),
            LimitsCode::ShmSmall { .. } => {
                "`mount -o remount,size=50% /dev/shm`, and the same in /etc/fstab; in a container `--shm-size=1g` or more".into()
            }
            LimitsCode::NumaBalancingOn { .. } => {
                "`set = { \"kernel.numa_balancing\" = 0 }` in [sysctl] of the profile, then `bedplate apply`".into()
            }
            LimitsCode::PersistencedDown => {
                "`systemctl enable --now nvidia-persistenced`; nothing, where another program holds the GPUs open".into()
            }
        }
    }
}

/// Lifts the limit of the first service.
fn unlimited(services: &[&str]) -> String {
    let first = services.first().copied().unwrap_or_default();
    format!(
        "`systemctl edit {first}`: `[Service]`, `LimitMEMLOCK=infinity`; then `systemctl restart {first}`"
    )
}
