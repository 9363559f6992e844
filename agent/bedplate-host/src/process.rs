//! What only the running machine can say of its processes, by `sysinfo`: whose one is, since when it runs and with which
//! arguments, and what this program itself uses. Never asked about an image or a recorded host.

use std::sync::Once;

use jiff::Timestamp;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System, UpdateKind};

/// A process, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Who runs it.
    pub user: String,
    /// Since when, to the second.
    pub started: Option<Timestamp>,
    /// Its command line, which may hold secrets: for the terminal of root, and for nothing that others can read.
    pub command: String,
}

/// What this process uses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Resident memory.
    pub resident_bytes: u64,
    /// Time on a CPU since the start.
    pub cpu_seconds: f64,
}

/// What everybody may know of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessOwner {
    /// Who runs it: a name, or the number of a user without one.
    pub user: String,
    /// Since when, to the second.
    pub started: Option<Timestamp>,
}

/// Whose process this is, and since when it runs. `None`: it has ended.
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

/// All that is known of a process. `None`: it has ended.
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

/// What this process uses now. `None`: /proc is not readable.
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

/// sysinfo keeps a file open for every process it has seen, and raises this process's limit of open files for that. The
/// limit is inherited by every tool that is started, so it is put back.
fn keep_no_files() {
    let before = getrlimit(Resource::RLIMIT_NOFILE);
    sysinfo::set_open_files_limit(0);
    if let Ok((soft, hard)) = before {
        // What was allowed before is allowed again.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, soft, hard);
    }
}

/// By /etc/passwd alone. A directory service may take minutes to answer, and a reboot that has to be called off waits for
/// this: a user that only such a service knows is a number.
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
    fn a_process_is_described_and_this_ones_limit_stays() {
        let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let before = Timestamp::now().as_second();
        let mut command = Command::new("cat");
        command.arg("-").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("cat is there");
        // Until it runs, its command line is not there yet.
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
        // The kernel's time of boot is given in whole seconds.
        let started = described.started.unwrap().as_second();
        assert!((before - 2..=before + 60).contains(&started), "{started}, not {before}");
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap().0, soft);
        assert_eq!(describe(child.id()), None);
    }

    #[test]
    fn what_this_process_uses() {
        let usage = own_usage().unwrap();
        assert!(usage.resident_bytes > 100_000, "{usage:?}");
        let spin = std::time::Instant::now();
        while own_usage().unwrap().cpu_seconds <= usage.cpu_seconds {
            assert!(spin.elapsed().as_secs() < 60, "no CPU time was counted");
        }
    }

    #[test]
    fn a_user_without_a_name_is_a_number() {
        assert_eq!(name(Some(0)), "root");
        assert_eq!(name(Some(4_000_000_001)), "4000000001");
        assert_eq!(name(None), "unknown");
    }
}
