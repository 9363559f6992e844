//! State machine for commands, with or without a running daemon: they call logind themselves, and verify the result.

use std::path::Path;

use jiff::Timestamp;

use super::drive::DriveResult;
use super::{RebootController, RebootError};
use crate::bus;
use crate::helper::Helpers;
use crate::launch::Launch;
use crate::logind;
use crate::reboot::state::{Veto, WaitsFor};
use crate::reboot::step::Event;
use crate::store::StoreError;
use bedplate_base::format_utc;
use bedplate_core::reboot_record::Record;
use bedplate_core::reboot_record::phase::{ArrangedReboot, Phase};
use bedplate_host::boot_id;

/// Access to the record and to logind.
pub struct Offline(RebootController);

/// State of bedplate's reboot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtLogind {
    /// logind does not have it.
    Nothing,
    /// logind has it.
    Scheduled {
        /// Due time.
        at: Timestamp,
    },
    /// The machine is going down for it.
    GoingDown,
    /// It was scheduled, and logind cannot be asked.
    Unknown {
        /// Due time.
        at: Timestamp,
        /// Reason why logind cannot be asked.
        why: String,
    },
}

impl Offline {
    /// Connects for the running machine, with files below `root`. Without a bus only the record is available.
    pub async fn connect(root: &Path) -> Self {
        let launch = Launch::Children("/proc/self/exe".into());
        let helpers = Helpers::new(launch, root);
        let mut controller = RebootController::new(root, boot_id::below(root), helpers);
        let connected = tokio::time::timeout(bus::CONNECT_LIMIT, bus::connect()).await;
        if let Ok(Ok(connection)) = connected {
            controller.set_logind(logind::manager(&connection).await.ok());
        }
        Offline(controller)
    }

    /// Cancels a reboot that an operator's hold forbids, and reads logind's schedule back. Returns the time
    /// of the cancelled reboot.
    ///
    /// # Errors
    /// If logind may still have it, or the machine is already going down.
    pub async fn reconcile(&mut self) -> Result<Option<Timestamp>, RebootError> {
        let locked = match self.0.locked().await {
            Ok(locked) => locked,
            Err(RebootError::Store(error)) if !matches!(error, StoreError::Lock(_)) => {
                return self.without_record(error).await;
            }
            Err(error) => return Err(error),
        };
        if !locked.record().phase.is_open() {
            return Ok(None);
        }
        let (driven, seen) =
            self.0.drive_locked(locked, |seen| Event::PolledByCommand(seen), None).await?;
        expect_cancelled(&driven, seen.schedule.err())?;
        self.0.expect_cancelled(&driven).await?;
        Ok(driven.before.phase.at_logind().map(ArrangedReboot::at))
    }

    /// Handles an unreadable record: the owner of a shutdown at logind is unknown.
    async fn without_record(
        &mut self,
        error: StoreError,
    ) -> Result<Option<Timestamp>, RebootError> {
        // A daemon with the record in memory may be calling logind.
        let _lock = self.0.store.lock().await?;
        match self.0.see(&Phase::Rest, None).await.schedule {
            Ok(None) => Ok(None),
            Ok(Some((kind, usec))) => {
                let at = format_utc(logind::time(usec));
                let text = format!(
                    "systemd-logind has a shutdown scheduled ({kind} at {at}), possibly by bedplate: {error}"
                );
                Err(RebootError::new(WaitsFor::OtherShutdown, text))
            }
            Err(_) => Err(error.into()),
        }
    }

    /// Cancels the reboot that an operator requested or bedplate scheduled.
    ///
    /// # Errors
    /// If nothing was cancelled.
    pub async fn cancel(&mut self, by: String) -> Result<String, RebootError> {
        self.0.cancel(by).await
    }

    /// Returns the record and the state of bedplate's reboot. Changes nothing.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub async fn find(&mut self) -> Result<(Record, AtLogind), RebootError> {
        let record = self.0.record()?;
        let arranged =
            record.phase.at_logind().filter(|one| one.boot_id == self.0.boot_id).cloned();
        let Some(arranged) = arranged else { return Ok((record, AtLogind::Nothing)) };
        let at = arranged.at();
        let seen = self.0.see(&record.phase, None).await;
        let found = match &seen.schedule {
            _ if seen.goes_down && !arranged.is_dry() => AtLogind::GoingDown,
            Err(why) => AtLogind::Unknown { at, why: why.text.clone() },
            Ok(Some((kind, usec))) if arranged.is(kind, *usec) => AtLogind::Scheduled { at },
            Ok(_) => AtLogind::Nothing,
        };
        Ok((record, found))
    }
}

/// Checks that the reboot is cancelled, by the record. `unasked`: reason why logind could not be asked.
fn expect_cancelled(driven: &DriveResult, unasked: Option<Veto>) -> Result<(), RebootError> {
    let phase = &driven.record.phase;
    if matches!(phase, Phase::GoingDown { .. } | Phase::CommandRun { .. }) {
        return Err(RebootError::GoingDown);
    }
    match (driven.failed.clone().or(unasked), phase.at_logind()) {
        (Some(why), Some(_)) => Err(RebootError::Failed(why)),
        // Excludes the announcement of a command, which a hold forbids at its time.
        (None, Some(arranged)) if !arranged.is_dry() => {
            Err(RebootError::not_forgotten(arranged.at()))
        }
        _ => Ok(()),
    }
}
