//! Processes of the running machine, through `sysinfo`: owner, start time and arguments, and this program's own
//! resource usage. Never used for an image or a recorded host.

use std::sync::Once;

use jiff::Timestamp;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System, UpdateKind};

/// A process, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Owner.
    pub user: String,
    /// Start time, to the second.
    pub started: Option<Timestamp>,
    /// Command line, which may hold secrets: show it only to root on a terminal, never publish it.
    pub command: String,
}

/// Resource usage of this process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Resident memory.
    pub resident_bytes: u64,
    /// CPU time since the start.
    pub cpu_seconds: f64,
}

/// Public properties of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessOwner {
    /// Owner: a name, or the number of a user without one.
    pub user: String,
    /// Start time, to the second.
    pub started: Option<Timestamp>,
}

/// Returns owner and start time of a running process.
pub fn owner(pid: u32) -> Option<ProcessOwner> {
    let kind = ProcessRefreshKind::nothing().with_user(UpdateKind::Always);
    query(pid, kind, |process| ProcessOwner {
        user: name(process.user_id().map(|uid| **uid)),
        started: started(process),
    })
}

fn started(process: &sysinfo::Process) -> Option<Timestamp> {
    let seconds = i64::try_from(process.start_time()).ok()?;
    Timestamp::from_second(seconds).ok()
}

/// Returns all properties of a running process.
pub fn describe(pid: u32) -> Option<Process> {
    let kind = ProcessRefreshKind::nothing().with_user(UpdateKind::Always);
    query(pid, kind.with_cmd(UpdateKind::Always), |process| {
        let words: Vec<_> = process.cmd().iter().map(|word| word.to_string_lossy()).collect();
        Process {
            user: name(process.user_id().map(|uid| **uid)),
            started: started(process),
            command: words.join(" "),
        }
    })
}

/// Returns the current usage of this process. `None` if /proc is unreadable.
pub fn own_usage() -> Option<Usage> {
    let kind = ProcessRefreshKind::nothing().with_memory().with_cpu();
    query(std::process::id(), kind, |process| Usage {
        resident_bytes: process.memory(),
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of CPU time")]
        cpu_seconds: process.accumulated_cpu_time() as f64 / 1000.0,
    })
}

fn query<T>(
    pid: u32,
    kind: ProcessRefreshKind,
    take: impl FnOnce(&sysinfo::Process) -> T,
) -> Option<T> {
    static ONCE: Once = Once::new();
    ONCE.call_once(keep_no_files);
    let pid = Pid::from_u32(pid);
    let mut system = System::new();
    system.refresh_processes_specifics(
        ProcessesToUpdate::Some(&[pid]),
        false,
        kind.without_tasks(),
    );
    system.process(pid).map(take)
}

/// Stops sysinfo from keeping a file open for every process that it has read. It also raises this process's limit of open
/// files, which tools would inherit; this restores the limit.
fn keep_no_files() {
    let before = getrlimit(Resource::RLIMIT_NOFILE);
    sysinfo::set_open_files_limit(0);
    if let Ok((soft, hard)) = before {
        // Restores the previous limit.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, soft, hard);
    }
}

/// Looks the name up in /etc/passwd only: a directory service may take minutes to answer, and cancelling a reboot waits
/// for this. A user that only a directory service knows is shown as a number.
fn name(uid: Option<u32>) -> String {
    let Some(uid) = uid.map(|uid| uid.to_string()) else { return "unknown".to_owned() };
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut lines = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let user = lines.find(|fields| fields.get(2) == Some(&uid.as_str()));
    user.and_then(|fields| fields.first().map(|name| (*name).to_owned())).unwrap_or(uid)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn describe_keeps_open_file_limit() {
        let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let before = Timestamp::now().as_second();
        let mut command = Command::new("cat");
        command.arg("-").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("cat is there");
        // The command line is empty until the process has started.
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let (described, named) = (describe(child.id()), owner(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        let described = described.unwrap();
        assert_eq!(described.command, "cat -");
        let own = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap();
        let own = own.map_or_else(|| nix::unistd::geteuid().to_string(), |user| user.name);
        assert_eq!(described.user, own);
        assert_eq!(named, Some(ProcessOwner { user: own, started: described.started }));
        // The kernel reports its boot time in whole seconds.
        let started = described.started.unwrap().as_second();
        assert!((before - 2..=before + 60).contains(&started), "{started}, not {before}");
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap().0, soft);
        assert_eq!(describe(child.id()), None);
    }

    #[test]
    fn own_usage_is_reported() {
        let usage = own_usage().unwrap();
        assert!(usage.resident_bytes > 100_000, "{usage:?}");
        let spin = std::time::Instant::now();
        while own_usage().unwrap().cpu_seconds <= usage.cpu_seconds {
            assert!(spin.elapsed().as_secs() < 60, "no CPU time was counted");
        }
    }

    #[test]
    fn unknown_user_is_shown_as_number() {
        assert_eq!(name(Some(0)), "root");
        assert_eq!(name(Some(4_000_000_001)), "4000000001");
        assert_eq!(name(None), "unknown");
    }
}
