//! The interpreter of the state machine: an event is applied to the record, the record is kept, the effect is carried out, and
//! its result is the next event.

use super::{Restart, RestartError};
use crate::daemon::journal::{self, Message, say};
use crate::daemon::store::StoreError;
use crate::reboot::phase::Phase;
use crate::reboot::record::Record;
use crate::reboot::state::{Reason, RebootState};
use crate::reboot::step::{Effect, Event, Missing, Note, NoteKind, step};

/// Result of an event and of the effects that followed.
#[derive(Debug, Default)]
pub(super) struct Driven {
    /// The record.
    pub(super) record: Record,
    /// Input that the decision lacks.
    pub(super) missing: Option<Missing>,
    /// The state to show.
    pub(super) shown: Option<RebootState>,
    /// Why an effect failed.
    pub(super) failed: Option<Reason>,
    /// Whether that was one on the way to a reboot.
    pub(super) in_vain: bool,
    /// Whether anything was done.
    pub(super) acted: bool,
    /// Why the record cannot be read or written.
    pub(super) unkept: Option<String>,
}

impl Restart {
    /// Applies an event, and carries out what follows from it.
    pub(super) async fn drive(&mut self, event: Event<'_>) -> Result<Driven, RestartError> {
        // Once begun, a chain of effects is run to its end.
        let _step = self.steps.begin();
        let mut driven = Driven::default();
        let mut effect = self.apply(event, &mut driven).await?;
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
                driven.in_vain |= is_on_the_way(&next);
                driven.failed.get_or_insert(why);
            }
            effect = self.apply(outcome, &mut driven).await?;
        }
    }

    /// The record is on the disk before an effect that leads to a reboot. Effects that lead away from one are carried out also
    /// where it cannot be written.
    async fn apply(
        &mut self,
        event: Event<'_>,
        driven: &mut Driven,
    ) -> Result<Option<Effect>, RestartError> {
        let lock = self.store.lock().await?;
        let current = self.kept.current(&self.store)?;
        self.kept.note(&current);
        let lost = current.lost.as_ref().map(StoreError::to_string);
        let event = match (event, &lost) {
            (Event::Looked(seen, _), Some(why)) => Event::RecordLost(seen, why),
            (event, _) => event,
        };
        let next = step(&current.record, event);
        let must = next.effect.as_ref().is_some_and(is_on_the_way);
        match current.lost {
            Some(error) if must => return Err(error.into()),
            Some(_) => {
                self.kept.remember(next.record.clone());
                driven.unkept = lost;
            }
            None => {
                let unkept = self.kept.write(&self.store, &lock, next.record.clone(), must)?;
                driven.unkept = unkept.map(|error| error.to_string());
            }
        }
        drop(lock);
        next.notes.iter().for_each(log);
        if matches!(next.record.phase, Phase::Scheduled { .. })
            && matches!(current.record.phase, Phase::Scheduling { .. })
        {
            self.asked_for += 1;
        }
        driven.record = next.record;
        driven.shown = next.shown;
        driven.missing = next.missing;
        Ok(next.effect)
    }

    /// The record that counts now.
    pub(super) fn record(&self) -> Result<Record, StoreError> {
        let current = self.kept.current(&self.store)?;
        match current.lost {
            Some(error) => Err(error),
            None => Ok(current.record),
        }
    }

    /// Changes a part of the record that no phase depends on; it is on the disk when this returns.
    pub(super) async fn update(
        &mut self,
        change: impl FnOnce(&mut Record),
    ) -> Result<Record, RestartError> {
        let lock = self.store.lock().await?;
        let current = self.kept.current(&self.store)?;
        self.kept.note(&current);
        if let Some(error) = current.lost {
            return Err(error.into());
        }
        let mut record = current.record;
        change(&mut record);
        self.kept.write(&self.store, &lock, record.clone(), true)?;
        Ok(record)
    }
}

fn is_on_the_way(effect: &Effect) -> bool {
    match effect {
        Effect::Cancel(_) | Effect::Disarm(_) => false,
        Effect::FindWayBack { .. }
        | Effect::Arm { .. }
        | Effect::Schedule { .. }
        | Effect::RunCommand => true,
    }
}

fn log(note: &Note) {
    say(message(note.kind), &note.text);
}

fn message(kind: NoteKind) -> Message {
    match kind {
        NoteKind::Scheduled => journal::REBOOT_SCHEDULED,
        NoteKind::TakenBack => journal::REBOOT_CANCELLED,
        NoteKind::CalledOff => journal::REBOOT_CALLED_OFF,
        NoteKind::Failed => journal::REBOOT_FAILED,
        NoteKind::Waits => journal::REBOOT_WAITS,
    }
}
