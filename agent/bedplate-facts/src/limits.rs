//! Limits and non-hardware requirements of jobs: locked memory, shared memory, device nodes, and two settings of the
//! kernel and the driver.

use std::collections::BTreeMap;

use super::pci::PciTree;
use super::service_processes::{self, RunningService, ServiceProcess};
use super::system::{MEMINFO, meminfo_bytes};
use super::systemd_units::{self, Setting};
use bedplate_base::OptionalRead as _;
use bedplate_base::{ReadError, Reading, ResourceLimit};
use bedplate_host::Reader;
pub use bedplate_host::SHM;

/// Services that start job processes. For pods that is the container runtime, not kubelet. Without a
/// containerd.service, dockerd runs its own containerd.
const LAUNCHERS: [&str; 8] =
    ["slurmd", "containerd", "crio", "docker", "k3s", "k3s-agent", "rke2-agent", "rke2-server"];
/// Session limits that pam_limits sets (limits.conf(5)).
const LIMITS: &str = "/etc/security/limits.conf";
const LIMITS_D: &str = "/etc/security/limits.d";
/// Huge pages in sysfs, one directory per size.
pub const HUGE_PAGES: &str = "/sys/kernel/mm/hugepages";
/// List of mounts.
pub const MOUNTS: &str = "/proc/mounts";
/// Socket that exists while nvidia-persistenced runs.
pub const PERSISTENCED: &str = "/run/nvidia-persistenced/socket";

/// Limits of jobs on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Services that start jobs on this host.
    pub launchers: Reading<Vec<Launcher>>,
    /// `DefaultLimitMEMLOCK` of systemd.
    pub default_memlock: Reading<Setting>,
    /// Soft limit on locked memory for sessions of all users.
    pub session_memlock: Reading<Setting>,
    /// /dev/shm; `Absent`: not mounted.
    pub shm: Reading<Shm>,
    /// kernel.numa_balancing.
    pub numa_balancing: Reading<u32>,
    /// Number of huge pages by size in bytes; `Absent`: not supported by this kernel.
    pub huge_pages: Reading<BTreeMap<u128, Reading<u64>>>,
    /// Size in bytes of the huge pages that the running kernel uses by default; `Absent`: not reported.
    pub default_huge_page: Reading<u128>,
    /// Whether nvidia-persistenced runs.
    pub persistenced: Reading<bool>,
    /// Device nodes that jobs open, and whether they exist.
    pub nodes: Vec<(String, Reading<bool>)>,
}

/// A service that starts jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launcher {
    /// Name without `.service`.
    pub name: &'static str,
    /// Path of its unit file.
    pub unit: String,
    /// `LimitMEMLOCK`; `Absent`: not set.
    pub memlock: Reading<Setting>,
    /// Its processes; `Absent`: it does not run.
    pub running: Reading<RunningService>,
}

impl Launcher {
    /// Returns the running process that starts jobs; of several the one with the smallest limit of locked memory. `None`: it
    /// does not run, or is not visible.
    pub fn starter(&self) -> Option<&ServiceProcess> {
        self.running.known()?.starters().min_by_key(|process| process.memlock)
    }
}

/// A mount of shared memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shm {
    /// File system type: `tmpfs`.
    pub kind: String,
    /// Size in bytes; `None`: the kernel's default, half of memory (Documentation/filesystems/tmpfs.rst).
    pub size: Option<u64>,
}

/// Reads the limits. `tree` selects the device nodes.
pub fn read(reader: &dyn Reader, tree: Option<&PciTree>) -> Limits {
    let shm = match Reading::from_result(reader.text(MOUNTS)) {
        Reading::Absent => Reading::unknown(format!("{MOUNTS} is missing")),
        mounts => mounts.and_then(|text| Reading::from_option(mounted(&text))),
    };
    Limits {
        launchers: Reading::from_result(launchers(reader)),
        default_memlock: setting(systemd_units::of_manager(reader, "DefaultLimitMEMLOCK")),
        session_memlock: setting(session_memlock(reader)),
        shm,
        numa_balancing: super::scan::number(reader, "/proc/sys/kernel/numa_balancing"),
        huge_pages: Reading::from_result(huge_pages(reader)),
        default_huge_page: Reading::from_result(reader.text(MEMINFO))
            .and_then(|text| Reading::from_option(meminfo_bytes(&text, "Hugepagesize")))
            .map(u128::from),
        persistenced: Reading::from_result(reader.exists(PERSISTENCED)),
        nodes: tree.map(|tree| nodes(reader, tree)).unwrap_or_default(),
    }
}

