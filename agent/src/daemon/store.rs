//! The daemon's few small files: the record of reboots and what it has announced. Each is replaced whole; the record is on
//! the disk before anything is done that it has to remember.

use std::path::{Path, PathBuf};

use nix::sys::statfs::{FsType, OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC, statfs};

use super::devices::{self, KnownDevices};
use super::logind::{ANNOUNCED, Announced};
use crate::host::file;
use crate::host::write::replace_own_file;
use crate::reboot::record::{RECORD, Record, RecordError};

/// Below which directory they lie (`/`).
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

/// Why one of them cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// Which file.
        path: &'static str,
        /// What the system says.
        error: std::io::Error,
    },
    /// It was read, and is no record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// It cannot be written.
    #[error("cannot write {path}: {error}")]
    Write {
        /// Which file.
        path: &'static str,
        /// What the system says.
        error: std::io::Error,
    },
}

/// Where the record lies.
const STATE: &str = "/var/lib/bedplate";

/// The kind of file system at `path`, where a boot takes away what is on it (include/uapi/linux/magic.h). An overlay is how live
/// systems and stateless nodes keep their root in memory; where its upper directory lies cannot be seen from here.
fn volatile(path: &Path) -> Option<&'static str> {
    const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);
    match statfs(path).ok()?.filesystem_type() {
        TMPFS_MAGIC => Some("tmpfs"),
        RAMFS_MAGIC => Some("ramfs"),
        OVERLAYFS_SUPER_MAGIC => Some("an overlay"),
        _ => None,
    }
}

impl Store {
    /// Files below `root`.
    pub fn new(root: &Path) -> Self {
        Store { root: root.to_owned() }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Why the record would not be there after a boot, so that attempts were never counted and the host could be rebooted
    /// without an end.
    pub fn is_forgotten(&self) -> Option<String> {
        // Any other root is a test's.
        let kind = (self.root == Path::new("/")).then(|| volatile(&self.at(STATE))).flatten()?;
        Some(format!(
            "{STATE} is on {kind}, which is empty after a boot: attempts could not be counted; mount a disk there, or reboot by hand"
        ))
    }

    /// The record. One that is not there is empty.
    ///
    /// # Errors
    /// [`StoreError`]; then nothing may be rebooted, since nobody would count.
    pub fn record(&self) -> Result<Record, StoreError> {
        match file::text(&self.at(RECORD)) {
            Ok(text) => Ok(Record::parse(&text)?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Record::default()),
            Err(error) => Err(StoreError::Read { path: RECORD, error }),
        }
    }

    /// Keeps the record.
    ///
    /// # Errors
    /// [`StoreError::Write`].
    pub fn keep(&self, record: &Record) -> Result<(), StoreError> {
        replace(&self.at(RECORD), record.render().as_bytes())
            .map_err(|error| StoreError::Write { path: RECORD, error })
    }

    /// What the profile's rules selected last. One that cannot be understood is made again.
    pub fn devices(&self) -> KnownDevices {
        let text = file::text(&self.at(devices::FILE)).unwrap_or_default();
        KnownDevices::parse(&text).unwrap_or_default()
    }

    /// Keeps that.
    ///
    /// # Errors
    /// [`StoreError::Write`].
    pub fn keep_devices(&self, known: &KnownDevices) -> Result<(), StoreError> {
        replace(&self.at(devices::FILE), known.render().as_bytes())
            .map_err(|error| StoreError::Write { path: devices::FILE, error })
    }

    /// What was announced in this boot. A file that cannot be understood says nothing.
    pub fn announced(&self) -> Option<Announced> {
        serde_json::from_str(&file::text(&self.at(ANNOUNCED)).ok()?).ok()
    }

    /// Keeps what was announced.
    ///
    /// # Errors
    /// [`StoreError::Write`].
    pub fn announce(&self, announced: Option<&Announced>) -> Result<(), StoreError> {
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
        done.map_err(|error| StoreError::Write { path: ANNOUNCED, error })
    }
}

/// Only root may read it; the directory is the ledger's, with copies of other files in it.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    replace_own_file(path, bytes, 0o600, 0o700)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::logind::Shutdown;
    use crate::daemon::logind::Stage;

    #[test]
    fn a_record_in_memory_is_known() {
        assert_eq!(volatile(Path::new("/dev/shm")), Some("tmpfs"));
        assert_eq!(volatile(Path::new("/proc")), None);
        assert_eq!(Store::new(Path::new("/dev/shm")).is_forgotten(), None, "a test's");
    }

    #[test]
    fn what_is_kept_reads_back_and_what_is_damaged_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::new(root.path());
        assert_eq!(store.record().unwrap(), Record::default());
        let at = jiff::Timestamp::UNIX_EPOCH;
        let asked = crate::reboot::record::Asked {
            why: "w".into(),
            boot_id: "b".into(),
            at,
            waited: false,
        };
        let record = Record { asked: Some(asked), ..Record::default() };
        store.keep(&record).unwrap();
        assert_eq!(store.record().unwrap(), record);
        std::fs::write(root.path().join("var/lib/bedplate/reboot.json"), "{\"version\":1,")
            .unwrap();
        assert!(matches!(store.record(), Err(StoreError::Record(RecordError::Damaged(_)))));
        let announced = Announced {
            kind: Shutdown::Reboot,
            usec: 7,
            plan: "p".into(),
            stage: Stage::Announced,
            prepared: None,
        };
        store.announce(Some(&announced)).unwrap();
        assert_eq!(store.announced(), Some(announced));
        store.announce(None).unwrap();
        store.announce(None).unwrap();
        assert_eq!(store.announced(), None);
    }
}
