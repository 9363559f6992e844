//! Errors of the pipeline.

use super::profile_source::{self, SourceError};
use crate::ledger::LedgerError;
use bedplate_host::{ImageError, LockError, WriteError};

/// Why a host was not planned for, or not changed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// There is no profile that could be used.
    #[error(transparent)]
    Profile(#[from] SourceError),
    /// The operator has put no profile on the host, and no other was asked for.
    #[error("{}", profile_source::no_own_profile())]
    NoProfile,
    /// The profile says what can never be right, and there is no reason to let it pass.
    #[error("nothing was done: the profile says what can never be right: {}", lints.join(", "))]
    Lints {
        /// Ids of the lints, each with its place.
        lints: Vec<String>,
    },
    /// The ledger cannot be used.
    #[error("cannot tell what bedplate did before")]
    Ledger(#[from] LedgerError),
    /// The directory that is to stand for the host cannot be used.
    #[error("cannot use --root")]
    Image(#[source] ImageError),
    /// bedplate could not keep its ledger there: it changes nothing without.
    #[error("cannot change this host")]
    Unwritable(#[source] WriteError),
    /// A tool named by `--ran` is never owed.
    #[error("bedplate runs no tool {tool}")]
    NotOwed {
        /// As it was named.
        tool: String,
        /// Commands that are owed.
        owed: Vec<String>,
    },
    /// The ledger did not take that an owed tool has run.
    #[error("cannot note that a tool has run: {0}")]
    NotNoted(String),
    /// Another bedplate is at work.
    #[error("cannot start")]
    Lock(#[source] LockError),
    /// What was agreed to is not what would be done.
    #[error("the host has changed since this plan was shown: run apply again")]
    HostChanged,
}
