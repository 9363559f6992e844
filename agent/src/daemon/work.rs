//! The child that does a round. It is this program again, so that what hangs in a driver hangs there, and what a plan
//! needs of memory goes with it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::process::Command;

use super::round::Round;
use crate::profile::model::Agent;

/// A look takes milliseconds on the largest hosts; a sysfs that does not answer is worth a word soon.
const LOOK_LIMIT: Duration = Duration::from_secs(60);
/// Changes run update-grub, rebuild initramfs, create VFs; each is bounded by itself.
const APPLY_LIMIT: Duration = Duration::from_secs(20 * 60);

/// Why there is no round.
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
    /// It did not come to an end.
    #[error("the host did not answer within {} seconds: a driver or a tool hangs; look at `ps -eo pid,stat,wchan,args`", limit.as_secs())]
    Limit {
        /// How long it was waited for.
        limit: Duration,
    },
    /// Its answer is none.
    #[error("the worker's answer cannot be understood")]
    Answer(#[source] serde_json::Error),
}

/// Looks (`only` is empty), or applies these changes and looks.
///
/// # Errors
/// [`WorkError`]; what was done meanwhile is in the ledger.
pub async fn round(program: &Path, only: &[String]) -> Result<Round, WorkError> {
    let limit = if only.is_empty() { LOOK_LIMIT } else { APPLY_LIMIT };
    round_within(program, only, limit).await
}

/// The same with another limit.
///
/// # Errors
/// As above.
pub async fn round_within(program: &Path, only: &[String], limit: Duration) -> Result<Round, WorkError> {
    asked(program, only.iter().map(|id| format!("--only={id}")), limit).await
}

/// What the profile says to the daemon.
///
/// # Errors
/// As above.
pub async fn settings(program: &Path, limit: Duration) -> Result<Agent, WorkError> {
    asked(program, std::iter::once("--settings".to_owned()), limit).await
}

async fn asked<T: DeserializeOwned>(
    program: &Path,
    arguments: impl Iterator<Item = String>,
    limit: Duration,
) -> Result<T, WorkError> {
    let mut command = Command::new(program);
    command.arg("round").args(arguments);
    // Logs of the child are told by the daemon, with their fields.
    command.env_remove("JOURNAL_STREAM").env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let start = |source| WorkError::Start { program: program.to_owned(), source };
    let child = command.spawn().map_err(start)?;
    let ended = tokio::time::timeout(limit, child.wait_with_output()).await;
    let output = ended.map_err(|_| WorkError::Limit { limit })?.map_err(start)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(WorkError::Said(match said.as_str() {
            "" => format!("the worker ended with {}", output.status),
            said => said.to_owned(),
        }));
    }
    serde_json::from_slice(&output.stdout).map_err(WorkError::Answer)
}
