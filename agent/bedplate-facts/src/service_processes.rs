//! Processes of services and their limits, by control groups and /proc, without contacting systemd. A process keeps the
//! limits that its service had when it started (systemd.exec(5), getrlimit(2)).

use std::collections::{BTreeMap, BTreeSet};

use bedplate_base::{OptionalRead as _, ReadError, ResourceLimit};
use bedplate_host::Reader;

use super::systemd_units;

/// Mounts of the control groups: version 2, and the named hierarchy of version 1.
const GROUPS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/systemd"];
/// Mounts of the controller that limits the number of tasks.
const TASK_GROUPS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/pids"];
/// Slice of services without `Slice=` (systemd.slice(5)).
const SYSTEM_SLICE: &str = "system.slice";

/// A running service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningService {
    /// Its processes that run as root, by process id. Those of users say nothing about the service.
    pub processes: Vec<ServiceProcess>,
    /// Limit of its tasks, if visible.
    pub tasks_max: Option<ResourceLimit>,
    /// Number of its tasks, if visible.
    pub tasks: Option<u64>,
}

/// A process of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceProcess {
    /// Process id.
    pub id: u32,
    /// Name of the program, at most 15 bytes.
    pub program: String,
    /// Soft limit of locked memory in bytes.
    pub memlock: ResourceLimit,
    /// Soft limit of the stack in bytes.
    pub stack: ResourceLimit,
}

/// Programs that start jobs, by the name of their process.
pub const STARTERS: [&str; 4] = ["slurmd", "containerd", "dockerd", "crio"];

impl RunningService {
    /// Returns the processes that start jobs.
    pub fn starters(&self) -> impl Iterator<Item = &ServiceProcess> {
        self.processes.iter().filter(|process| STARTERS.contains(&process.program.as_str()))
    }
}

/// Returns a service's processes; `None`: it does not run. Ended processes are left out.
///
/// # Errors
/// Control groups or limits cannot be read.
pub fn of_service(reader: &dyn Reader, name: &str) -> Result<Option<RunningService>, ReadError> {
    let slice = match systemd_units::service(reader, name)? {
        Some(unit) => systemd_units::of_service(reader, name, &unit, "Slice")?,
        None => None,
    };
    let slice = slice.map_or(SYSTEM_SLICE.to_owned(), |setting| setting.value);
    let group = format!("{}/{name}.service", slice_path(&slice));
    in_group(reader, group.trim_start_matches('/'))
}

/// Directories with the control groups of services in system.slice.
pub use super::process::SLICES;

/// Returns the services in system.slice with a process of one of these programs, by their names without `.service`.
///
/// # Errors
/// Control groups or limits cannot be read.
pub fn with_program(
    reader: &dyn Reader,
    programs: &[&str],
) -> Result<BTreeMap<String, RunningService>, ReadError> {
    let names = match reader.list(SLICES[0]) {
        Err(error) if error.is_absent() => reader.list(SLICES[1])?,
        names => names?,
    };
    let mut found = BTreeMap::new();
    for name in names.iter().filter_map(|name| name.strip_suffix(".service")) {
        let service = in_group(reader, &format!("{SYSTEM_SLICE}/{name}.service"))?;
        let has_program = |service: &RunningService| {
            service.processes.iter().any(|process| programs.contains(&process.program.as_str()))
        };
        found.extend(service.filter(has_program).map(|service| (name.to_owned(), service)));
    }
    Ok(found)
}

/// Returns the path of a slice below a mount of control groups: each `-` is a level (systemd.slice(5)).
fn slice_path(slice: &str) -> String {
    let name = slice.strip_suffix(".slice").unwrap_or(slice);
    let mut path = String::new();
    // The root slice is the mount itself.
    if name == "-" {
        return path;
    }
    for (at, _) in name.match_indices('-').filter(|(at, _)| *at > 0) {
        path += &format!("{}.slice/", &name[..at]);
    }
    path + slice
}

