//! The process that observes the host and applies changes. It is this program again, so that a hung driver blocks only that
//! process, and the memory of a plan is freed with it.

use std::marker::PhantomData;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use super::launch::{Launch, NO_PROFILE, Process, REPLACED, WORKER};
use super::observation::{AT, ChangeKey, Observation};
use super::unit::Unit;
use bedplate_core::profile::model::Agent;

/// Time limit of an observation. One takes milliseconds even on the largest hosts, so a hung sysfs is reported soon.
const LOOK_LIMIT: Duration = Duration::from_secs(60);
/// Time limit of applying changes: update-grub, rebuilds of an initramfs, VFs. Each step also has its own limit.
const APPLY_LIMIT: Duration = Duration::from_secs(20 * 60);

/// Option before the key of a change to apply; without any, the host is only observed.
const ONLY: &str = "--only";
/// Option to skip the checks, if no caller needs the verdict.
const UNJUDGED: &str = "--unjudged";

/// Error of a worker or helper process.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The process cannot be started.
    #[error("{what}")]
    Start {
        /// The complete sentence.
        what: String,
        /// The cause.
        source: std::io::Error,
    },
    /// Another build of this program answered.
    #[error("bedplate was replaced by another build: restart the daemon")]
    Replaced,
    /// The process reported an error.
    #[error("{0}")]
    Said(String),
    /// The operator has installed no profile.
    #[error("{0}")]
    NoProfile(String),
    /// The connection to the started process failed.
    #[error("cannot read the worker's answer")]
    Lost(#[source] std::io::Error),
    /// The process did not end in time.
    #[error("worker timed out after {} s; a driver or tool may be hung; see `ps -eo \
        pid,stat,wchan,args`", limit.as_secs())]
    Limit {
        /// The time limit.
        limit: Duration,
    },
    /// The answer is invalid.
    #[error("cannot parse the worker's answer")]
    Answer(#[source] serde_json::Error),
}

/// Observes the host.
///
/// # Errors
/// [`WorkError`].
pub async fn observe(launch: &Launch) -> Result<Observation, WorkError> {
    ask(launch, Unit::Observer, &round(&[]), "", LOOK_LIMIT).await
}

/// Observes the host within a limit, for differences from the profile only: runs no checks.
///
/// # Errors
/// [`WorkError`].
pub(crate) async fn observe_unjudged(
    launch: &Launch,
    limit: Duration,
) -> Result<Observation, WorkError> {
    ask(launch, Unit::Observer, &round(&[UNJUDGED.to_owned()]), "", limit).await
}

/// Applies these changes of `seen` and observes again without checks, within a limit.
///
/// # Errors
/// [`WorkError`]; changes applied before the error are in the ledger.
pub(crate) async fn apply_unjudged(
    launch: &Launch,
    seen: &Observation,
    only: &[ChangeKey],
    limit: Duration,
) -> Result<Observation, WorkError> {
    let mut arguments = changes(seen, only);
    arguments.push(UNJUDGED.to_owned());
    ask(launch, unit(seen, only), &round(&arguments), "", limit).await
}

/// Returns the `[agent]` settings of the profile.
///
/// # Errors
/// [`WorkError`].
pub async fn settings(launch: &Launch, limit: Duration) -> Result<Agent, WorkError> {
    ask(launch, Unit::Observer, &round(&["--settings".to_owned()]), "", limit).await
}

/// Starts to apply these changes of `seen`; [`Work::next`] reports the progress.
///
/// # Errors
/// [`WorkError`].
pub async fn apply(
    launch: &Launch,
    seen: &Observation,
    only: &[ChangeKey],
) -> Result<Work<Observation>, WorkError> {
    start(launch, unit(seen, only), &round(&changes(seen, only)), "", APPLY_LIMIT).await
}

/// Runs one task and waits for its answer.
///
/// # Errors
/// [`WorkError`].
pub(crate) async fn ask<T: DeserializeOwned>(
    launch: &Launch,
    unit: Unit,
    arguments: &[String],
    input: &str,
    limit: Duration,
) -> Result<T, WorkError> {
    let mut work = start(launch, unit, arguments, input, limit).await?;
    loop {
        if let WorkerMessage::Ended(end) = work.next().await {
            return end;
        }
    }
}

/// Whether `unit` runs the worker with these arguments. A unit with the rights to change the host only applies changes;
/// the observer applies none.
pub(crate) fn is_for(unit: Unit, arguments: &[&str]) -> bool {
    let changes = arguments.iter().any(|argument| argument.starts_with(ONLY));
    match unit {
        Unit::Observer => !changes,
        Unit::Worker | Unit::Loader => changes,
        Unit::Holders | Unit::Check => false,
    }
}

/// Returns the unit for the changes; only those that load or unload modules get that right.
fn unit(seen: &Observation, only: &[ChangeKey]) -> Unit {
    let mut selected = seen.changes.iter().filter(|change| only.contains(&change.key));
    if selected.any(|change| change.shown.modules) { Unit::Loader } else { Unit::Worker }
}

fn round(arguments: &[String]) -> Vec<String> {
    std::iter::once(WORKER.to_owned()).chain(arguments.iter().cloned()).collect()
}

fn changes(seen: &Observation, only: &[ChangeKey]) -> Vec<String> {
    let changes = only.iter().map(|key| format!("{ONLY}={key}"));
    changes.chain(seen.profile_files.iter().map(|file| format!("--profile-file={file}"))).collect()
}

/// A running process.
pub struct Work<T> {
    process: Process,
    until: Instant,
    limit: Duration,
    answer: PhantomData<T>,
}

/// A message from a running process.
pub enum WorkerMessage<T> {
    /// The step in progress.
    At(String),
    /// The process has ended.
    Ended(Result<T, WorkError>),
}

async fn start<T>(
    launch: &Launch,
    unit: Unit,
    arguments: &[String],
    input: &str,
    limit: Duration,
) -> Result<Work<T>, WorkError> {
    let until = Instant::now() + limit;
    let what = || match launch {
        Launch::Children(program) => format!("cannot start {}", program.display()),
        Launch::Sockets { .. } => {
            let unit = unit.name();
            format!(
                "cannot start a privileged process: `systemctl status bedplate-{unit}.socket` shows why; `systemctl \
                 restart bedplate` restarts the socket"
            )
        }
    };
    let failed = |source| WorkError::Start { what: what(), source };
    match timeout_at(until, launch.start(unit, arguments, input)).await {
        Ok(process) => {
            Ok(Work { process: process.map_err(failed)?, until, limit, answer: PhantomData })
        }
        Err(_) => Err(WorkError::Limit { limit }),
    }
}

impl<T: DeserializeOwned> Work<T> {
    /// Waits for the next message. [`WorkerMessage::Ended`] is the last one.
    pub async fn next(&mut self) -> WorkerMessage<T> {
        match timeout_at(self.until, self.step()).await {
            Ok(Ok(message)) => message,
            Ok(Err(source)) => WorkerMessage::Ended(Err(WorkError::Lost(source))),
            Err(_) => WorkerMessage::Ended(Err(WorkError::Limit { limit: self.limit })),
        }
    }

    async fn step(&mut self) -> std::io::Result<WorkerMessage<T>> {
        let mut answer = String::new();
        while let Some(line) = self.process.line().await? {
            // A step may name a file that is not UTF-8.
            let line = String::from_utf8_lossy(&line).into_owned();
            match line.strip_prefix(AT) {
                Some(what) => return Ok(WorkerMessage::At(what.to_owned())),
                None => answer = line,
            }
        }
        let end = self.process.ended().await?;
        Ok(WorkerMessage::Ended(match (end.code, end.said) {
            (Some(0), _) => serde_json::from_str(&answer).map_err(WorkError::Answer),
            (Some(NO_PROFILE), said) => Err(WorkError::NoProfile(said)),
            (Some(REPLACED), _) => Err(WorkError::Replaced),
            (_, said) if said.is_empty() => {
                Err(WorkError::Said(format!("the worker ended with {}", end.status)))
            }
            (_, said) => Err(WorkError::Said(said)),
        }))
    }
}
