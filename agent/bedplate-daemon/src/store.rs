//! The daemon's state files: the record of reboots and the known devices. Each is replaced as a whole. Commands also change
//! the record, so a reader that writes it back must hold its lock.

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

/// State files below a root directory (`/`).
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

/// Error of reading, writing or locking a state file.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file cannot be read or written; a complete sentence.
    #[error("{0}")]
    File(String),
    /// The file was read, but is not a valid record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The lock cannot be acquired.
    #[error("cannot lock {STATE}: {0}")]
    Lock(std::io::Error),
}

/// Permission to change the record, until dropped.
#[derive(Debug)]
pub struct RecordLock(#[allow(dead_code)] File);

/// Longest wait for the lock; it is held during one request to logind at most.
const LOCK_LIMIT: Duration = Duration::from_secs(30);
/// Interval between two attempts.
const LOCK_AGAIN: Duration = Duration::from_millis(20);

/// Returns the type of file system at `path` if a boot empties it (include/uapi/linux/magic.h). Live systems and stateless
/// nodes keep their root in memory by an overlay; the location of its upper directory is not visible here.
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
    /// Creates a store for files below `root`.
    pub fn new(root: &Path) -> Self {
        Store { root: root.to_owned() }
    }

    fn at(&self, path: &str) -> PathBuf {
        file::under(&self.root, path)
    }

    /// Returns why the record would not survive a boot; `None` if it survives. Attempts could then not be counted, and the
    /// host could be rebooted endlessly.
    pub fn is_forgotten(&self) -> Option<String> {
        // Any other root belongs to a test.
        let kind = (self.root == Path::new("/")).then(|| volatile(&self.at(STATE))).flatten()?;
        Some(format!(
            "{STATE} is on {kind}, which a boot empties, so attempts cannot be counted; mount a disk there, or reboot \
             by hand"
        ))
    }

    /// Waits for permission to change the record. The lock is on the directory, which only root can open.
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
                    let why = "another bedplate process holds it";
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

    /// Reads the record; a missing one is empty.
    ///
    /// # Errors
    /// [`StoreError`]; then the host must not be rebooted, because attempts cannot be counted.
    pub fn record(&self) -> Result<Record, StoreError> {
        match file::text(&self.at(RECORD)) {
            Ok(text) => Ok(Record::parse(&text)?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Record::default()),
            Err(error) => Err(StoreError::File(format!("cannot read {RECORD}: {error}"))),
        }
    }

    /// Writes the record; it is on disk when this returns.
    ///
    /// # Errors
    /// [`StoreError::File`].
    pub fn keep(&self, _: &RecordLock, record: &Record) -> Result<(), StoreError> {
        self.replace(RECORD, &record.render())
    }

    /// Reads the known devices; an invalid file is started anew.
    pub fn devices(&self) -> KnownDevices {
        let text = file::text(&self.at(devices::FILE)).unwrap_or_default();
        KnownDevices::parse(&text).unwrap_or_default()
    }

    /// Writes the known devices.
    ///
    /// # Errors
    /// [`StoreError::File`].
    pub fn keep_devices(&self, known: &KnownDevices) -> Result<(), StoreError> {
        self.replace(devices::FILE, &known.render())
    }

    /// Replaces a file; only root may read it.
    fn replace(&self, path: &str, text: &str) -> Result<(), StoreError> {
        replace_own_file(&self.at(path), text.as_bytes(), 0o600, 0o700)
            .map_err(|error| StoreError::File(format!("cannot write {path}: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volatile_file_system_is_detected() {
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