fn in_group(reader: &dyn Reader, group: &str) -> Result<Option<RunningService>, ReadError> {
    let mut ids = None;
    for mount in GROUPS {
        ids = process_ids(reader, &format!("{mount}/{group}"))?;
        if ids.is_some() {
            break;
        }
    }
    let Some(ids) = ids else {
        // Without any control group of services, nothing shows whether the service runs.
        return match reader.exists(SLICES[0])? || reader.exists(SLICES[1])? {
            true => Ok(None),
            false => Err(ReadError::NotFound { path: SLICES[0].to_owned() }),
        };
    };
    if ids.is_empty() {
        return Ok(None);
    }
    let mut processes = Vec::new();
    for id in ids {
        processes.extend(process(reader, id)?);
    }
    let read = |name: &str| {
        let mut paths = TASK_GROUPS.iter().map(|mount| format!("{mount}/{group}/{name}"));
        paths.find_map(|path| reader.attribute(&path).ok())
    };
    let tasks_max = read("pids.max").and_then(|text| match text.as_str() {
        "max" => Some(ResourceLimit::Unlimited),
        number => ResourceLimit::parse_number(number),
    });
    let tasks = read("pids.current").and_then(|text| text.parse().ok());
    Ok(Some(RunningService { processes, tasks_max, tasks }))
}

/// Returns the ids of the processes in a control group, or in those directly below it if it is empty itself: with version 2
/// only groups without groups below them have processes. `None` without the group.
fn process_ids(reader: &dyn Reader, group: &str) -> Result<Option<BTreeSet<u32>>, ReadError> {
    let Some(ids) = listed_ids(reader, group)? else { return Ok(None) };
    if !ids.is_empty() {
        return Ok(Some(ids));
    }
    let names = reader.list(group).optional()?.unwrap_or_default();
    let mut ids = BTreeSet::new();
    // Names of files of the kernel have a dot (Documentation/admin-guide/cgroup-v2.rst).
    for name in names.iter().filter(|name| !name.contains('.')) {
        ids.extend(listed_ids(reader, &format!("{group}/{name}"))?.unwrap_or_default());
    }
    Ok(Some(ids))
}

fn listed_ids(reader: &dyn Reader, group: &str) -> Result<Option<BTreeSet<u32>>, ReadError> {
    let path = format!("{group}/cgroup.procs");
    let Some(text) = reader.text(&path).optional()? else { return Ok(None) };
    // The kernel lists processes of other PID namespaces as 0 (kernel/cgroup/cgroup.c, cgroup_procs_show).
    let id = |line: &str| line.parse().ok().filter(|id| *id != 0);
    let ids: Option<BTreeSet<u32>> = text.lines().map(id).collect();
    ids.map(Some).ok_or_else(|| ReadError::Failed {
        path,
        reason: "lists a process of another PID namespace".to_owned(),
    })
}

/// Returns a process of root; `None`: it has ended, or belongs to another user: their programs may have any name, and are
/// not read.
fn process(reader: &dyn Reader, id: u32) -> Result<Option<ServiceProcess>, ReadError> {
    match process_of_root(reader, id) {
        Ok(process) => Ok(process),
        Err(error) => has_ended(reader, id, error).map(|()| None),
    }
}

fn process_of_root(reader: &dyn Reader, id: u32) -> Result<Option<ServiceProcess>, ReadError> {
    // The name of a program need not be UTF-8.
    let read = |name: &str| {
        let bytes = reader.read(&format!("/proc/{id}/{name}"))?;
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    };
    let status = read("status")?;
    let mut user = status.lines().filter_map(|line| line.strip_prefix("Uid:"));
    if user.next().and_then(|ids| ids.split_whitespace().next()) != Some("0") {
        return Ok(None);
    }
    let (program, limits) = (read("comm")?, read("limits")?);
    // The kernel shows no limits of a process that is about to be reaped.
    if limits.is_empty() {
        return Ok(None);
    }
    let limit = |name: &str| {
        let values = limits.lines().find_map(|line| line.strip_prefix(name));
        values.and_then(|values| ResourceLimit::parse_number(values.split_whitespace().next()?))
    };
    match (limit("Max locked memory "), limit("Max stack size ")) {
        (Some(memlock), Some(stack)) => Ok(Some(ServiceProcess { id, program, memlock, stack })),
        _ => Err(ReadError::Failed {
            path: format!("/proc/{id}/limits"),
            reason: "unexpected content".to_owned(),
        }),
    }
}

