//! Replacing bedplate's own small files on this machine: state, metrics, holds. No ledger knows of them, and nothing of the
//! old file is kept.

use std::io::{Error, ErrorKind};
use std::path::Path;

use super::DirWriter;
use super::replace::Keep;

/// Make `path` hold `bytes`, with this mode whatever the umask; a directory that is missing gets `directory_mode`. After a
/// power cut there is the old file or the new one, never part of one. A link of this name is replaced, not followed:
/// others may write in the directory of a metrics collector.
///
/// # Errors
/// The system's own.
pub fn replace_own_file(
    path: &Path,
    bytes: &[u8],
    mode: u32,
    directory_mode: u32,
) -> std::io::Result<()> {
    replace(DirWriter::live(), path, bytes, mode, directory_mode)
}

/// The same for what is written again with the next change (metrics, labels), without waiting for the disk: a disk that
/// hangs must not hold up who writes it. A reader sees the old text or the new one; after a power cut there may be neither.
/// Everybody may read it.
///
/// # Errors
/// The system's own.
pub fn replace_public_file(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    replace(DirWriter { durable: false, ..DirWriter::live() }, path, bytes, 0o644, 0o755)
}

fn replace(
    mut writer: DirWriter,
    path: &Path,
    bytes: &[u8],
    mode: u32,
    directory_mode: u32,
) -> std::io::Result<()> {
    let plain = || Error::new(ErrorKind::InvalidInput, "its path is not UTF-8");
    let (text, name) =
        path.to_str().zip(path.file_name().and_then(|name| name.to_str())).ok_or_else(plain)?;
    let place = writer.locate_itself(text, directory_mode)?;
    // One name for all writes of this file: what a killed run left goes with the next. Hidden from who reads `*.prom` or
    // feature files, and no name that `apply` sweeps: another process may be writing it.
    let temporary = format!(".{name}.tmp");
    match std::fs::remove_file(path.with_file_name(&temporary)) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let keep = Keep::Found { new_mode: mode };
    Ok(writer.put(text, &place, &temporary, bytes, (&keep, None))?)
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
    fn only_state_waits_for_the_disk() {
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
    fn directory_and_file_get_their_modes_and_what_was_cut_short_goes() {
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
    fn a_link_is_replaced_and_what_it_leads_to_stays() {
        let root = tempfile::tempdir().unwrap();
        let (other, path) = (root.path().join("shadow"), root.path().join("bedplate.prom"));
        std::fs::write(&other, "secret").unwrap();
        symlink(&other, &path).unwrap();
        symlink(&other, root.path().join(".bedplate.prom.tmp")).unwrap();
        replace_own_file(&path, b"metrics", 0o644, 0o755).unwrap();
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "secret");
        assert!(path.symlink_metadata().unwrap().is_file());
    }

    #[test]
    fn where_nothing_can_be_written_the_old_file_stays() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("status.json");
        std::fs::write(&path, "old").unwrap();
        std::fs::create_dir(root.path().join(".status.json.tmp")).unwrap();
        assert!(replace_own_file(&path, b"new", 0o644, 0o755).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    }
}
