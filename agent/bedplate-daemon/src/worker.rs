//! The process that observes the host and applies changes. It is this program again, so that what hangs in a driver hangs
//! there, and what a plan needs of memory goes with it.

use std::marker::PhantomData;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use super::launch::{Launch, NO_PROFILE, Process, REPLACED, WORKER};
use super::observation::{AT, ChangeKey, Observation};
use super::unit::Unit;
use bedplate_core::profile::model::Agent;

/// An observation takes milliseconds on the largest hosts; a sysfs that does not answer is worth a word soon.
const LOOK_LIMIT: Duration = Duration::from_secs(60);
/// Changes run update-grub, rebuild initramfs, create VFs; each is bounded by itself.
const APPLY_LIMIT: Duration = Duration::from_secs(20 * 60);

/// Before the key of a change to apply: without any, the host is only observed.
const ONLY: &str = "--only";
/// Nobody is told whether the host is ready.
const UNJUDGED: &str = "--unjudged";

/// Why there is no observation.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// It cannot be started.
    #[error("{what}")]
    Start {
        /// The whole sentence.
        what: String,
        /// Why.
        source: std::io::Error,
    },
    /// Another build of this program answers.
    #[error("bedplate was replaced by another build: the daemon has to be restarted")]
    Replaced,
    /// It said why it cannot.
    #[error("{0}")]
    Said(String),
    /// The operator has put no profile there.
    #[error("{0}")]
    NoProfile(String),
    /// It was started, and then lost.
    #[error("cannot read what the worker says")]
    Lost(#[source] std::io::Error),
    /// It did not come to an end.
    #[error("the host did not answer within {} seconds: a driver or a tool hangs; look at `ps -eo \
        pid,stat,wchan,args`", limit.as_secs())]
    Limit {
        /// How long it was waited for.
        limit: Duration,
    },
    /// Its answer is none.
    #[error("the worker's answer cannot be parsed")]
    Answer(#[source] serde_json::Error),
}

/// Looks at the host.
///
/// # Errors
/// [`WorkError`].
pub async fn observe(launch: &Launch) -> Result<Observation, WorkError> {
    ask(launch, Unit::Observer, &round(&[]), "", LOOK_LIMIT).await
}

/// Looks at the host for what differs from the profile alone, within a limit: no check is made.
///
/// # Errors
/// [`WorkError`].
pub(crate) async fn observe_unjudged(
    launch: &Launch,
    limit: Duration,
) -> Result<Observation, WorkError> {
    ask(launch, Unit::Observer, &round(&[UNJUDGED.to_owned()]), "", limit).await
}

/// Applies these changes of what was seen and looks again in the same way, within a limit.
///
/// # Errors
/// [`WorkError`]; what was done meanwhile is in the ledger.
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

/// What the profile says to the daemon.
///
/// # Errors
/// As above.
pub async fn settings(launch: &Launch, limit: Duration) -> Result<Agent, WorkError> {
    ask(launch, Unit::Observer, &round(&["--settings".to_owned()]), "", limit).await
}

/// Begins to apply these changes of what was seen; [`Work::next`] says how far it is.
///
/// # Errors
/// As above.
pub async fn apply(
    launch: &Launch,
    seen: &Observation,
    only: &[ChangeKey],
) -> Result<Work<Observation>, WorkError> {
    start(launch, unit(seen, only), &round(&changes(seen, only)), "", APPLY_LIMIT).await
}

/// Has one task done and waits for its answer.
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

/// Whether `unit` runs the worker with these arguments: one with the rights to change the host only applies changes, and the
/// observer applies none.
pub(crate) fn is_for(unit: Unit, arguments: &[&str]) -> bool {
    let changes = arguments.iter().any(|argument| argument.starts_with(ONLY));
    match unit {
        Unit::Observer => !changes,
        Unit::Worker | Unit::Loader => changes,
        Unit::Holders | Unit::Check => false,
    }
}

/// Only what loads or unloads modules gets the right to.
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

/// A process at work.
pub struct Work<T> {
    process: Process,
    until: Instant,
    limit: Duration,
    answer: PhantomData<T>,
}

/// A word of a process at work.
pub enum WorkerMessage<T> {
    /// What it is at now.
    At(String),
    /// It has ended.
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
                "cannot start a process with the rights for it: `systemctl status bedplate-{unit}.socket` shows why, and \
                 `systemctl restart bedplate` starts that again"
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
    /// Waits for the next word of it. After [`WorkerMessage::Ended`] there is none.
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
            // What it is at may name a file that is not UTF-8.
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
