//! The hold on enforcement, as an operator sets and ends it: `bedplate revert --hold` and `bedplate release`. Not by way of
//! the daemon: it has to be possible when that does not run, and the daemon sees the file by itself.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;

use super::exit::AS_ROOT;
use super::{CliError, Exit, daemon_client, output};
use crate::daemon::export;
use crate::daemon::status::{State, Status};
use crate::enforce_hold::{EnforceHold, HOLD};
use crate::host::dir::DirReader;
use crate::profile::model::AgentMode;
use crate::reboot::hold::{Hold, LONGEST_NAME};
use crate::visible::brief;

/// The running machine.
const HOST: &str = "/";
/// Where systemd lists the processes of the daemon's unit: control groups of version 2, and of version 1.
const PROCESSES: [&str; 2] = [
    "/sys/fs/cgroup/system.slice/bedplate.service/cgroup.procs",
    "/sys/fs/cgroup/systemd/system.slice/bedplate.service/cgroup.procs",
];

/// `bedplate release`.
#[derive(Debug, Args)]
pub struct ReleaseArgs {}

/// Gives the host back to its daemon.
pub fn run(_: &ReleaseArgs) -> Result<Exit, CliError> {
    let unusable = settled_status().as_ref().and_then(unusable_profile);
    let released = EnforceHold::release(Path::new(HOST)).map_err(|error| {
        CliError::while_doing(format!("cannot remove {HOLD}"), error).hinting(AS_ROOT)
    })?;
    let reboots =
        || Hold::load(&DirReader::live()).is_some_and(|hold| hold.is_in_force(Timestamp::now()));
    let said = match (released, unusable) {
        (false, _) if reboots() => {
            "enforcement is not held; reboots are held: `bedplate reboot release`".to_owned()
        }
        (false, _) => "nothing is held".to_owned(),
        (true, Some(why)) => {
            format!(
                "released; bedplate.service enforces nothing until there is a profile that it can use: {why}"
            )
        }
        (true, None) => match enforcing_daemon() {
            Some(_) => "released: bedplate.service makes this host what its profile says again",
            None => "released; no daemon that enforces a profile runs now",
        }
        .to_owned(),
    };
    output::report(&format!("{said}\n"))?;
    Ok(Exit::Done)
}

/// The daemon's status once it is not at work, which says nothing of the profile; at most two seconds later.
fn settled_status() -> Option<Status> {
    for _ in 0..10 {
        let status = daemon_client::status().ok()?;
        if status.state != State::Working {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    None
}

/// Why the daemon has no profile to enforce.
fn unusable_profile(status: &Status) -> Option<String> {
    matches!(status.state, State::Error | State::NoProfile).then(|| status.reason.clone())
}

/// Whether a running daemon would undo a revert; if so, who that is, in words.
pub fn enforcing_daemon() -> Option<String> {
    match daemon_client::status() {
        Ok(status) if status.mode == Some(AgentMode::Observe) => None,
        Ok(status) if status.profile.is_empty() => {
            Some("bedplate.service runs, and may enforce a profile".into())
        }
        Ok(status) => Some(format!("bedplate.service enforces profile {}", status.profile)),
        Err(_) if !unit_runs() => None,
        Err(why) => match export::read(Path::new(HOST)) {
            Some(last) if last.mode == Some(AgentMode::Observe) => None,
            _ => Some(format!("bedplate.service runs, though it does not answer ({why})")),
        },
    }
}

/// Whether the daemon of this machine runs, on the bus or off it.
pub fn daemon_runs() -> bool {
    daemon_client::status().is_ok() || unit_runs()
}

/// The daemon may be off the bus and at work all the same.
fn unit_runs() -> bool {
    PROCESSES.iter().any(|path| std::fs::read(path).is_ok_and(|processes| !processes.is_empty()))
}

/// What stands in the way of a revert of the running machine: a daemon that would undo it.
pub fn revert_refusal() -> Option<String> {
    if EnforceHold::load(Path::new(HOST)).is_some() {
        return None;
    }
    enforcing_daemon().map(|who| {
        format!(
            "{who} and would undo this within seconds: nothing was put back\n  \
             either `bedplate revert --hold`: the daemon leaves this host as it is until `bedplate release`\n  \
             or `systemctl disable --now bedplate bedplate-boot` before `bedplate revert`"
        )
    })
}

/// A hold set for a revert; taken back unless the revert has begun.
pub struct HoldGuard {
    ours: bool,
}

impl HoldGuard {
    /// Puts the hold in force, if asked for; one that is there stays.
    pub fn set(asked: bool) -> Result<Self, CliError> {
        let root = Path::new(HOST);
        let ours = asked && EnforceHold::load(root).is_none();
        if ours {
            let hold =
                EnforceHold::starting(Timestamp::now(), "`bedplate revert --hold`", &operator());
            hold.keep(root).map_err(|error| {
                CliError::while_doing(format!("cannot write {HOLD}"), error).hinting(AS_ROOT)
            })?;
        }
        Ok(HoldGuard { ours })
    }

    /// The revert begins: the hold stays from here on, whatever comes of it.
    pub fn stays(&mut self) {
        self.ours = false;
        if let Some(hold) = EnforceHold::load(Path::new(HOST)) {
            output::status(&hold.describe());
        }
    }
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        if self.ours && EnforceHold::release(Path::new(HOST)).is_err() {
            output::warn("the hold stays: `bedplate release` ends it");
        }
    }
}

/// Who gives the command, also behind sudo.
pub fn operator() -> String {
    let name = |variable| std::env::var(variable).ok().filter(|name| !name.is_empty());
    let name = name("SUDO_USER").or_else(|| name("USER")).unwrap_or_else(|| "root".into());
    brief(&name, LONGEST_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_that_cannot_be_used_is_not_enforced() {
        let mut status = Status::starting("b".into());
        status.fail("profile.toml:3:1: expected a table".into());
        assert_eq!(
            unusable_profile(&status).as_deref(),
            Some("profile.toml:3:1: expected a table")
        );
        status.without_profile("there is no profile".into());
        assert!(unusable_profile(&status).is_some());
        status.state = State::Drifted;
        assert_eq!(unusable_profile(&status), None);
    }
}
