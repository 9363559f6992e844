//! Limits that jobs run under.

use std::borrow::Cow;

use serde::Serialize;

use super::{DeviceKind, FindingText, size};

/// A finding about the limits of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "kebab-case")]
#[cfg_attr(feature = "schemars", schemars(rename = "LimitsCode"))]
pub enum LimitsFinding {
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

impl FindingText for LimitsFinding {
    fn description(&self) -> Cow<'static, str> {
        let says = match self {
            LimitsFinding::MemlockLimited { .. } => {
                "jobs of {} are limited in the memory that they lock"
            }
            LimitsFinding::MemlockLimitedUnlessContainer { .. } => {
                "jobs of {} are limited in the memory that they lock, unless their containers have CAP_IPC_LOCK"
            }
            LimitsFinding::SessionMemlockLimited => {
                "sessions are limited in the memory that they lock; no service here starts jobs"
            }
            LimitsFinding::NodeMissing { .. } => "no device node {}",
            LimitsFinding::ShmNotMounted => "nothing is mounted on /dev/shm",
            LimitsFinding::ShmSmall { .. } => "/dev/shm has {}, less than 1 GiB",
            LimitsFinding::NumaBalancingOn { .. } => {
                "the kernel balances memory between NUMA nodes"
            }
            LimitsFinding::PersistencedDown => "nvidia-persistenced does not run",
        };
        says.into()
    }

    fn subject(&self) -> String {
        match self {
            LimitsFinding::MemlockLimited { services }
            | LimitsFinding::MemlockLimitedUnlessContainer { services } => services.join(", "),
            LimitsFinding::NodeMissing { path, .. } => path.clone(),
            LimitsFinding::ShmSmall { bytes } => size(*bytes),
            _ => String::new(),
        }
    }

    fn noun(&self) -> &'static str {
        "nodes"
    }

    fn remedy(&self) -> Cow<'static, str> {
        match self {
            LimitsFinding::MemlockLimited { services } => unlimited(services).into(),
            LimitsFinding::MemlockLimitedUnlessContainer { services } => format!(
                "{}; or give each container CAP_IPC_LOCK (docker: `--ulimit memlock=-1`)",
                unlimited(services)
            )
            .into(),
            LimitsFinding::SessionMemlockLimited => {
                "`* - memlock unlimited` in a file of /etc/security/limits.d, and a new session".into()
            }
            LimitsFinding::NodeMissing { kind: DeviceKind::Nic, .. } => {
                "`modprobe ib_uverbs`; where it is loaded, `udevadm trigger -c add -s infiniband_verbs`".into()
            }
            LimitsFinding::NodeMissing { path, .. } if path == "/dev/kfd" => {
                "`dmesg | grep -i kfd`: it says why amdgpu makes none".into()
            }
            LimitsFinding::NodeMissing { .. } => {
                "`nvidia-modprobe -c 0 -u` makes them; nvidia-persistenced does so at boot".into()
            }
            LimitsFinding::ShmNotMounted => "`mount -t tmpfs tmpfs /dev/shm`; systemd does so at boot".into(),
            LimitsFinding::ShmSmall { .. } => {
                "`mount -o remount,size=50% /dev/shm`, and the same in /etc/fstab; in a container `--shm-size=1g` or more".into()
            }
            LimitsFinding::NumaBalancingOn { .. } => {
                "`set = { \"kernel.numa_balancing\" = 0 }` in [sysctl] of the profile, then `bedplate apply`".into()
            }
            LimitsFinding::PersistencedDown => {
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
