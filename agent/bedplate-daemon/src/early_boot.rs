//! `bedplate-boot.service`: early in every boot, before networks and workloads, restores the settings that the reboot reset.
//! Bounded in time, so that a hung driver cannot block the boot. Children do all reading and writing; a child that hangs in
//! the kernel, where no signal reaches it, is left for the daemon.

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

/// Time limit until the profile's `boot_timeout` is known, and for a profile that cannot be read.
const UNTIL_KNOWN: Duration = Duration::from_secs(120);

/// Waits for drivers, then restores the settings, unless an operator paused enforcement (a file below `root`). Returns
/// whether everything that can be restored at once is restored.
///
/// # Errors
/// [`WorkError`] if the host or the profile cannot be observed.
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
        // The daemon reports differences later, when the drivers are loaded.
        return Ok(true);
    }
    let limit = Duration::from_secs(agent.boot_timeout_s.into());
    // udev gets half of the time, so that one hung driver leaves the other half for the restore.
    udev(begun + limit / 2).await;
    match live(worker, begun + limit).await {
        Err(WorkError::Limit { .. }) => {
            Ok(late(limit, "restoring the settings that the reboot reset"))
        }
        observation => Ok(report(&observation?)),
    }
}

/// Observes the host and applies the runtime changes found. Checks would only take time here; the daemon reports readiness.
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

/// Waits until udev's queue is empty: its workers load the drivers.
async fn udev(until: Instant) {
    let mut settle = Command::new("udevadm");
    let seconds = until.saturating_duration_since(Instant::now()).as_secs();
    settle.args(["settle", &format!("--timeout={seconds}")]);
    settle.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let ended = timeout_at(until + Duration::from_secs(1), settle.status()).await;
    if !ended.is_ok_and(|ended| ended.is_ok_and(|status| status.success())) {
        log_message(
            journal::IMPAIRED,
            "udev did not settle; the boot continues without it. `udevadm settle` and `ps -eo pid,stat,wchan,args` \
             show what hangs",
        );
    }
}

fn report(observation: &Observation) -> bool {
    log_changes::ended(&observation.hash, observation);
    if observation.blockers.iter().any(|blocker| blocker.kind == KindId::Profile) {
        // A blocker of the profile: no change was tried.
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
        "{at} took more than {} s; the boot continues, and the daemon finishes it",
        limit.as_secs()
    );
    log_message(journal::BOOT_LATE, &text);
    false
}
