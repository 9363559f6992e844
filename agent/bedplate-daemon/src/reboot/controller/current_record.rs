//! The record as this process knows it: on the disk, and in memory for as long as the disk does not take it. Where the file
//! cannot be read, memory still tells what has to be cancelled and undone.

use super::RebootError;
use crate::store::{RecordLock, Store, StoreError};
use bedplate_core::reboot_record::Record;

/// The record, as it was read or written last.
#[derive(Debug, Default)]
pub(super) struct RecordCache {
    /// As it was last read or written.
    saved: Option<Record>,
    /// A later one that could not be written.
    unsaved: Option<Record>,
}

/// The record that counts now.
pub(super) struct Current {
    pub(super) record: Record,
    /// Why the file cannot be read: `record` is from memory, and the file is left alone.
    pub(super) lost: Option<StoreError>,
}

impl RecordCache {
    /// The record that counts now.
    pub(super) fn current(&self, store: &Store) -> Result<Current, StoreError> {
        let known = self.unsaved.as_ref().or(self.saved.as_ref());
        let found = match store.record() {
            Ok(found) => found,
            Err(error) => match known {
                Some(known) => return Ok(Current { record: known.clone(), lost: Some(error) }),
                None => return Err(error),
            },
        };
        let record = match (&self.unsaved, known) {
            // Nobody has written since.
            (Some(unsaved), _) if self.saved.as_ref() == Some(&found) => unsaved.clone(),
            // The file was removed: the reboot at logind is bedplate's still.
            (_, Some(known)) if !store.has_record() => {
                Record { phase: known.phase.clone(), asked: known.asked.clone(), ..found }
            }
            _ => found,
        };
        Ok(Current { record, lost: None })
    }

    /// Takes over what was read.
    pub(super) fn note(&mut self, current: &Current) {
        if current.lost.is_none() && self.unsaved.as_ref() != Some(&current.record) {
            self.saved = Some(current.record.clone());
            self.unsaved = None;
        }
    }

    /// Writes a later one. `must`: it has to be on the disk before what follows.
    pub(super) fn write(
        &mut self,
        store: &Store,
        lock: &RecordLock,
        record: Record,
        must: bool,
    ) -> Result<Option<StoreError>, RebootError> {
        if self.unsaved.is_none() && self.saved.as_ref() == Some(&record) && store.has_record() {
            return Ok(None);
        }
        match store.keep(lock, &record) {
            Ok(()) => {
                (self.saved, self.unsaved) = (Some(record), None);
                Ok(None)
            }
            Err(error) if must => Err(error.into()),
            Err(error) => {
                self.unsaved = Some(record);
                Ok(Some(error))
            }
        }
    }

    /// Keeps it in memory alone.
    pub(super) fn remember(&mut self, record: Record) {
        self.unsaved = Some(record);
    }
}
