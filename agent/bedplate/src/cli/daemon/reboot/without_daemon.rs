//! Reboot commands that work without a daemon: they read the record and query logind directly.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;

use super::super::client;
use super::CallError;
use crate::cli::daemon::block_on;
use crate::cli::error::AS_ROOT;
use crate::cli::{CliError, Context as _, hold, output};
use bedplate_base::format_utc;
use bedplate_core::reboot_hold::Hold;
use bedplate_core::reboot_record::Record;
use bedplate_daemon::reboot::controller::{AtLogind, Offline, RebootError};
use bedplate_daemon::reboot::state::RebootState;
use bedplate_daemon::status::Status;
use bedplate_host::boot_id;

/// Maximum wait for a daemon that may be in the middle of a change. The request to logind is effective without it.
const DECISION_LIMIT: Duration = Duration::from_secs(30);
/// Reason why it is unknown whether a reboot is due.
const NO_DAEMON: &str = "bedplate.service is not running; bedplate has no reboot scheduled";
/// Fix: the command that cancels any shutdown.
const CANCELS: &str = "run `shutdown -c` to cancel what systemd-logind has scheduled";

fn run<T>(work: impl Future<Output = T>) -> Result<T, CliError> {
    block_on(work).context("cannot set up a connection")
}

fn failed(error: &RebootError, head: &str) -> CliError {
    let failed = CliError::new(format!("{head}{error}"));
    match error {
        RebootError::GoingDown => failed,
        RebootError::Store(_) if !nix::unistd::geteuid().is_root() => failed.hinting(AS_ROOT),
        _ => failed.hinting(CANCELS),
    }
}

/// Cancels at logind a reboot that a hold forbids. Returns only after logind confirms. An error starts with `state`,
/// the state of the hold.
pub(super) fn reconcile(root: &Path, state: &str) -> Result<Option<Timestamp>, CliError> {
    run(async { Offline::connect(root).await.reconcile().await })?
        .map_err(|error| failed(&error, &format!("{state}: ")))
}

/// Cancels the reboot that bedplate scheduled.
pub(super) fn cancel(root: &Path) -> Result<String, CliError> {
    let when = format_utc(Timestamp::now());
    let by = format!("by {} with `bedplate reboot cancel`, at {when}", hold::operator());
    run(async { Offline::connect(root).await.cancel(by).await })?
        .map_err(|error| failed(&error, ""))
}

/// Has a running daemon decide again and publish the result.
pub(super) fn tell_daemon() {
    let decided =
        client::ask(Some(DECISION_LIMIT), |agent| async move { agent.update_reboot().await });
    match decided {
        Ok(_) | Err(CallError::NoBus | CallError::NotRunning) => {}
        Err(why) => output::warn(&format!("the daemon did not confirm the change: {why}")),
    }
}

/// Returns the scheduled reboot and an operator's hold, from the record and logind, or `None` if the record cannot be
/// read.
pub(super) fn status(root: &Path) -> Result<Option<Status>, CliError> {
    let found = run(async { Offline::connect(root).await.find().await })?;
    let (record, found) = match found {
        Ok(found) => found,
        Err(error) => {
            output::warn(&error.to_string());
            return Ok(None);
        }
    };
    let state = state(&record, found);
    let mut status = Status::starting(boot_id::below(root));
    (status.daemon, status.pid) = (false, 0);
    status.reboot.state =
        state.unwrap_or_else(|| RebootState::Unknown { why: NO_DAEMON.to_owned() });
    status.reboot.attempts = record.in_a_row(&status.boot_id);
    status.reboot.method = record.phase.arranged().map(|arranged| arranged.method);
    let now = Timestamp::now();
    status.reboot.hold =
        Hold::below(root).filter(|hold| hold.is_in_force(now)).map(|hold| hold.describe(now));
    Ok(Some(status))
}

/// Returns the state of the scheduled reboot, or `None` if no reboot is scheduled.
fn state(record: &Record, found: AtLogind) -> Option<RebootState> {
    Some(match found {
        AtLogind::Nothing => return None,
        AtLogind::Scheduled { at } => RebootState::Scheduled { at },
        AtLogind::GoingDown => RebootState::UnderWay { at: due(record) },
        AtLogind::Unknown { at, why } => RebootState::Unknown {
            why: format!("a reboot was scheduled for {}, and {why}", format_utc(at)),
        },
    })
}

fn due(record: &Record) -> Timestamp {
    record.phase.arranged().map_or(Timestamp::UNIX_EPOCH, |arranged| arranged.at())
}

/// Returns the state of a scheduled reboot for `bedplate status`, if one is known.
pub(in crate::cli) fn line(root: &Path) -> Option<RebootState> {
    let (record, found) = run(async { Offline::connect(root).await.find().await }).ok()?.ok()?;
    state(&record, found)
}
