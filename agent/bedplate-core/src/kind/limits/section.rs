//! `[limits]`: resource limits of jobs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

use super::target::LimitTarget;
use crate::section::{Parsed, section};
use bedplate_base::value::NotAValue;
use bedplate_base::{ResourceLimit, memory_size};

section! {
    /// `[limits]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    "limits" Limits, LimitsFile {
        /// Memory that each process of a job may lock: `unlimited`, or a size (`64G`). RDMA and CUDA lock the memory
        /// that they register. Processes that run already keep their limit. Unset: unchanged.
        #[schemars(
            example = &"unlimited",
            extend("x-source" = "systemd.exec(5), limits.conf(5); drivers/infiniband/core/umem.c; handbook §5.6")
        )]
        memlock: ResourceLimit as Parsed<ResourceLimit>;

        /// Stack of each process of a job: `unlimited`, or a size (`64M`). With `unlimited`, new threads get stacks of
        /// 2 MiB, and on arm64 the kernel maps memory bottom-up. Unset: unchanged.
        #[schemars(
            example = &"unlimited",
            extend("x-source" = "systemd.exec(5), limits.conf(5); pthread_create(3); Linux mm/util.c; handbook §5.6")
        )]
        stack: ResourceLimit as Parsed<ResourceLimit>;

        /// Number of processes and threads in the control group of each service in `apply_to`: `unlimited`, or a number. It
        /// does not apply to `sessions`. Pods, and Slurm's steps with cgroup v2, have groups and limits of their own.
        /// Unset: unchanged.
        #[schemars(
            example = &"unlimited",
            extend("x-source" = "systemd.resource-control(5); handbook §5.6")
        )]
        tasks_max: TasksMax;

        /// Targets of `memlock`, `stack` and `tasks_max`: services that start jobs, and `sessions` (logins of all users but
        /// root, by SSH and on consoles). A pod has the limits of the container runtime, not those of kubelet. Services that
        /// are not installed are left out. A later file replaces the whole list.
        #[schemars(
            example = vec!["slurmd", "sessions"],
            extend("x-source" = "handbook §5.6")
        )]
        apply_to: Vec<LimitTarget> = LimitTarget::ALL.to_vec();

        /// Size of /dev/shm: `64G`, or a percentage of memory, at most `90%`. Set in the running system, at
        /// every boot. A container has its own /dev/shm. Unset: unchanged; the kernel's default is half of memory.
        #[schemars(
            example = &"64G",
            extend("x-source" = "Linux Documentation/filesystems/tmpfs.rst; handbook §5.6")
        )]
        shm_size: ShmSize as Parsed<ShmSize>;
    }
}

impl Limits {
    /// Whether the profile sets a limit of services or sessions.
    pub fn limits_jobs(&self) -> bool {
        self.memlock.is_some() || self.stack.is_some() || self.tasks_max.is_some()
    }
}

/// The word `unlimited`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum UnlimitedWord {
    /// No limit.
    Unlimited,
}

/// Number of tasks of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum TasksMax {
    /// No limit.
    Unlimited(UnlimitedWord),
    /// At most this number.
    AtMost(#[cfg_attr(feature = "schemars", schemars(range(min = 1000)))] u32),
}

impl From<TasksMax> for ResourceLimit {
    fn from(tasks: TasksMax) -> Self {
        match tasks {
            TasksMax::Unlimited(_) => ResourceLimit::Unlimited,
            TasksMax::AtMost(number) => ResourceLimit::AtMost(number.into()),
        }
    }
}

/// Size of /dev/shm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShmSize {
    /// Bytes.
    Bytes(u64),
    /// Percentage of memory.
    Percent(u8),
}

/// Largest percentage of memory: files in /dev/shm that fill all memory stop the host.
pub(super) const MOST_PERCENT: u8 = 90;
/// Smallest size in bytes: the minimum of NVIDIA's framework containers (`--shm-size=1g`).
pub(super) const LEAST: u64 = 1 << 30;

impl FromStr for ShmSize {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        let percent =
            |text: &str| text.parse().ok().filter(|share| (1..=MOST_PERCENT).contains(share));
        let bytes = || memory_size::parse(text).and_then(|bytes| u64::try_from(bytes).ok());
        let size = match text.strip_suffix('%') {
            Some(share) => percent(share).map(ShmSize::Percent),
            None => bytes().filter(|bytes| *bytes >= LEAST).map(ShmSize::Bytes),
        };
        size.ok_or_else(|| NotAValue {
            text: text.to_owned(),
            expected: "a size in G or T from `1G`, or a percentage of memory from `1%` to `90%`",
        })
    }
}

impl fmt::Display for ShmSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShmSize::Bytes(bytes) => f.write_str(&memory_size::format((*bytes).into())),
            ShmSize::Percent(share) => write!(f, "{share}%"),
        }
    }
}

impl Serialize for ShmSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