fn huge_pages(reader: &dyn Reader) -> Result<BTreeMap<u128, Reading<u64>>, ReadError> {
    let names = reader.list(HUGE_PAGES)?;
    let kib = |name: &str| -> Option<u128> {
        name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok().map(u128::from)
    };
    let sizes = names.iter().filter_map(|name| {
        let path = format!("{HUGE_PAGES}/{name}/nr_hugepages");
        Some((kib(name)? << 10, super::scan::number(reader, &path)))
    });
    Ok(sizes.collect())
}

fn setting(found: Result<Option<Setting>, ReadError>) -> Reading<Setting> {
    Reading::from_result(found).and_then(Reading::from_option)
}

fn launchers(reader: &dyn Reader) -> Result<Vec<Launcher>, ReadError> {
    let mut found = Vec::new();
    for name in LAUNCHERS {
        let Some(unit) = systemd_units::service(reader, name)? else { continue };
        let memlock = setting(systemd_units::of_service(reader, name, &unit, "LimitMEMLOCK"));
        let running = Reading::from_result(service_processes::of_service(reader, name))
            .and_then(Reading::from_option);
        found.push(Launcher { name, unit, memlock, running });
    }
    if found.iter().any(|launcher| launcher.name == "containerd") {
        found.retain(|launcher| launcher.name != "docker");
    }
    Ok(found)
}

fn session_memlock(reader: &dyn Reader) -> Result<Option<Setting>, ReadError> {
    session_limit(reader, "memlock")
}

/// Returns the soft limit that pam_limits(8) sets for all users: limits.conf, then limits.d by name. The last line wins, and
/// a hard limit also lowers the soft one.
///
/// # Errors
/// A file or directory cannot be read.
pub fn session_limit(reader: &dyn Reader, item: &str) -> Result<Option<Setting>, ReadError> {
    let names = reader.list(LIMITS_D).optional()?.unwrap_or_default();
    let files = names.iter().filter(|name| name.ends_with(".conf"));
    let files = files.map(|name| format!("{LIMITS_D}/{name}"));
    let (mut soft, mut hard) = (None, None);
    for path in [LIMITS.to_owned()].into_iter().chain(files) {
        let Some(bytes) = reader.read(&path).optional()? else { continue };
        for line in String::from_utf8_lossy(&bytes).lines() {
            let Some((kind, value)) = limit_of_everybody(line, item) else { continue };
            let found = Some(Setting { value: value.to_owned(), path: path.clone() });
            if kind != "hard" {
                soft.clone_from(&found);
            }
            if kind != "soft" {
                hard = found;
            }
        }
    }
    let amount = |setting: &Option<Setting>| {
        setting.as_ref().and_then(|setting| ResourceLimit::parse_kib(&setting.value))
    };
    let is_lower =
        amount(&hard).is_some_and(|hard| hard < amount(&soft).unwrap_or(ResourceLimit::Unlimited));
    Ok(if is_lower { hard } else { soft })
}

/// Parses `* soft memlock unlimited` into `soft` and `unlimited`; `-` sets both limits.
pub fn limit_of_everybody<'a>(line: &'a str, item: &str) -> Option<(&'a str, &'a str)> {
    let mut words = line.split('#').next()?.split_whitespace();
    let (who, kind, what) = (words.next()?, words.next()?, words.next()?);
    let value = words.next()?;
    (who == "*" && matches!(kind, "soft" | "hard" | "-") && what == item).then_some((kind, value))
}

/// Size of [`SHM`], as the kernel shows it: `67108864k`. Without a size of its own it is half of memory, rounded down to
/// pages of 64 KiB (mm/shmem.c, shmem_default_max_blocks).
///
/// # Errors
/// The mounts or the size of memory cannot be read; no tmpfs is mounted there.
pub fn shm_size(reader: &dyn Reader) -> Result<String, ReadError> {
    let failed = |path: &str, reason: &str| ReadError::Failed {
        path: path.to_owned(),
        reason: reason.to_owned(),
    };
    let bytes = match mounted(&reader.text(MOUNTS)?) {
        Some(Shm { kind, size: Some(bytes) }) if kind == "tmpfs" => bytes,
        Some(Shm { kind, size: None }) if kind == "tmpfs" => {
            let memory = meminfo_bytes(&reader.text(MEMINFO)?, "MemTotal");
            share_of_memory(memory.ok_or_else(|| failed(MEMINFO, "no MemTotal in kB"))?, 50)
        }
        Some(_) => return Err(failed(SHM, "no tmpfs")),
        None => return Err(ReadError::NotFound { path: SHM.to_owned() }),
    };
    Ok(format!("{}k", bytes >> 10))
}