/// Fails with `error` unless the process has ended.
fn has_ended(reader: &dyn Reader, id: u32, error: ReadError) -> Result<(), ReadError> {
    // With hidepid=, processes of other users seem to have ended; so does process 1.
    match reader.exists(&format!("/proc/{id}/comm"))? || !reader.exists("/proc/1/comm")? {
        true => Err(error),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_testhosts::fixture::Files;

    #[test]
    fn slices_are_nested_by_name() {
        assert_eq!(slice_path("system.slice"), "system.slice");
        assert_eq!(slice_path("pod-runtime.slice"), "pod.slice/pod-runtime.slice");
        assert_eq!(slice_path("-.slice"), "");
        assert_eq!(slice_path("a-b-c.slice"), "a.slice/a-b.slice/a-b-c.slice");
    }

    #[test]
    fn processes_are_those_of_the_control_group() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max stack size            8388608              unlimited            bytes     \n\
                      Max locked memory         unlimited            unlimited            bytes     \n";
        let files = Files::new(&[
            ("/etc/systemd/system/slurmd.service", "[Service]\nSlice=jobs.slice\n"),
            ("/sys/fs/cgroup/jobs.slice/slurmd.service/cgroup.procs", "812\n813\n814\n"),
            ("/sys/fs/cgroup/jobs.slice/slurmd.service/pids.max", "max\n"),
            ("/sys/fs/cgroup/system.slice/cron.service/cgroup.procs", "9\n"),
            ("/proc/9/comm", "cron\n"),
            ("/proc/9/status", "Uid:\t0\t0\t0\t0\n"),
            ("/proc/9/limits", limits),
            ("/proc/1/comm", "systemd\n"),
            ("/proc/812/comm", "slurmd\n"),
            ("/proc/812/status", "Name:\tslurmd\nUid:\t0\t0\t0\t0\n"),
            ("/proc/814/comm", "slurmd\n"),
            ("/proc/814/status", "Name:\tslurmd\nUid:\t1000\t0\t0\t0\n"),
            ("/proc/814/limits", limits),
            ("/sys/fs/cgroup/jobs.slice/slurmd.service/pids.current", "3\n"),
            ("/sys/fs/cgroup/system.slice/crio.service/cgroup.procs", ""),
            ("/sys/fs/cgroup/system.slice/crio.service/init/cgroup.procs", "812\n"),
            ("/proc/812/limits", limits),
        ]);
        let found = of_service(&files, "slurmd").unwrap().unwrap();
        assert_eq!(found.tasks_max, Some(ResourceLimit::Unlimited));
        let process = ServiceProcess {
            id: 812,
            program: "slurmd".into(),
            memlock: ResourceLimit::Unlimited,
            stack: ResourceLimit::AtMost(8 << 20),
        };
        assert_eq!(found.processes, [process], "813 has ended, 814 is a user's");
        assert_eq!(found.tasks, Some(3));
        let below = of_service(&files, "crio").unwrap().unwrap();
        assert_eq!(below.processes, found.processes, "in a group below that of the service");
        assert_eq!(of_service(&files, "containerd"), Ok(None));
        let names = |files: &Files, program| {
            with_program(files, &[program]).map(|found| found.into_keys().collect::<Vec<_>>())
        };
        assert_eq!(names(&files, "cron"), Ok(vec!["cron".to_owned()]));
        assert_eq!(names(&files, "slurmd"), Ok(vec!["crio".to_owned()]));
        // Programs of users are not read; a process of root that cannot be read may be any program.
        let mut denied = files;
        denied.denied.insert("/proc/814/comm".into());
        denied.denied.insert("/proc/814/limits".into());
        assert_eq!(of_service(&denied, "slurmd").unwrap().unwrap().processes.len(), 1);
        denied.denied.insert("/proc/9/limits".into());
        assert!(names(&denied, "slurmd").is_err());
        let bare = Files::new(&[]);
        assert!(of_service(&bare, "slurmd").is_err(), "no control groups: unknown");
    }
}
