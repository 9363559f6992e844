//! Replaces files where a rename is not atomic. On FAT (the EFI system partition) it writes several sectors: the new
//! entry, the removal of the old one, and the clusters of both (fs/fat/namei_vfat.c, vfat_rename). Three rules make a
//! power cut between any two of them harmless:
//!
//! - Clusters are marked as used before an entry names them, and as free after no entry names them. An entry with free
//!   clusters reads correctly until another file gets them; removing it makes Linux switch the file system to read-only
//!   (fs/fat/fatent.c, fat_free_clusters).
//! - No two entries ever name the same clusters: the temporary name is removed before the real one gets the new file.
//! - A backup copy of the old content stays in the same directory until the new content has been read back, in case a
//!   repair empties the file (fsck.fat does that to invalid entries). The next run restores it before it plans, and
//!   only for a file whose ledger record says that a change was interrupted.
//!
//! Only fsync(2) guarantees the order: it writes the buffers of a directory or the entry of a file, then the allocation
//! table, then flushes the disk's cache (fs/fat/file.c, fat_file_fsync). syncfs(2) writes in any order and flushes
//! nothing.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::sys::statfs::{MSDOS_SUPER_MAGIC, fstatfs};
use nix::unistd::fsync;
use rustix::fs::Advice;

use super::super::{Expected, fat_backup};
use super::DirWriter;
use super::error_text::{Fault, failed_to};
use super::replace::{KeptMeta, write_all};
use super::resolve::{Location, Place};
use super::unlink::unlink_in_order;

/// Whether this directory is on FAT.
fn is_fat(directory: &OwnedFd) -> bool {
    fstatfs(directory).is_ok_and(|fs| fs.filesystem_type() == MSDOS_SUPER_MAGIC)
}

/// The file that is being replaced.
pub(super) struct ReplacedFile {
    /// Kept open, because its clusters are not freed until it is closed.
    _open: Option<File>,
}

impl DirWriter {
    /// Whether a rename here may leave the name with neither file.
    pub(super) fn renames_in_steps(&self, place: &Place) -> bool {
        self.fat.unwrap_or_else(|| is_fat(&place.directory))
    }

    /// Syncs a file that was created here: first its clusters, together with the directory, then its entry.
    pub(super) fn sync_made(
        &mut self,
        path: &str,
        place: &Place,
        file: &impl AsFd,
    ) -> Result<(), Fault> {
        self.pass("sync a directory", path)?;
        fsync(&place.directory).map_err(failed_to("sync the directory"))?;
        self.pass("sync", path)?;
        fsync(file).map_err(failed_to("sync the new file"))
    }

    /// Makes a backup copy of the current file. Returns `None`, without a copy, if there is no file.
    pub(super) fn keep_old(
        &mut self,
        path: &str,
        place: &Place,
    ) -> Result<Option<ReplacedFile>, Fault> {
        if is_torn(place)? {
            // The copy is the only remaining version of the old file.
            return Ok(Some(ReplacedFile { _open: None }));
        }
        let Some(old) = place.file()?.map(File::from) else { return Ok(None) };
        let bytes =
            read(&old).map_err(|error| Fault::refusal(format!("read the old file: {error}")))?;
        self.pass("keep the old file", path)?;
        let name = old_name(place);
        // Left by an interrupted run; its original is complete.
        unlink_in_order(place, &name)
            .map_err(failed_to("remove the backup copy of an earlier run"))?;
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let copy = openat(&place.directory, name.as_str(), flags, Mode::from_bits_truncate(0o600))
            .map_err(failed_to("back up the old file"))?;
        write_all(&copy, &bytes).map_err(failed_to("back up the old file"))?;
        self.sync_made(path, place, &copy)?;
        Ok(Some(ReplacedFile { _open: Some(old) }))
    }

    /// Finishes after the rename and the directory sync. The new entry belongs to the file, not to the directory
    /// (vfat_rename marks only the inode). Removes the backup copy once the file reads back correctly from the disk.
    pub(super) fn settle_renamed(
        &mut self,
        path: &str,
        place: &Place,
        (new, bytes): (&OwnedFd, &[u8]),
        replaced: Option<ReplacedFile>,
    ) -> Result<(), Fault> {
        self.pass("sync", path)?;
        fsync(new).map_err(failed_to("sync the new file"))?;
        let Some(replaced) = replaced else { return Ok(()) };
        // No entry on the disk names its clusters any more.
        drop(replaced);
        let there = place.file()?.map(File::from).map(|file| {
            // Drop the cached data to read from the disk. If the kernel keeps it, the read still works.
            let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
            read(&file)
        });
        if !matches!(there, Some(Ok(there)) if there == bytes) {
            return Err(Fault::refusal(format!(
                "content differs after the write; the old content is in {} in the same directory",
                old_name(place)
            )));
        }
        self.pass("remove the old copy", path)?;
        unlink_in_order(place, &old_name(place)).map_err(failed_to("remove the old copy"))
    }

