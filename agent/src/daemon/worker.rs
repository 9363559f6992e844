//! The child that observes the host and applies changes. It is this program again, so that what hangs in a driver hangs
//! there, and what a plan needs of memory goes with it.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Split};
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::observation::{AT, NO_PROFILE, Observation};
use crate::profile::model::Agent;

/// A look takes milliseconds on the largest hosts; a sysfs that does not answer is worth a word soon.
const LOOK_LIMIT: Duration = Duration::from_secs(60);
/// Changes run update-grub, rebuild initramfs, create VFs; each is bounded by itself.
const APPLY_LIMIT: Duration = Duration::from_secs(20 * 60);

/// Why there is no observation.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The program cannot be started.
    #[error("cannot start {}", program.display())]
    Start {
        /// It.
        program: PathBuf,
        /// Why.
        source: std::io::Error,
    },
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
pub async fn observe(program: &Path) -> Result<Observation, WorkError> {
    observe_within(program, LOOK_LIMIT).await
}

/// Looks at the host, within a limit.
///
/// # Errors
/// [`WorkError`].
pub async fn observe_within(program: &Path, limit: Duration) -> Result<Observation, WorkError> {
    ended(start(program, &[], limit)?).await
}

/// Applies these changes of what was seen and looks again, within a limit.
///
/// # Errors
/// [`WorkError`]; what was done meanwhile is in the ledger.
pub async fn apply_within(
    program: &Path,
    seen: &Observation,
    only: &[String],
    limit: Duration,
) -> Result<Observation, WorkError> {
    ended(start(program, &changes(seen, only), limit)?).await
}

/// What the profile says to the daemon.
///
/// # Errors
/// As above.
pub async fn settings(program: &Path, limit: Duration) -> Result<Agent, WorkError> {
    ended(start(program, &["--settings".to_owned()], limit)?).await
}

/// Begins to apply these changes of what was seen; [`Work::next`] says how far it is.
///
/// # Errors
/// As above.
pub fn apply(
    program: &Path,
    seen: &Observation,
    only: &[String],
) -> Result<Work<Observation>, WorkError> {
    start(program, &changes(seen, only), APPLY_LIMIT)
}

fn changes(seen: &Observation, only: &[String]) -> Vec<String> {
    let changes = only.iter().map(|id| format!("--only={id}"));
    changes.chain(seen.profile_files.iter().map(|file| format!("--profile-file={file}"))).collect()
}

/// A child at work.
pub struct Work<T> {
    child: Child,
    stdout: Split<BufReader<ChildStdout>>,
    stderr: JoinHandle<String>,
    until: Instant,
    limit: Duration,
    answer: PhantomData<T>,
}

/// What a child says.
pub enum WorkerMessage<T> {
    /// What it is at now.
    At(String),
    /// It has ended.
    Ended(Result<T, WorkError>),
}

async fn ended<T: DeserializeOwned>(mut work: Work<T>) -> Result<T, WorkError> {
    loop {
        if let WorkerMessage::Ended(end) = work.next().await {
            return end;
        }
    }
}

fn start<T>(program: &Path, arguments: &[String], limit: Duration) -> Result<Work<T>, WorkError> {
    let mut command = Command::new(program);
    command.arg("worker").args(arguments);
    // Logs of the child are told by the daemon, with their fields.
    command.env_remove("JOURNAL_STREAM").env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let failed = |source| WorkError::Start { program: program.to_owned(), source };
    let mut child = command.spawn().map_err(failed)?;
    let lost = || failed(std::io::Error::other("its output cannot be read"));
    let stdout = child.stdout.take().ok_or_else(lost)?;
    let mut errors = child.stderr.take().ok_or_else(lost)?;
    let stderr = tokio::spawn(async move {
        let mut said = Vec::new();
        // What was read before it broke is what there is to say.
        let _ = errors.read_to_end(&mut said).await;
        String::from_utf8_lossy(&said).trim().to_owned()
    });
    Ok(Work {
        child,
        stdout: BufReader::new(stdout).split(b'\n'),
        stderr,
        until: Instant::now() + limit,
        limit,
        answer: PhantomData,
    })
}

impl<T: DeserializeOwned> Work<T> {
    /// Waits for the next word of it. After [`WorkerMessage::Ended`] there is none.
    pub async fn next(&mut self) -> WorkerMessage<T> {
        let until = self.until;
        match timeout_at(until, self.step()).await {
            Ok(Ok(WorkerMessage::At(what))) => WorkerMessage::At(what),
            Ok(Ok(WorkerMessage::Ended(end))) => WorkerMessage::Ended(end),
            Ok(Err(source)) => WorkerMessage::Ended(Err(WorkError::Lost(source))),
            Err(_) => WorkerMessage::Ended(Err(WorkError::Limit { limit: self.limit })),
        }
    }

    async fn step(&mut self) -> std::io::Result<WorkerMessage<T>> {
        let mut answer = String::new();
        while let Some(line) = self.stdout.next_segment().await? {
            // What it is at may name a file that is not UTF-8.
            let line = String::from_utf8_lossy(&line).into_owned();
            match line.strip_prefix(AT) {
                Some(what) => return Ok(WorkerMessage::At(what.to_owned())),
                None => answer = line,
            }
        }
        let status = self.child.wait().await?;
        if status.success() {
            return Ok(WorkerMessage::Ended(
                serde_json::from_str(&answer).map_err(WorkError::Answer),
            ));
        }
        let said = (&mut self.stderr).await.unwrap_or_default();
        Ok(WorkerMessage::Ended(Err(match (status.code(), said) {
            (Some(NO_PROFILE), said) => WorkError::NoProfile(said),
            (_, said) if said.is_empty() => {
                WorkError::Said(format!("the worker ended with {status}"))
            }
            (_, said) => WorkError::Said(said),
        })))
    }
}
