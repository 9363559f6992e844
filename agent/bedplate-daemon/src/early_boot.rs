//! What `bedplate-boot.service` does: early in every boot, before networks and workloads, puts back what a reboot took
//! away, and lets the boot go on in time, whatever a driver does. All reading and writing is done by children: one that
//! hangs in the kernel, where no signal reaches it, is left behind for the daemon to deal with.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::{Instant, timeout_at};

use super::journal::{self, log_message};
use super::launch::Launch;
use super::log_changes::{self, LogState};
use super::observation::{ChangeKey, Observation};
use super::worker::{self, WorkError};
use bedplate_core::enforce_hold::EnforceHold;
use bedplate_core::plan::KindId;
use bedplate_core::profile::model::AgentMode;

/// The bound until the profile says another one (`boot_timeout`), and for a profile that cannot be read.
const UNTIL_KNOWN: Duration = Duration::from_secs(120);

/// Waits for drivers, and puts back, unless an operator holds enforcement (a file below `root`). Whether everything that can
/// be put back at once is.
///
/// # Errors
/// [`WorkError`]: the host or the profile cannot be observed.
pub async fn put_back(worker: &Launch, root: &Path) -> Result<bool, WorkError> {
    if let Some(hold) = EnforceHold::load(root) {
        log_changes::enforce_hold(None, Some(&hold));
        return Ok(true);
    }
    let begun = Instant::now();
    let agent = match worker::settings(worker, UNTIL_KNOWN).await {
        Err(WorkError::Limit { limit }) => return Ok(late(limit, "reading the profile")),
        Err(WorkError::NoProfile(why)) => {
            log_message(journal::NO_PROFILE, &why);
            return Ok(true);
        }
        agent => agent?,
    };
    if agent.mode == AgentMode::Observe {
        // What differs is for the daemon to say, when the drivers are there.
        return Ok(true);
    }
    let limit = Duration::from_secs(agent.boot_timeout_s.into());
    // Half of the time for udev, so that one driver that hangs leaves the rest time to be put right.
    udev(begun + limit / 2).await;
    match live(worker, begun + limit).await {
        Err(WorkError::Limit { .. }) => Ok(late(limit, "putting back what the reboot took away")),
        observation => Ok(report(&observation?)),
    }
}

/// An observation, and the live changes that it asks for. Whether the host is ready is for the daemon to say: checks only take time here.
async fn live(worker: &Launch, until: Instant) -> Result<Observation, WorkError> {
    let left = || until.saturating_duration_since(Instant::now());
    let seen = worker::observe_unjudged(worker, left()).await?;
    let live = seen.changes.iter().filter(|change| change.shown.live);
    let live: Vec<ChangeKey> = live.map(|change| change.key.clone()).collect();
    match live.is_empty() {
        true => Ok(seen),
        false => worker::apply_unjudged(worker, &seen, &live, left()).await,
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
        log_message(
            journal::IMPAIRED,
            "udev has not settled: the boot goes on without waiting for it; `udevadm settle` and \
             `ps -eo pid,stat,wchan,args` show what hangs",
        );
    }
}

fn report(observation: &Observation) -> bool {
    log_changes::ended(&observation.hash, observation);
    if observation.blockers.iter().any(|blocker| blocker.kind == KindId::Profile) {
        // Then nothing was tried.
        LogState::default().blockers(observation);
        return false;
    }
    let changes = observation.changes.iter().map(|change| &change.shown);
    let missing: Vec<_> = changes.filter(|change| change.live).collect();
    for change in &missing {
        log_changes::differs(&observation.hash, change);
    }
    missing.is_empty()
}

fn late(limit: Duration, at: &str) -> bool {
    let text = format!(
        "{at} took more than {} s: the boot goes on, and the daemon finishes it",
        limit.as_secs()
    );
    log_message(journal::BOOT_LATE, &text);
    false
}