    /// Removes the copy that an earlier run left next to a complete file. Returns the number of copies removed.
    pub(super) fn remove_old(&mut self, path: &str, place: &Place) -> Result<usize, Fault> {
        if !self.renames_in_steps(place) || copy(place)?.is_none() || is_torn(place)? {
            return Ok(0);
        }
        self.pass("remove the old copy", path)?;
        unlink_in_order(place, &old_name(place))
            .map_err(failed_to("remove the backup copy of an earlier run"))?;
        Ok(1)
    }

    /// Restores the old content if an interrupted replacement left the file empty. Returns whether it did. Replaces it
    /// like any other content, so another cut leaves the copy.
    pub(super) fn restore_old(&mut self, path: &str) -> Result<bool, Fault> {
        let Location::Found(place) = self.locate(path)? else { return Ok(false) };
        if !self.renames_in_steps(&place) || !is_torn(&place)? {
            return Ok(false);
        }
        let Some(copy) = copy(&place)? else { return Ok(false) };
        let bytes = read(&copy).map_err(|error| {
            Fault::refusal(format!("read the backup copy {}: {error}", old_name(&place)))
        })?;
        self.pass("restore the old copy", path)?;
        self.replace(path, &bytes, KeptMeta::Found { new_mode: 0o644 }, Expected::Anything)?;
        Ok(true)
    }
}

