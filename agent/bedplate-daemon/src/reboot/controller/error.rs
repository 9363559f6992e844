//! Why a reboot is not announced, or not taken back.

use jiff::Timestamp;

use crate::reboot::state::{Veto, WaitsFor};
use crate::store::StoreError;
use bedplate_base::format_utc;

/// Why a step towards a reboot, or away from it, came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum RebootError {
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
    /// The bus or logind is missing.
    #[error("there is no systemd-logind on the bus to reboot through")]
    NoLogind,
    /// An operator's hold has come in between.
    #[error("{0}")]
    Held(String),
    /// A command has cancelled it in between.
    #[error("the reboot was cancelled before logind was asked")]
    Overtaken,
    /// logind takes the request and does not have it afterwards.
    #[error("logind does not have the reboot that it was asked for")]
    NotTaken,
    /// logind has it after it was asked to forget it.
    #[error(
        "systemd-logind still has the reboot scheduled for {}; cancel it with `shutdown -c`",
        format_utc(*at)
    )]
    NotForgotten {
        /// For when.
        at: Timestamp,
    },
    /// The record cannot be read, and with it whose reboot logind has.
    #[error(
        "systemd-logind has a shutdown scheduled ({kind} at {}), and it may be bedplate's: {why}",
        format_utc(*at)
    )]
    Unidentified {
        /// logind's kind.
        kind: String,
        /// For when.
        at: Timestamp,
        /// Why not.
        why: String,
    },
    /// Another effect has failed.
    #[error("{0}")]
    Failed(Veto),
    /// Too late.
    #[error("the machine is already going down")]
    GoingDown,
    /// A request for a time that has passed.
    #[error("{} has passed", format_utc(*.0))]
    Past(Timestamp),
    /// The shutdown that is scheduled is not bedplate's.
    #[error("what is scheduled is not bedplate's: {kind} at {}", format_utc(*at))]
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

impl RebootError {
    pub(super) fn schedule(error: zbus::Error) -> Self {
        RebootError::Logind { doing: "cannot ask logind what is scheduled", error }
    }

    /// What the reboot waits for after it.
    pub(super) fn waits_for(&self) -> WaitsFor {
        match self {
            RebootError::Store(_) => WaitsFor::Record,
            RebootError::Logind { .. }
            | RebootError::NoLogind
            | RebootError::Overtaken
            | RebootError::NotTaken
            | RebootError::NotForgotten { .. } => WaitsFor::Logind,
            RebootError::Held(_) => WaitsFor::Hold,
            RebootError::Failed(why) => why.waits_for,
            RebootError::Lock(_) => WaitsFor::Lock,
            RebootError::Armed(_) => WaitsFor::Method,
            RebootError::GoingDown
            | RebootError::NotOurs { .. }
            | RebootError::Past(_)
            | RebootError::Unidentified { .. }
            | RebootError::NothingAnnounced => WaitsFor::OtherShutdown,
        }
    }

    /// The same as a reason to wait.
    pub(super) fn reason(&self) -> Veto {
        Veto::new(self.waits_for(), self.to_string())
    }
}
