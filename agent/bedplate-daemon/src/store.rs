//! The daemon's few small files: the record of reboots and the known devices. Each is replaced whole. Commands beside the daemon
//! change the record too: who reads it to write it holds its lock.

use std::fs::{DirBuilder, File, TryLockError};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::statfs::{FsType, OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC, statfs};

use super::devices::{self, KnownDevices};
use bedplate_core::reboot_record::{RECORD, Record, RecordError};
use bedplate_host::write::replace_own_file;
use bedplate_host::{DAEMON_DIRECTORY as STATE, file};

/// Below which directory they lie (`/`).
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

/// Why one of them cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be read or written: the whole sentence.
    #[error("{0}")]
    File(String),
    /// It was read, and is no record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Its lock cannot be had.
    #[error("cannot lock {STATE}: {0}")]
    Lock(std::io::Error),
}

/// The right to change the record, until it is dropped.
#[derive(Debug)]
pub struct RecordLock(#[allow(dead_code)] File);

/// Longest wait for the lock: it is held over one request to logind at most.
const LOCK_LIMIT: Duration = Duration::from_secs(30);
/// Wait between two tries.
const LOCK_AGAIN: Duration = Duration::from_millis(20);

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
        file::under(&self.root, path)
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

    /// Waits for the right to change the record. The lock is on the directory, which only root can open.
    ///
    /// # Errors
    /// [`StoreError::Lock`].
    pub async fn lock(&self) -> Result<RecordLock, StoreError> {
        let path = self.at(STATE);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        let directory = made.and_then(|()| File::open(&path)).map_err(StoreError::Lock)?;
        let begun = Instant::now();
        loop {
            match directory.try_lock() {
                Ok(()) => return Ok(RecordLock(directory)),
                Err(TryLockError::Error(error)) => return Err(StoreError::Lock(error)),
                Err(TryLockError::WouldBlock) if begun.elapsed() > LOCK_LIMIT => {
                    let why = "another bedplate has it";
                    return Err(StoreError::Lock(Error::new(ErrorKind::WouldBlock, why)));
                }
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_AGAIN).await,
            }
        }
    }

    /// Whether there is a record.
    pub fn has_record(&self) -> bool {
        self.at(RECORD).symlink_metadata().is_ok()
    }

    /// The record. One that is not there is empty.
    ///
    /// # Errors
    /// [`StoreError`]; then nothing may be rebooted, since nobody would count.
    pub fn record(&self) -> Result<Record, StoreError> {
        match file::text(&self.at(RECORD)) {
            Ok(text) => Ok(Record::parse(&text)?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Record::default()),
            Err(error) => Err(StoreError::File(format!("cannot read {RECORD}: {error}"))),
        }
    }

    /// Keeps the record; it is on the disk when this returns.
    ///
    /// # Errors
    /// [`StoreError::File`].
    pub fn keep(&self, _: &RecordLock, record: &Record) -> Result<(), StoreError> {
        self.replace(RECORD, &record.render())
    }

    /// What the profile's rules selected last. One that cannot be understood is made again.
    pub fn devices(&self) -> KnownDevices {
        let text = file::text(&self.at(devices::FILE)).unwrap_or_default();
        KnownDevices::parse(&text).unwrap_or_default()
    }

    /// Keeps that.
    ///
    /// # Errors
    /// [`StoreError::File`].
    pub fn keep_devices(&self, known: &KnownDevices) -> Result<(), StoreError> {
        self.replace(devices::FILE, &known.render())
    }

    /// Only root may read it.
    fn replace(&self, path: &str, text: &str) -> Result<(), StoreError> {
        replace_own_file(&self.at(path), text.as_bytes(), 0o600, 0o700)
            .map_err(|error| StoreError::File(format!("cannot write {path}: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_in_memory_is_known() {
        assert_eq!(volatile(Path::new("/dev/shm")), Some("tmpfs"));
        assert_eq!(volatile(Path::new("/proc")), None);
        assert_eq!(Store::new(Path::new("/dev/shm")).is_forgotten(), None, "a test's");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn kept_record_reads_back_and_damaged_one_is_error() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::new(root.path());
        assert_eq!(store.record().unwrap(), Record::default());
        let record = Record { waiting: Some("b".into()), ..Record::default() };
        let lock = store.lock().await.unwrap();
        store.keep(&lock, &record).unwrap();
        assert_eq!(store.record().unwrap(), record);
        std::fs::write(root.path().join("var/lib/bedplate/daemon/reboot.json"), "{\"version\":2,")
            .unwrap();
        assert!(matches!(store.record(), Err(StoreError::Record(RecordError::Damaged(_)))));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn record_lock_is_held_by_one_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::new(root.path());
        let lock = store.lock().await.unwrap();
        let soon = Duration::from_millis(100);
        assert!(tokio::time::timeout(soon, store.lock()).await.is_err());
        drop(lock);
        store.lock().await.unwrap();
    }
}
