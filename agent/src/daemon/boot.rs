//! What `bedplate-boot.service` does: early in every boot, before networks and workloads, puts back what a reboot took
//! away, and lets the boot go on in time, whatever a driver does. All reading and writing is done by children: one that
//! hangs in the kernel, where no signal reaches it, is left behind for the daemon to deal with.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::{Instant, timeout_at};

use super::journal::{self, say, say_of};
use super::round::{End, Round};
use super::work::{self, WorkError};
use crate::profile::model::AgentMode;

/// The bound until the profile says another one (`boot_timeout`), and for a profile that cannot be read.
const UNTIL_KNOWN: Duration = Duration::from_secs(120);

/// Puts back, waits for drivers first. Whether everything that can be put back at once is.
///
/// # Errors
/// [`WorkError`]: the host or the profile cannot be looked at.
pub fn run(worker: &Path) -> Result<bool, WorkError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|source| WorkError::Start { program: PathBuf::from("bedplate"), source })?;
    let done = runtime.block_on(put_back(worker));
    // Neither a child that hangs nor whoever waits for it holds up the boot.
    runtime.shutdown_background();
    done
}

async fn put_back(worker: &Path) -> Result<bool, WorkError> {
    let begun = Instant::now();
    let agent = match work::settings(worker, UNTIL_KNOWN).await {
        Err(WorkError::Limit { limit }) => return Ok(late(limit, "reading the profile")),
        agent => agent?,
    };
    if agent.mode == AgentMode::Observe {
        // What differs is for the daemon to say, when the drivers are there.
        return Ok(true);
    }
    let limit = Duration::from_secs(agent.boot_timeout_s.into());
    // Half of the time for udev, so that one driver that hangs leaves the rest time to be put right.
    udev(begun + limit / 2).await;
    let work = async {
        let seen = work::round_within(worker, &[], limit).await?;
        let live: Vec<String> =
            seen.changes.iter().filter(|change| change.live).map(|change| change.id.clone()).collect();
        match live.is_empty() {
            true => Ok(seen),
            false => work::round_within(worker, &live, limit).await,
        }
    };
    match timeout_at(begun + limit, work).await {
        Err(_) | Ok(Err(WorkError::Limit { .. })) => {
            Ok(late(limit, "putting back what the reboot took away"))
        }
        Ok(round) => Ok(told(&round?)),
    }
}

/// Waits until udev has nothing more to do: drivers are loaded by its workers.
async fn udev(until: Instant) {
    let mut settle = Command::new("udevadm");
    let seconds = until.saturating_duration_since(Instant::now()).as_secs();
    settle.args(["settle", &format!("--timeout={seconds}")]);
    settle.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let ended = timeout_at(until + Duration::from_secs(1), settle.status()).await;
    if !ended.is_ok_and(|ended| ended.is_ok_and(|status| status.success())) {
        say(
            journal::FAILED,
            "udev is not done with the devices of this machine: going on without it; `udevadm settle` and \
             `ps -eo pid,stat,wchan,args` show what hangs",
        );
    }
}

fn told(round: &Round) -> bool {
    for done in &round.done {
        match &done.end {
            End::Done => say_of(journal::DONE, &round.hash, &done.change, "done"),
            End::Failed { why } => {
                say_of(journal::FAILED, &round.hash, &done.change, &format!("failed ({why})"));
            }
        }
    }
    let missing: Vec<&str> =
        round.changes.iter().filter(|change| change.live).map(|change| change.subject.as_str()).collect();
    if !missing.is_empty() {
        say(journal::DRIFT, &format!("not as the profile says: {}", missing.join(", ")));
    }
    missing.is_empty()
}

fn late(limit: Duration, at: &str) -> bool {
    let text = format!(
        "not done after {} s with {at}: the boot goes on, the daemon goes on with it",
        limit.as_secs()
    );
    say(journal::BOOT_LATE, &text);
    false
}