fn read(mut file: &File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the copy of a file.
fn copy(place: &Place) -> Result<Option<File>, Fault> {
    let directory = place.directory.try_clone().map_err(cloned)?;
    let copy = Place { directory, name: old_name(place), linked: false };
    Ok(copy.file()?.map(File::from))
}

/// Whether the file is missing or empty, and its copy is not.
fn is_torn(place: &Place) -> Result<bool, Fault> {
    let holds_nothing = |file: Option<File>| match file.map(|file| file.metadata()) {
        None => Ok(true),
        Some(meta) => meta.map(|meta| meta.len() == 0).map_err(cloned),
    };
    Ok(!holds_nothing(copy(place)?)? && holds_nothing(place.file()?.map(File::from))?)
}

fn cloned(error: std::io::Error) -> Fault {
    Fault::refusal(format!("inspect the directory: {error}"))
}

fn old_name(place: &Place) -> String {
    fat_backup::name(&place.name)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use super::super::Gate;
    use super::*;
    use crate::Writer as _;

    fn writer(root: &Path, gate: Gate) -> DirWriter {
        DirWriter::image(root, false).unwrap().gated(gate).on_fat()
    }

    fn free() -> Gate {
        Box::new(|_, _| Ok(()))
    }

    /// Simulates a power cut before each step, optionally with the renamed file emptied.
    #[test]
    fn old_or_new_file_exists_after_any_power_cut() {
        const FILE: &str = "/loader/entries/a.conf";
        let (mut steps, mut restored) = (0, 0);
        for cut in 0.. {
            for torn in [false, true] {
                let root = tempfile::tempdir().unwrap();
                let at = root.path().join(&FILE[1..]);
                std::fs::create_dir_all(at.parent().unwrap()).unwrap();
                std::fs::write(&at, "old\n").unwrap();
                let step = Arc::new(AtomicUsize::new(0));
                let passed = Arc::clone(&step);
                let gate: Gate =
                    Box::new(move |_, _| match passed.fetch_add(1, Ordering::Relaxed) {
                        now if now >= cut => Err(std::io::Error::other("power cut")),
                        _ => Ok(()),
                    });
                let done = writer(root.path(), gate).replace_file(FILE, b"new\n", 0o644);
                let beside = at.with_file_name(".a.conf.bedplate-old");
                if torn && beside.exists() {
                    std::fs::write(&at, "").unwrap();
                    restored += 1;
                }
                writer(root.path(), free()).restore_cut_short(FILE).unwrap();
                writer(root.path(), free()).remove_stale_temporary_files(FILE).unwrap();
                let now = std::fs::read_to_string(&at).unwrap();
                assert!(now == "old\n" || now == "new\n", "cut before step {cut}: {now:?}");
                let left = std::fs::read_dir(at.parent().unwrap()).unwrap().count();
                assert_eq!(left, 1, "cut before step {cut}: something was left beside it");
                if done.is_ok() && !torn {
                    assert_eq!(now, "new\n");
                    steps = cut;
                }
            }
            if steps > 0 {
                break;
            }
        }
        assert!(steps > 5 && restored > 1, "{steps} steps, {restored} restored");
    }

    const COPY: &str = ".a.conf.bedplate-old";

    /// Creates a root with `a.conf` and its copy.
    fn torn(file: &str, copy: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a.conf"), file).unwrap();
        std::fs::write(root.path().join(COPY), copy).unwrap();
        root
    }

    #[test]
    fn restore_needs_request_and_fat() {
        let text = |root: &Path| std::fs::read_to_string(root.join("a.conf")).unwrap();
        let root = torn("", "old\n");
        assert_eq!(writer(root.path(), free()).remove_stale_temporary_files("/a.conf").unwrap(), 0);
        assert_eq!(text(root.path()), "", "sweeping restores nothing");
        let mut other = DirWriter { fat: Some(false), ..writer(root.path(), free()) };
        assert!(!other.restore_cut_short("/a.conf").unwrap());
        assert!(writer(root.path(), free()).restore_cut_short("/a.conf").unwrap());
        assert_eq!(text(root.path()), "old\n");
        assert!(!root.path().join(COPY).exists());
        // On other file systems, bedplate does not own this name.
        let root = torn("now\n", "theirs\n");
        let mut other = DirWriter { fat: Some(false), ..writer(root.path(), free()) };
        assert_eq!(other.remove_stale_temporary_files("/a.conf").unwrap(), 0);
        assert!(root.path().join(COPY).exists());
        assert_eq!(writer(root.path(), free()).remove_stale_temporary_files("/a.conf").unwrap(), 1);
        assert_eq!(text(root.path()), "now\n");
    }

    #[test]
    fn backup_of_lost_file_survives_second_cut() {
        let root = torn("", "old\n");
        let cut: Gate = Box::new(|step, _| match step {
            "rename" => Err(std::io::Error::other("power cut")),
            _ => Ok(()),
        });
        assert!(writer(root.path(), cut).replace_file("/a.conf", b"new\n", 0o644).is_err());
        assert_eq!(std::fs::read_to_string(root.path().join(COPY)).unwrap(), "old\n");
        writer(root.path(), free()).replace_file("/a.conf", b"new\n", 0o644).unwrap();
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
    }

    /// Checks when Linux frees clusters with the last descriptor, and the order in which data reaches the disk.
    #[test]
    fn each_step_is_synced_before_the_next() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().canonicalize().unwrap();
        std::fs::write(directory.join("a.conf"), "old\n").unwrap();
        let replaced = directory.join("a.conf (deleted)");
        let steps = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&steps);
        let gate: Gate = Box::new(move |step, _| {
            let mut open = std::fs::read_dir("/proc/self/fd")?.flatten();
            let held = open.any(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == replaced));
            let held = if held { ", the old file open" } else { "" };
            seen.lock().unwrap().push(format!("{step}{held}"));
            Ok(())
        });
        writer(root.path(), gate).replace_file("/a.conf", b"new\n", 0o644).unwrap();
        let (clusters, entry) = ("sync a directory", "sync");
        let expected = [
            "create",
            "write",
            "set the owner",
            clusters,
            entry,
            "keep the old file",
            clusters,
            entry,
            "rename",
            "sync a directory, the old file open",
            "sync, the old file open",
            "remove the old copy",
        ];
        assert_eq!(*steps.lock().unwrap(), expected);
    }

    /// Otherwise only its name would be on the disk.
    #[test]
    fn entry_of_new_file_is_synced() {
        let root = tempfile::tempdir().unwrap();
        let steps = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&steps);
        let gate: Gate = Box::new(move |step, _| {
            seen.lock().unwrap().push(step.to_owned());
            Ok(())
        });
        writer(root.path(), gate).replace_file("/a.conf", b"new\n", 0o644).unwrap();
        let steps = steps.lock().unwrap();
        assert_eq!(steps[steps.len() - 3..], ["rename", "sync a directory", "sync"]);
    }

    /// A cut during the restore must not remove the copy.
    #[test]
    fn restore_keeps_backup_until_file_is_synced() {
        let root = torn("", "old\n");
        for step in ["rename", "sync a directory", "remove the old copy"] {
            let cut: Gate = Box::new(move |now, _| match now == step {
                true => Err(std::io::Error::other("power cut")),
                false => Ok(()),
            });
            std::fs::write(root.path().join("a.conf"), "").unwrap();
            assert!(writer(root.path(), cut).restore_cut_short("/a.conf").is_err(), "{step}");
            assert_eq!(std::fs::read_to_string(root.path().join(COPY)).unwrap(), "old\n", "{step}");
        }
        std::fs::write(root.path().join("a.conf"), "").unwrap();
        assert!(writer(root.path(), free()).restore_cut_short("/a.conf").unwrap());
        writer(root.path(), free()).remove_stale_temporary_files("/a.conf").unwrap();
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
    }

    #[test]
    fn failed_replacement_leaves_no_backup() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a.conf"), "old\n").unwrap();
        let fails: Gate = Box::new(|step, _| match step {
            "rename" => Err(std::io::Error::other("no space")),
            _ => Ok(()),
        });
        assert!(writer(root.path(), fails).replace_file("/a.conf", b"new\n", 0o644).is_err());
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
    }

    #[test]
    fn new_file_gets_no_backup() {
        let root = tempfile::tempdir().unwrap();
        let mut writer = writer(root.path(), free());
        writer.replace_file("/a.conf", b"one", 0o644).unwrap();
        writer.replace_file("/a.conf", b"two", 0o644).unwrap();
        assert_eq!(std::fs::read(root.path().join("a.conf")).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
    }
}
