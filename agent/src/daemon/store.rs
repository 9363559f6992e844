//! The daemon's few small files: the record of reboots and what it has announced. Each is replaced whole; the record is on
//! the disk before anything is done that it has to remember.

use std::path::{Path, PathBuf};

use super::devices::{self, Known};
use super::logind::{ANNOUNCED, Announced};
use crate::host::write::replace_own_file;
use crate::reboot::record::{RECORD, Record};

/// Below which directory they lie (`/`).
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// Files below `root`.
    pub fn new(root: &Path) -> Self {
        Store { root: root.to_owned() }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The record. One that is not there is empty; one that cannot be read is an error, in words.
    ///
    /// # Errors
    /// Why it cannot be used; then nothing may be rebooted.
    pub fn record(&self) -> Result<Record, String> {
        match std::fs::read_to_string(self.at(RECORD)) {
            Ok(text) => Record::parse(&text).map_err(|error| error.to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Record::default()),
            Err(error) => Err(format!("cannot read {RECORD}: {error}")),
        }
    }

    /// Keeps the record.
    ///
    /// # Errors
    /// Why it is not kept, in words.
    pub fn keep(&self, record: &Record) -> Result<(), String> {
        replace(&self.at(RECORD), record.render().as_bytes())
            .map_err(|error| format!("cannot write {RECORD}: {error}"))
    }

    /// What the profile's rules selected last. One that cannot be understood is made again.
    pub fn devices(&self) -> Known {
        let text = std::fs::read_to_string(self.at(devices::FILE)).unwrap_or_default();
        Known::parse(&text).unwrap_or_default()
    }

    /// Keeps that.
    ///
    /// # Errors
    /// Why it is not kept, in words.
    pub fn keep_devices(&self, known: &Known) -> Result<(), String> {
        replace(&self.at(devices::FILE), known.render().as_bytes())
            .map_err(|error| format!("cannot write {}: {error}", devices::FILE))
    }

    /// What was announced in this boot. A file that cannot be understood says nothing.
    pub fn announced(&self) -> Option<Announced> {
        serde_json::from_str(&std::fs::read_to_string(self.at(ANNOUNCED)).ok()?).ok()
    }

    /// Keeps what was announced.
    ///
    /// # Errors
    /// Why it is not kept, in words.
    pub fn announce(&self, announced: Option<&Announced>) -> Result<(), String> {
        let path = self.at(ANNOUNCED);
        let done = match announced {
            Some(announced) => {
                replace(&path, serde_json::to_string(announced).unwrap_or_default().as_bytes())
            }
            None => match std::fs::remove_file(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                done => done,
            },
        };
        done.map_err(|error| format!("cannot write {ANNOUNCED}: {error}"))
    }
}

/// Only root may read it; the directory is the ledger's, with copies of other files in it.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    replace_own_file(path, bytes, 0o600, 0o700)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_reads_back_and_what_is_damaged_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::new(root.path());
        assert_eq!(store.record(), Ok(Record::default()));
        let at = jiff::Timestamp::UNIX_EPOCH;
        let asked = crate::reboot::record::Asked {
            why: "w".into(),
            boot_id: "b".into(),
            at,
            waited: false,
        };
        let record = Record { asked: Some(asked), ..Record::default() };
        store.keep(&record).unwrap();
        assert_eq!(store.record(), Ok(record));
        std::fs::write(root.path().join("var/lib/bedplate/reboot.json"), "{\"version\":1,")
            .unwrap();
        assert!(store.record().unwrap_err().contains("reboot.json"));
        let announced = Announced {
            kind: "reboot".into(),
            usec: 7,
            plan: "p".into(),
            called_off: false,
            called_off_by: None,
            prepared: None,
        };
        store.announce(Some(&announced)).unwrap();
        assert_eq!(store.announced(), Some(announced));
        store.announce(None).unwrap();
        store.announce(None).unwrap();
        assert_eq!(store.announced(), None);
    }
}
