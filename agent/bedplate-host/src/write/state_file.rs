//! Replaces bedplate's own small files on this machine: state, metrics, holds. The ledger does not record them, and
//! their old metadata is not kept.

use std::io::{Error, ErrorKind};
use std::os::fd::AsRawFd as _;
use std::path::Path;

use nix::errno::Errno;
use nix::unistd::{UnlinkatFlags, fsync, unlinkat};

use super::replace::KeptMeta;
use super::resolve::Place;
use super::{DirWriter, trusted_directory};
use crate::Expected;

/// Makes `path` hold `bytes`, with this mode independent of the umask. A missing directory is created with
/// `directory_mode`. After a power cut there is the old file or the new one, never part of one. A link of this name is
/// replaced, not followed, because other users may write the directory of a metrics collector.
///
/// # Errors
/// A system error.
pub fn replace_own_file(
    path: &Path,
    bytes: &[u8],
    mode: u32,
    directory_mode: u32,
) -> std::io::Result<()> {
    replace(DirWriter::live(), path, bytes, mode, directory_mode)
}

/// Replaces a world-readable file that the next change writes again (metrics, labels). Does not wait for the disk: a
/// disk that hangs must not block the writer. A reader sees the old text or the new one; after a power cut the file may
/// be lost.
///
/// # Errors
/// A system error.
pub fn replace_public_file(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    replace(DirWriter { durable: false, ..DirWriter::live() }, path, bytes, 0o644, 0o755)
}

/// Removes a file durably. Returns whether it existed.
///
/// # Errors
/// A system error.
pub fn remove_own_file(path: &Path) -> std::io::Result<bool> {
    let (_, parent, name) = named(path)?;
    let Some(directory) = trusted_directory::directory(parent)? else { return Ok(false) };
    match unlinkat(&directory, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) => {}
        Err(Errno::ENOENT) => return Ok(false),
        Err(errno) => return Err(errno.into()),
    }
    fsync(&directory)?;
    Ok(true)
}

/// Removes a directory with its content. Succeeds if it is missing. A link of this name is removed, not its target.
///
/// # Errors
/// A system error.
pub fn remove_own_directory(path: &Path) -> std::io::Result<()> {
    let (_, parent, name) = named(path)?;
    let Some(directory) = trusted_directory::directory(parent)? else { return Ok(()) };
    // Use the opened directory, independent of its current name.
    match std::fs::remove_dir_all(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd())) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Returns the name of the temporary file next to the file `name` while it is written.
pub fn temporary(name: &str) -> String {
    format!(".{name}.tmp")
}

/// Returns an absolute path, its directory and its last component.
fn named(path: &Path) -> std::io::Result<(&str, &str, &str)> {
    if !path.is_absolute() {
        let why = format!("{} is not an absolute path", path.display());
        return Err(Error::new(ErrorKind::InvalidInput, why));
    }
    let text = path.to_str().zip(path.file_name().and_then(|name| name.to_str()));
    let (text, name) =
        text.ok_or_else(|| Error::new(ErrorKind::InvalidInput, "the path is not UTF-8"))?;
    Ok((text, text.rsplit_once('/').map_or("/", |(parent, _)| parent), name))
}

fn replace(
    mut writer: DirWriter,
    path: &Path,
    bytes: &[u8],
    mode: u32,
    directory_mode: u32,
) -> std::io::Result<()> {
    let (text, parent, name) = named(path)?;
    let place = match trusted_directory::directory(parent)? {
        Some(directory) => Place { directory, name: name.to_owned(), linked: false },
        None => writer.locate_itself(text, directory_mode)?,
    };
    // All writes of this file use one name, so the next one removes what a killed run left. It is hidden from readers
    // of `*.prom` or feature files, and `apply` does not clean up this name: another process may be writing it.
    let temporary = temporary(name);
    match unlinkat(&place.directory, temporary.as_str(), UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let keep = KeptMeta::Found { new_mode: mode };
    Ok(writer.replace_by_rename(
        text,
        &place,
        &temporary,
        bytes,
        (&keep, None, Expected::Anything),
    )?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::Gate;
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn only_durable_writes_are_synced() {
        let root = tempfile::tempdir().unwrap();
        for (durable, expected) in [(true, 2), (false, 0)] {
            let syncs = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&syncs);
            let gate: Gate = Box::new(move |what, _| {
                count.fetch_add(usize::from(what.starts_with("sync")), Ordering::Relaxed);
                Ok(())
            });
            let writer = DirWriter { durable, ..DirWriter::live().gated(gate) };
            replace(writer, &root.path().join("x"), b"text", 0o644, 0o755).unwrap();
            assert_eq!(syncs.load(Ordering::Relaxed), expected, "durable: {durable}");
        }
    }

    #[test]
    fn modes_are_set_and_partial_file_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state/reboot.json");
        replace_own_file(&path, b"one", 0o600, 0o700).unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        std::fs::write(path.with_file_name(".reboot.json.tmp"), "half").unwrap();
        replace_own_file(&path, b"two", 0o644, 0o755).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o644, 0o700));
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn link_is_replaced_and_target_is_kept() {
        let root = tempfile::tempdir().unwrap();
        let (other, path) = (root.path().join("shadow"), root.path().join("bedplate.prom"));
        std::fs::write(&other, "secret").unwrap();
        symlink(&other, &path).unwrap();
        symlink(&other, root.path().join(".bedplate.prom.tmp")).unwrap();
        replace_own_file(&path, b"metrics", 0o644, 0o755).unwrap();
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "secret");
        assert!(path.symlink_metadata().unwrap().is_file());
    }

    /// Relative to `/`, the path would lead to another file.
    #[test]
    fn relative_path_is_rejected() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("hold.json");
        std::fs::write(&file, "kept").unwrap();
        let relative = file.strip_prefix("/").unwrap();
        for error in [
            replace_own_file(relative, b"x", 0o600, 0o700).unwrap_err(),
            replace_public_file(relative, b"x").unwrap_err(),
            remove_own_file(relative).unwrap_err(),
            remove_own_directory(relative).unwrap_err(),
            trusted_directory::directory(relative.parent().unwrap().to_str().unwrap()).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    }

    #[test]
    fn remove_returns_whether_file_existed() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state/hold.json");
        assert!(!remove_own_file(&path).unwrap());
        replace_own_file(&path, b"x", 0o600, 0o700).unwrap();
        assert!(remove_own_file(&path).unwrap());
        assert!(!remove_own_file(&path).unwrap() && !path.exists());
    }

    #[test]
    fn failed_write_keeps_old_file() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("status.json");
        std::fs::write(&path, "old").unwrap();
        std::fs::create_dir(root.path().join(".status.json.tmp")).unwrap();
        assert!(replace_own_file(&path, b"new", 0o644, 0o755).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    }
}
