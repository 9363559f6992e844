//! Whether another project's daemon runs, judged by files: its unit's control group, its pid file and the process name,
//! on the host or in a driver container. Readable without root.

use bedplate_base::{Reading, Reason};
use bedplate_host::Reader;

/// Root directory of a driver container (NVIDIA GPU Operator). The container shares the host's process ids.
const DRIVER_CONTAINER: &str = "/run/nvidia/driver";
/// Directories of units' control groups: cgroup v2, and v1's named hierarchy.
pub const SLICES: [&str; 2] =
    ["/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice"];
/// Length of the process name in the kernel, in bytes (TASK_COMM_LEN, without its NUL).
const COMM: usize = 15;

/// Files and names that identify a daemon.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Daemon {
    /// Unit name without `.service`.
    pub unit: &'static str,
    /// Path of the pid file.
    pub pid_file: &'static str,
    /// Name of the program.
    pub program: &'static str,
    /// Whether it is its unit's main program, so that any process of the unit proves that it runs.
    pub is_main: bool,
}

impl Daemon {
    /// Whether the daemon runs.
    pub(crate) fn runs(&self, reader: &dyn Reader) -> Reading<bool> {
        let mut ids = Vec::new();
        let mut unknown: Option<Reason> = None;
        for slice in SLICES {
            let group = format!("{slice}/{}.service/cgroup.procs", self.unit);
            match Reading::from_result(reader.text(&group)) {
                Reading::Known(text) if self.is_main && !text.trim().is_empty() => {
                    return Reading::Known(true);
                }
                Reading::Known(text) => {
                    ids.extend(text.lines().map(|line| (group.clone(), line.to_owned())));
                }
                Reading::Unknown(why) => unknown = unknown.or(Some(why)),
                Reading::Absent => {}
            }
        }
        for file in [self.pid_file.to_owned(), format!("{DRIVER_CONTAINER}{}", self.pid_file)] {
            match Reading::from_result(reader.attribute(&file)) {
                Reading::Known(text) => ids.push((file, text)),
                Reading::Unknown(why) => unknown = unknown.or(Some(why)),
                Reading::Absent => {}
            }
        }
        for (file, id) in ids {
            match self.is_process(reader, &file, &id) {
                Reading::Known(true) => return Reading::Known(true),
                Reading::Unknown(why) => unknown = unknown.or(Some(why)),
                Reading::Known(false) | Reading::Absent => {}
            }
        }
        if let Some(why) = unknown {
            return Reading::Unknown(why);
        }
        let is_there = |path: &str| reader.exists(path).is_ok_and(|there| there);
        if is_there(DRIVER_CONTAINER) {
            return Reading::unknown(format!(
                "the driver runs in a container; {} may too",
                self.program
            ));
        }
        match SLICES.into_iter().any(is_there) {
            true => Reading::Known(false),
            false => Reading::unknown("unit control groups are not visible here"),
        }
    }

    /// Whether the process with this id exists and is the daemon. A killed daemon leaves its pid file.
    fn is_process(&self, reader: &dyn Reader, file: &str, id: &str) -> Reading<bool> {
        let Ok(id) = id.trim().parse::<u32>() else {
            return Reading::unknown(format!("{file} has no valid process id"));
        };
        // The kernel lists processes of other PID namespaces as 0 (kernel/cgroup/cgroup.c, `cgroup_procs_show`).
        if id == 0 {
            return Reading::unknown(format!("{file} lists a process of another PID namespace"));
        }
        let comm = self.program.get(..COMM).unwrap_or(self.program);
        match Reading::from_result(reader.attribute(&format!("/proc/{id}/comm"))) {
            // With hidepid=, processes of other users are hidden, including process 1.
            Reading::Absent => match reader.exists("/proc/1/comm") {
                Ok(true) => Reading::Known(false),
                _ => Reading::unknown("processes of other users are not visible here"),
            },
            name => name.map(|name| name == comm),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_host::snapshot::{Node, Snapshot};

    /// The kernel lists processes of other PID namespaces as 0.
    #[test]
    fn process_of_another_pid_namespace_is_unknown() {
        let mut host = Snapshot::new(true);
        let group = format!("{}/helper.service/cgroup.procs", SLICES[0]);
        host.insert(&group, Node::File(b"0\n0\n".to_vec()));
        host.insert("/proc/1/comm", Node::File(b"systemd\n".to_vec()));
        host.complete();
        let helper = Daemon {
            unit: "helper",
            pid_file: "/run/helper.pid",
            program: "helper",
            is_main: false,
        };
        assert!(matches!(helper.runs(&host), Reading::Unknown(_)));
        let main = Daemon { is_main: true, ..helper };
        assert_eq!(main.runs(&host), Reading::Known(true));
    }
}
