//! Whether the daemon of this machine runs, for commands that it would undo. A program that is built without the daemon cannot
//! ask it, and takes a daemon that runs for one that enforces.

use std::path::Path;

use bedplate_host::{DirReader, Reader as _};

/// Where systemd lists the processes of the daemon's unit: control groups of version 2, and of version 1.
const PROCESSES: [&str; 2] = [
    "/sys/fs/cgroup/system.slice/bedplate.service/cgroup.procs",
    "/sys/fs/cgroup/systemd/system.slice/bedplate.service/cgroup.procs",
];

/// Whether a running daemon would undo a revert; if so, who that is, in words.
#[cfg(feature = "daemon")]
pub(crate) fn enforcing_daemon() -> Option<String> {
    use super::daemon::client;
    use bedplate_core::profile::model::AgentMode;
    use bedplate_daemon::export;

    match client::status() {
        Ok(status) if status.mode == Some(AgentMode::Observe) => None,
        Ok(status) if status.profile.is_empty() => {
            Some("bedplate.service runs, and may enforce a profile".into())
        }
        Ok(status) => Some(format!("bedplate.service enforces profile {}", status.profile)),
        Err(_) if !unit_runs() => None,
        Err(why) => match export::read(Path::new("/")) {
            Some(last) if last.mode == Some(AgentMode::Observe) => None,
            _ => Some(format!("bedplate.service runs, though it does not answer ({why})")),
        },
    }
}

/// Whether a running daemon would undo a revert; if so, who that is, in words.
#[cfg(not(feature = "daemon"))]
pub(crate) fn enforcing_daemon() -> Option<String> {
    unit_runs().then(|| "bedplate.service runs, and may enforce a profile".into())
}

/// Whether the daemon of this machine runs, on the bus or off it.
pub(crate) fn daemon_runs() -> bool {
    #[cfg(feature = "daemon")]
    if super::daemon::client::status().is_ok() {
        return true;
    }
    unit_runs()
}

/// Removes the files that the daemon publishes about this host; what went wrong, in words. Without the daemon there is nothing that
/// could: `bedplate seal` refuses the running machine before.
pub(crate) fn remove_published_files(root: &Path) -> Vec<String> {
    #[cfg(feature = "daemon")]
    let wrong = bedplate_daemon::uninstall::remove_published_files(root);
    #[cfg(not(feature = "daemon"))]
    let wrong = vec![format!("{}: built without the daemon", root.display())];
    wrong
}

/// The daemon may be off the bus and at work all the same.
fn unit_runs() -> bool {
    PROCESSES
        .iter()
        .any(|path| DirReader::live().read(path).is_ok_and(|processes| !processes.is_empty()))
}
