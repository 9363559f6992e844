//! The same state machine for commands, beside a daemon or without one: they ask logind themselves, and read its answer back.

use std::path::Path;

use jiff::Timestamp;

use super::drive::Driven;
use super::{Restart, RestartError};
use crate::daemon::bus;
use crate::daemon::helper::Helpers;
use crate::daemon::launch::Launch;
use crate::daemon::logind;
use crate::host::boot_id;
use crate::reboot::phase::{Arranged, Phase};
use crate::reboot::record::Record;
use crate::reboot::state::Reason;
use crate::reboot::step::Event;

/// A way to the record and to logind.
pub struct Offline(Restart);

/// Where bedplate's reboot is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtLogind {
    /// logind does not have it.
    Nothing,
    /// logind has it.
    Scheduled {
        /// Its due time.
        at: Timestamp,
    },
    /// The machine goes down by it.
    GoingDown,
    /// It was scheduled, and logind cannot be asked.
    Unknown {
        /// Its due time.
        at: Timestamp,
        /// Why not.
        why: String,
    },
}

impl Offline {
    /// For the running machine, whose files are below `root`. Without a bus only the record is there.
    pub async fn connect(root: &Path) -> Self {
        let launch = Launch::Children("/proc/self/exe".into());
        let helpers = Helpers::new(launch, root);
        let mut restart = Restart::new(root, boot_id::below(root), helpers);
        let connected = tokio::time::timeout(bus::CONNECT_LIMIT, bus::connect()).await;
        if let Ok(Ok(connection)) = connected {
            restart.set_logind(logind::manager(&connection).await.ok());
        }
        Offline(restart)
    }

    /// Has logind forget what an operator's hold forbids, and reads its schedule back. Returns the time of the cancelled
    /// reboot.
    ///
    /// # Errors
    /// logind may still have it, or the machine goes down already.
    pub async fn settle(&mut self) -> Result<Option<Timestamp>, RestartError> {
        let seen = self.0.see(None).await;
        let before = match self.0.record() {
            Ok(before) => before,
            // Its owner is unknown.
            Err(error) => {
                return match seen.schedule {
                    Ok(None) => Ok(None),
                    Ok(Some((kind, usec))) => {
                        let at = logind::time(usec);
                        Err(RestartError::Unidentified { kind, at, why: error.to_string() })
                    }
                    Err(_) => Err(error.into()),
                };
            }
        };
        if !before.phase.is_open() {
            return Ok(None);
        }
        let driven = self.0.drive(Event::Held(&seen)).await?;
        self.read_back(&before, driven, seen.schedule.err())
    }

    fn read_back(
        &self,
        before: &Record,
        driven: Driven,
        unasked: Option<Reason>,
    ) -> Result<Option<Timestamp>, RestartError> {
        let at_logind = driven.record.phase.at_logind().cloned();
        match (&driven.record.phase, driven.failed.or(unasked), at_logind) {
            (Phase::GoingDown { .. } | Phase::CommandRun { .. }, _, _) => {
                Err(RestartError::GoingDown)
            }
            (_, Some(why), Some(_)) => Err(RestartError::Failed(why)),
            // The announcement of a command that a hold forbids at its time.
            (_, None, Some(arranged)) if !arranged.is_dry() => {
                Err(RestartError::NotForgotten { at: arranged.at() })
            }
            _ => Ok(before.phase.at_logind().map(Arranged::at)),
        }
    }

    /// Cancels what an operator asked for, or bedplate has scheduled.
    ///
    /// # Errors
    /// Nothing was cancelled.
    pub async fn cancel(&mut self, by: String) -> Result<String, RestartError> {
        self.0.withdraw(by).await
    }

    /// The record, and where bedplate's reboot is. Changes nothing.
    ///
    /// # Errors
    /// The record cannot be read.
    pub async fn find(&mut self) -> Result<(Record, AtLogind), RestartError> {
        let record = self.0.record()?;
        let arranged =
            record.phase.at_logind().filter(|one| one.boot_id == self.0.boot_id).cloned();
        let Some(arranged) = arranged else { return Ok((record, AtLogind::Nothing)) };
        let at = arranged.at();
        let seen = self.0.see(None).await;
        let found = match &seen.schedule {
            _ if seen.goes_down && !arranged.is_dry() => AtLogind::GoingDown,
            Err(why) => AtLogind::Unknown { at, why: why.text.clone() },
            Ok(Some((kind, usec))) if arranged.is(kind, *usec) => AtLogind::Scheduled { at },
            Ok(_) => AtLogind::Nothing,
        };
        Ok((record, found))
    }
}
