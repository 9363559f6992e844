//! Detection of a running daemon, for commands that it would undo. A program built without the daemon cannot query it
//! and assumes that a running daemon enforces.

use std::path::Path;

use bedplate_host::{DirReader, Reader as _};

/// Process lists of the daemon's unit: control groups version 2 and version 1.
const PROCESSES: [&str; 2] = [
    "/sys/fs/cgroup/system.slice/bedplate.service/cgroup.procs",
    "/sys/fs/cgroup/systemd/system.slice/bedplate.service/cgroup.procs",
];

/// Returns a description of the running daemon that would undo a revert, if any.
#[cfg(feature = "daemon")]
pub(crate) fn enforcing_daemon() -> Option<String> {
    use super::daemon::client;
    use bedplate_core::profile::model::AgentMode;
    use bedplate_daemon::export;

    match client::status() {
        Ok(status) if status.mode == Some(AgentMode::Observe) => None,
        Ok(status) if status.profile.is_empty() => {
            Some("bedplate.service is running and may enforce a profile".into())
        }
        Ok(status) => Some(format!("bedplate.service enforces profile {}", status.profile)),
        Err(_) if !unit_runs() => None,
        Err(why) => match export::read(Path::new("/")) {
            Some(last) if last.mode == Some(AgentMode::Observe) => None,
            _ => Some(format!("bedplate.service is running but unreachable ({why})")),
        },
    }
}

/// Returns a description of the running daemon that would undo a revert, if any.
#[cfg(not(feature = "daemon"))]
pub(crate) fn enforcing_daemon() -> Option<String> {
    unit_runs().then(|| "bedplate.service is running and may enforce a profile".into())
}

/// Whether the daemon of this machine is running, with or without the bus.
pub(crate) fn daemon_runs() -> bool {
    #[cfg(feature = "daemon")]
    if super::daemon::client::status().is_ok() {
        return true;
    }
    unit_runs()
}

/// Removes the files that the daemon publishes about this host, and returns errors. Cannot remove them if built without
/// the daemon; `bedplate seal` then rejects the running machine before this call.
pub(crate) fn remove_published_files(root: &Path) -> Vec<String> {
    #[cfg(feature = "daemon")]
    let wrong = bedplate_daemon::uninstall::remove_published_files(root);
    #[cfg(not(feature = "daemon"))]
    let wrong = vec![format!("{}: built without the daemon", root.display())];
    wrong
}

/// Whether the daemon's unit has processes. The daemon may be running without the bus.
fn unit_runs() -> bool {
    PROCESSES
        .iter()
        .any(|path| DirReader::live().read(path).is_ok_and(|processes| !processes.is_empty()))
}
