//! Interpreter of the state machine: applies an event to the record, stores the record, performs the effect, and feeds its
//! result back as the next event. The record's lock is held from before logind is read until the record is written. Meanwhile
//! no other bedplate process changes the record or calls logind.

use super::current_record::Current;
use super::{RebootController, RebootError};
use crate::journal::log_message;
use crate::reboot::facts::FastFacts;
use crate::reboot::state::{RebootState, Veto};
use crate::reboot::step::{CancelResult, Effect, Event, MissingInput, step};
use crate::store::{RecordLock, StoreError};
use bedplate_core::reboot_record::Record;
use bedplate_core::reboot_record::phase::Phase;

/// The record under its lock.
pub(super) struct LockedRecord {
    lock: RecordLock,
    current: Current,
}

impl LockedRecord {
    /// Returns the record.
    pub(super) fn record(&self) -> &Record {
        &self.current.record
    }

    /// # Errors
    /// If the record is from memory because its file is unreadable.
    pub(super) fn readable(self) -> Result<Self, StoreError> {
        match self.current.lost {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }
}

/// Result of an event and of the effects that followed.
#[derive(Debug, Default)]
pub(super) struct DriveResult {
    /// The record before the event.
    pub(super) before: Record,
    /// The record after it.
    pub(super) record: Record,
    /// Input that the decision lacks.
    pub(super) missing: Option<MissingInput>,
    /// The state to show.
    pub(super) shown: Option<RebootState>,
    /// Reason of a failed effect.
    pub(super) failed: Option<Veto>,
    /// Whether the failed effect was a step towards a reboot.
    pub(super) has_failed: bool,
    /// Whether logind cancelled the reboot and a read-back confirmed it.
    pub(super) is_cancelled: bool,
    /// Whether any effect was performed.
    pub(super) acted: bool,
    /// Error of reading or writing the record.
    pub(super) unwritten: Option<String>,
}

impl RebootController {
    /// Takes the record's lock and reads the record.
    pub(super) async fn locked(&mut self) -> Result<LockedRecord, RebootError> {
        let lock = self.store.lock().await?;
        let current = self.kept.current(&self.store)?;
        self.kept.note(&current);
        Ok(LockedRecord { lock, current })
    }

    /// Reads logind, decides on the event of these facts, and performs the effects. `failed`: reason of the last failed effect.
    pub(super) async fn drive<'w>(
        &mut self,
        event: impl for<'s> FnOnce(&'s FastFacts) -> Event<'s, 'w>,
        failed: Option<Veto>,
    ) -> Result<(DriveResult, FastFacts), RebootError> {
        let locked = self.locked().await?;
        self.drive_locked(locked, event, failed).await
    }

    /// [`drive`](Self::drive) under a lock that the caller has taken.
    pub(super) async fn drive_locked<'w>(
        &mut self,
        locked: LockedRecord,
        event: impl for<'s> FnOnce(&'s FastFacts) -> Event<'s, 'w>,
        failed: Option<Veto>,
    ) -> Result<(DriveResult, FastFacts), RebootError> {
        let seen = self.see(&locked.current.record.phase, failed).await;
        let driven = self.run(locked, event(&seen)).await?;
        Ok((driven, seen))
    }

    /// Applies an event, and performs the effects that follow.
    pub(super) async fn run(
        &mut self,
        locked: LockedRecord,
        event: Event<'_, '_>,
    ) -> Result<DriveResult, RebootError> {
        // A started chain of effects must run to its end.
        let _step = self.steps.begin();
        let mut driven = DriveResult { before: locked.record().clone(), ..DriveResult::default() };
        let mut effect = self.apply(locked, event, &mut driven)?;
        loop {
            let Some(next) = effect else {
                if driven.acted && driven.failed.is_none() {
                    self.logged_failures.clear();
                }
                return Ok(driven);
            };
            driven.acted = true;
            let (outcome, failed) = self.perform(&next).await;
            if let Some(why) = failed {
                self.log_failure(&why.text);
                driven.has_failed |= is_on_the_way(&next);
                driven.failed.get_or_insert(why);
            }
            driven.is_cancelled |=
                matches!(outcome, Event::CancelAnswered(Ok(CancelResult::Absent)));
            let locked = self.locked().await?;
            effect = self.apply(locked, outcome, &mut driven)?;
        }
    }

    /// Applies an event to the record. An effect towards a reboot requires the record on disk first; an effect away from one
    /// is performed even if the record cannot be written.
    fn apply(
        &mut self,
        LockedRecord { lock, current }: LockedRecord,
        event: Event<'_, '_>,
        driven: &mut DriveResult,
    ) -> Result<Option<Effect>, RebootError> {
        let lost = current.lost.as_ref().map(StoreError::to_string);
        let event = match (event, &lost) {
            (Event::Observed(seen, _), Some(why)) => Event::RecordLost(seen, why),
            (event, _) => event,
        };
        let next = step(&current.record, event);
        let must = next.effect.as_ref().is_some_and(is_on_the_way);
        match current.lost {
            Some(error) if must => return Err(error.into()),
            Some(_) => {
                self.kept.remember(next.record.clone());
                driven.unwritten = lost;
            }
            None => {
                let unkept = self.kept.write(&self.store, &lock, next.record.clone(), must)?;
                driven.unwritten = unkept.map(|error| error.to_string());
            }
        }
        drop(lock);
        next.notes.iter().for_each(|(message, text)| log_message(*message, text));
        if matches!(next.record.phase, Phase::Scheduled { .. })
            && matches!(current.record.phase, Phase::Scheduling { .. })
        {
            self.requested += 1;
        }
        driven.record = next.record;
        driven.shown = next.shown;
        driven.missing = next.missing;
        Ok(next.effect)
    }

    /// Returns the record in force.
    pub(super) fn record(&self) -> Result<Record, StoreError> {
        let current = self.kept.current(&self.store)?;
        match current.lost {
            Some(error) => Err(error),
            None => Ok(current.record),
        }
    }

    /// Changes a part of the record that no phase depends on. It is on disk when this returns.
    pub(super) async fn update(
        &mut self,
        change: impl FnOnce(&mut Record),
    ) -> Result<Record, RebootError> {
        let LockedRecord { lock, current } = self.locked().await?.readable()?;
        let mut record = current.record;
        change(&mut record);
        self.kept.write(&self.store, &lock, record.clone(), true)?;
        Ok(record)
    }
}

fn is_on_the_way(effect: &Effect) -> bool {
    match effect {
        Effect::Cancel(_) | Effect::Disarm(_) => false,
        Effect::FindUndo { .. }
        | Effect::Arm { .. }
        | Effect::Schedule { .. }
        | Effect::RunCommand => true,
    }
}
