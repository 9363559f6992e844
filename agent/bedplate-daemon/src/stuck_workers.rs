//! Detection of a process left over from an earlier unit that systemd could not kill. A process that hangs in a driver (state
//! D) handles no signal, and systemd gives up its unit. Another observation would hang at the same place, and each would
//! leave one more such process.

use std::path::Path;

use bedplate_host::file;

/// Slice of all the daemon's units (`Slice=`).
const SLICE: &str = "system-bedplate.slice";
/// SIGKILL in the masks of /proc/PID/status (fs/proc/array.c, `task_sig`: bit n-1 is signal n).
const KILLED: u64 = 1 << (9 - 1);

/// Returns a message that names the hung process, read below `root`; `None` if no hung process is known. Works only with
/// cgroup v2; elsewhere the slice's limit of tasks is the only bound.
pub(crate) fn find_stuck_worker(root: &Path) -> Option<String> {
    let own = file::text(&root.join("proc/self/cgroup")).ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let slice = Path::new(own).parent().filter(|slice| slice.ends_with(SLICE))?;
    let units = std::fs::read_dir(root.join("sys/fs/cgroup").join(slice)).ok()?;
    let lists = units.flatten().map(|unit| unit.path().join("cgroup.procs"));
    let texts: Vec<String> = lists.filter_map(|list| file::text(&list).ok()).collect();
    let mut processes: Vec<u32> =
        texts.iter().flat_map(|text| text.lines()).filter_map(|pid| pid.parse().ok()).collect();
    // Sorted, so that the same process is named as long as it hangs.
    processes.sort_unstable();
    let status = |pid: u32| file::text(&root.join(format!("proc/{pid}/status"))).ok();
    let hangs = |pid: &u32| status(*pid).is_some_and(|text| is_hung(&text));
    processes.into_iter().find(hangs).map(|pid| {
        format!(
            "process {pid} of an earlier observation or change was killed and still hangs in a driver: no further \
             observation until it ends or the host restarts; see `cat /proc/{pid}/stack`"
        )
    })
}

/// Whether the process was killed and still waits in the kernel. A process that only waits for a disk has no pending SIGKILL.
fn is_hung(status: &str) -> bool {
    let value = |key: &str| {
        status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim).unwrap_or_default()
    };
    let pending = |key: &str| u64::from_str_radix(value(key), 16).unwrap_or_default();
    value("State:").starts_with('D') && (pending("SigPnd:") | pending("ShdPnd:")) & KILLED != 0
}
