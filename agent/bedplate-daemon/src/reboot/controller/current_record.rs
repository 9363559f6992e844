//! Cache of the record: the version on disk, and a newer one in memory while it cannot be written. If the file is unreadable,
//! memory still holds the reboot to cancel and the steps to undo.

use super::RebootError;
use crate::store::{RecordLock, Store, StoreError};
use bedplate_core::reboot_record::Record;

/// The record as last read or written.
#[derive(Debug, Default)]
pub(super) struct RecordCache {
    /// Last version on disk.
    saved: Option<Record>,
    /// Newer version that could not be written.
    unsaved: Option<Record>,
}

/// The record in force.
pub(super) struct Current {
    pub(super) record: Record,
    /// Error of reading the file: `record` is from memory, and the file is not touched.
    pub(super) lost: Option<StoreError>,
}

impl RecordCache {
    /// Returns the record in force.
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
            // No other process has written since.
            (Some(unsaved), _) if self.saved.as_ref() == Some(&found) => unsaved.clone(),
            // The file was removed, but the reboot at logind is still bedplate's.
            (_, Some(known)) if !store.has_record() => {
                Record { phase: known.phase.clone(), asked: known.asked.clone(), ..found }
            }
            _ => found,
        };
        Ok(Current { record, lost: None })
    }

    /// Records the version that was read.
    pub(super) fn note(&mut self, current: &Current) {
        if current.lost.is_none() && self.unsaved.as_ref() != Some(&current.record) {
            self.saved = Some(current.record.clone());
            self.unsaved = None;
        }
    }

    /// Writes a newer version. `must`: fail if it is not on disk, because the next effect requires it.
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

    /// Stores a version in memory only.
    pub(super) fn remember(&mut self, record: Record) {
        self.unsaved = Some(record);
    }
}
