//! Errors of the pipeline.

use super::profile_source::{self, SourceError};
use crate::ledger::LedgerError;
use bedplate_host::{ImageError, LockError, WriteError};

/// Why a host was not planned or not changed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No usable profile.
    #[error(transparent)]
    Profile(#[from] SourceError),
    /// The operator has put no profile on the host, and the request named no other.
    #[error("{}", profile_source::no_own_profile())]
    NoProfile,
    /// Error-level lints in the profile, without a reason to allow them.
    #[error("profile rejected by lint {}; no changes made", lints.join(", "))]
    Lints {
        /// Ids of the lints, each with its location.
        lints: Vec<String>,
    },
    /// The ledger cannot be used.
    #[error("cannot use bedplate's record of its changes")]
    Ledger(#[from] LedgerError),
    /// The image root given by `--root` cannot be used.
    #[error("cannot use --root")]
    Image(#[source] ImageError),
    /// bedplate cannot write its ledger, and makes no changes without it.
    #[error("cannot change this host")]
    Unwritable(#[source] WriteError),
    /// A tool named by `--ran` that can never be pending.
    #[error("{tool} is not a tool that bedplate runs")]
    NotOwed {
        /// The tool as named on the command line.
        tool: String,
        /// Pending commands.
        owed: Vec<String>,
    },
    /// The ledger could not record that a pending tool has run.
    #[error("cannot record that a tool has run: {0}")]
    NotNoted(String),
    /// Another bedplate process is running.
    #[error("cannot start")]
    Lock(#[source] LockError),
    /// The plan that the operator accepted differs from the plan made under the lock.
    #[error("the host has changed since this plan was shown; run apply again")]
    HostChanged,
}