/// Largest page in bytes: tmpfs rounds sizes up to whole pages.
pub const PAGE: u64 = 64 << 10;

/// Returns a percentage of memory in bytes, rounded down to [`PAGE`].
pub fn share_of_memory(bytes: u64, percent: u8) -> u64 {
    let share = u128::from(bytes) * u128::from(percent) / 100;
    u64::try_from(share).unwrap_or(bytes) / PAGE * PAGE
}

/// Returns the mount on /dev/shm. Of several mounts only the last is visible.
fn mounted(text: &str) -> Option<Shm> {
    let fields = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        let (at, kind) = (fields.next()?, fields.next()?.to_owned());
        let size = fields.next()?.split(',').find_map(|option| option.strip_prefix("size="));
        (at == SHM).then(|| Shm { kind, size: size.and_then(bytes) })
    };
    text.lines().filter_map(fields).next_back()
}

/// Parses `67108864k`, the format of mm/shmem.c.
fn bytes(size: &str) -> Option<u64> {
    match size.strip_suffix('k') {
        Some(kib) => kib.parse::<u64>().ok()?.checked_mul(1024),
        None => size.parse().ok(),
    }
}

/// Returns the device nodes that jobs open, and whether they exist. The driver numbers its GPUs from 0. A function's verbs
/// devices are in its sysfs directory.
fn nodes(reader: &dyn Reader, tree: &PciTree) -> Vec<(String, Reading<bool>)> {
    let of = |driver: &str| {
        let gpus = tree.functions.values().filter(|gpu| gpu.is_gpu() && !gpu.is_vf());
        gpus.filter(|gpu| gpu.driver.as_deref() == Some(driver)).count()
    };
    let mut paths = Vec::new();
    let nvidia = of("nvidia");
    if nvidia > 0 {
        paths.extend(["/dev/nvidiactl", "/dev/nvidia-uvm"].map(str::to_owned));
        paths.extend((0..nvidia).map(|number| format!("/dev/nvidia{number}")));
    }
    if of("amdgpu") > 0 {
        paths.push("/dev/kfd".to_owned());
    }
    let there = |path: String| (path.clone(), Reading::from_result(reader.exists(&path)));
    let mut nodes: Vec<(String, Reading<bool>)> = paths.into_iter().map(there).collect();
    let rdma = tree.functions.values().filter(|function| !function.infiniband.is_empty());
    for function in rdma.filter(|function| !function.is_vf()) {
        let of_any = || format!("/dev/infiniband/uverbs* of {}", function.infiniband.join(", "));
        match Reading::from_result(reader.list(&function.attribute("infiniband_verbs"))) {
            Reading::Known(names) if !names.is_empty() => {
                nodes.extend(names.iter().map(|name| there(format!("/dev/infiniband/{name}"))));
            }
            // Without ib_uverbs there are no verbs devices.
            Reading::Known(_) | Reading::Absent => nodes.push((of_any(), Reading::Known(false))),
            Reading::Unknown(why) => nodes.push((of_any(), Reading::Unknown(why))),
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_mount_wins_and_size_is_in_kib() {
        let text = "tmpfs /dev/shm tmpfs rw,nosuid 0 0\nshm /dev/shm tmpfs rw,size=65536k,inode64 0 0\n\
                    tmpfs /run tmpfs rw,size=1k 0 0\n";
        assert_eq!(mounted(text), Some(Shm { kind: "tmpfs".into(), size: Some(64 << 20) }));
        assert_eq!(mounted("tmpfs /run tmpfs rw 0 0\n"), None);
        let default = mounted("tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\n").unwrap();
        assert_eq!(default.size, None);
    }

    #[test]
    fn limits_of_single_users_are_ignored() {
        let memlock = |line| limit_of_everybody(line, "memlock");
        assert_eq!(memlock("*  -  memlock unlimited # RDMA"), Some(("-", "unlimited")));
        assert_eq!(memlock("* soft memlock 65536"), Some(("soft", "65536")));
        assert_eq!(limit_of_everybody("* hard stack 8192", "stack"), Some(("hard", "8192")));
        for line in ["# * soft memlock 1", "@hpc - memlock unlimited", "* soft nofile 1", ""] {
            assert_eq!(memlock(line), None, "{line}");
        }
    }
}
