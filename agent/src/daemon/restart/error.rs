//! Why a reboot is not announced, or not taken back.

use jiff::Timestamp;

use crate::daemon::store::StoreError;
use crate::daemon::worker::WorkError;
use crate::error_chain::chain;
use crate::reboot::state::WaitsFor;
use crate::utc::shown;

/// Why a step towards a reboot, or away from it, came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum RestartError {
    /// What has to be remembered cannot be.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// logind does not do it.
    #[error("{doing}: {error}")]
    Logind {
        /// What it was asked.
        doing: &'static str,
        /// Its answer.
        error: zbus::Error,
    },
    /// The lock server gives no slot.
    #[error("{0}")]
    Lock(String),
    /// The reboot method could not be prepared.
    #[error("{}", chain(.0))]
    Method(WorkError),
    /// The operator's command that cycles the power has failed.
    #[error("{}", chain(.0))]
    Command(WorkError),
    /// Too late.
    #[error("the machine is going down already")]
    GoingDown,
    /// The shutdown that is scheduled is not bedplate's.
    #[error("what is scheduled is not bedplate's: {kind} at {}", shown(*at))]
    NotOurs {
        /// logind's kind.
        kind: String,
        /// For when.
        at: Timestamp,
    },
    /// There is nothing to take back, but what was prepared for a reboot.
    #[error("no reboot of bedplate's is announced, but {0}")]
    Armed(String),
    /// There is nothing to take back.
    #[error("no reboot of bedplate's is announced")]
    NothingAnnounced,
}

impl RestartError {
    pub(super) fn schedule(error: zbus::Error) -> Self {
        RestartError::Logind { doing: "cannot ask logind what is scheduled", error }
    }

    /// What the reboot waits for after it.
    pub(super) fn waits_for(&self) -> WaitsFor {
        match self {
            RestartError::Store(_) => WaitsFor::Record,
            RestartError::Logind { .. } => WaitsFor::Logind,
            RestartError::Lock(_) => WaitsFor::Lock,
            RestartError::Method(_) | RestartError::Command(_) | RestartError::Armed(_) => {
                WaitsFor::Method
            }
            RestartError::GoingDown
            | RestartError::NotOurs { .. }
            | RestartError::NothingAnnounced => WaitsFor::OtherShutdown,
        }
    }
}
