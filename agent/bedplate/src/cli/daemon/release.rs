//! `bedplate release`: resumes enforcement. Does not use the daemon: it must work while the daemon is not running, and
//! the daemon notices the removed file itself.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;

use super::client;
use crate::cli::error::AS_ROOT;
use crate::cli::{CliError, Exit, output, running};
use bedplate_core::enforce_hold::{EnforceHold, HOLD};
use bedplate_core::reboot_hold::Hold;
use bedplate_daemon::status::{State, Status};
use bedplate_host::DirReader;

/// The running machine.
const HOST: &str = "/";
/// `bedplate release`.
#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {}

/// Ends the pause and reports whether a daemon enforces the profile.
pub(crate) fn run(_: &ReleaseArgs) -> Result<Exit, CliError> {
    let unusable = settled_status().as_ref().and_then(unusable_profile);
    let released = EnforceHold::release(Path::new(HOST)).map_err(|error| {
        CliError::while_doing(format!("cannot remove {HOLD}"), error).hinting(AS_ROOT)
    })?;
    let reboots =
        || Hold::load(&DirReader::live()).is_some_and(|hold| hold.is_in_force(Timestamp::now()));
    let said = match (released, unusable) {
        (false, _) if reboots() => {
            "enforcement is not paused; reboots are held: run `bedplate reboot release`".to_owned()
        }
        (false, _) => "enforcement is not paused".to_owned(),
        (true, Some(why)) => {
            format!("pause ended; bedplate.service has no usable profile to enforce: {why}")
        }
        (true, None) => match running::enforcing_daemon() {
            Some(_) => "pause ended: bedplate.service resumes enforcement",
            None => "pause ended; no daemon that enforces a profile is running",
        }
        .to_owned(),
    };
    output::report(&format!("{said}\n"))?;
    Ok(Exit::Done)
}

/// Returns the daemon's status after current work ends, because a status during work does not show the profile. Waits
/// at most two seconds.
fn settled_status() -> Option<Status> {
    for _ in 0..10 {
        let status = client::status().ok()?;
        if status.state != State::Working {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    None
}

/// Returns the reason why the daemon has no profile to enforce.
fn unusable_profile(status: &Status) -> Option<String> {
    matches!(status.state, State::Error | State::NoProfile).then(|| status.reason.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_profile_is_not_enforced() {
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
