//! Errors of scheduling and cancelling a reboot.

use jiff::Timestamp;

use crate::reboot::state::{Veto, WaitsFor};
use crate::store::StoreError;
use bedplate_base::format_utc;

/// Reason why a step towards a reboot, or away from it, failed.
#[derive(Debug, thiserror::Error)]
pub enum RebootError {
    /// The record cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The shutdown has already started.
    #[error("the machine is already going down")]
    GoingDown,
    /// No reboot is scheduled, but a method is still armed.
    #[error("no reboot is scheduled by bedplate, but {0}")]
    Armed(String),
    /// Any other failure, with the condition that the reboot then waits for.
    #[error("{0}")]
    Failed(Veto),
}

impl RebootError {
    pub(super) fn new(waits_for: WaitsFor, why: impl Into<String>) -> Self {
        RebootError::Failed(Veto::new(waits_for, why.into()))
    }

    /// Creates the error for a failure of logind.
    pub(super) fn logind(doing: &str, error: &zbus::Error) -> Self {
        RebootError::new(WaitsFor::Logind, format!("{doing}: {error}"))
    }

    pub(super) fn schedule(error: &zbus::Error) -> Self {
        RebootError::logind("cannot read logind's schedule", error)
    }

    /// Creates the error for a missing bus or logind.
    pub(super) fn no_logind() -> Self {
        RebootError::new(WaitsFor::Logind, "no systemd-logind on the bus")
    }

    /// Creates the error for a reboot that logind still has after its cancellation.
    pub(super) fn not_forgotten(at: Timestamp) -> Self {
        let at = format_utc(at);
        let why = "cancel it with `shutdown -c`";
        let text = format!("systemd-logind still has the reboot scheduled for {at}; {why}");
        RebootError::new(WaitsFor::Logind, text)
    }

    /// Creates the error for a scheduled shutdown that is not bedplate's. `kind` is logind's.
    pub(super) fn not_ours(kind: &str, at: Timestamp) -> Self {
        let text =
            format!("another program has scheduled a shutdown: {kind} at {}", format_utc(at));
        RebootError::new(WaitsFor::OtherShutdown, text)
    }

    /// Returns the condition that the reboot waits for after this error.
    pub(super) fn waits_for(&self) -> WaitsFor {
        match self {
            RebootError::Store(_) => WaitsFor::Record,
            RebootError::GoingDown => WaitsFor::OtherShutdown,
            RebootError::Armed(_) => WaitsFor::Method,
            RebootError::Failed(why) => why.waits_for,
        }
    }

    /// Returns the error as a veto.
    pub(super) fn reason(&self) -> Veto {
        Veto::new(self.waits_for(), self.to_string())
    }
}
