//! Replacing files where a rename is not atomic. On FAT (the EFI system partition) it takes several sectors, and a power cut
//! between them can leave the name with neither file (fs/fat/namei_vfat.c, vfat_rename). So the old content is kept in a file
//! beside until the new one was read back, and the next run puts it back where the name was left empty: before it plans, and
//! only for a file whose record in the ledger says that a change of it was cut short.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::sys::statfs::{MSDOS_SUPER_MAGIC, fstatfs};
use nix::unistd::{UnlinkatFlags, fsync, syncfs, unlinkat};

use super::DirWriter;
use super::place::{Located, Place};
use super::replace::write_all;
use super::words::{Fault, at};

/// End of the names of old copies: no boot loader reads them (`*.conf`, `*.efi`, `*.cfg`).
const OLD: &str = ".bedplate-old";

/// Whether what is in this directory is on FAT.
fn is_fat(directory: &OwnedFd) -> bool {
    fstatfs(directory).is_ok_and(|fs| fs.filesystem_type() == MSDOS_SUPER_MAGIC)
}

impl DirWriter {
    /// Whether a rename here may leave the name with neither file.
    pub(super) fn renames_in_steps(&self, place: &Place) -> bool {
        self.fat.unwrap_or_else(|| is_fat(&place.directory))
    }

    /// Keep a copy of what is there now; `false`: nothing is there, and no copy either.
    pub(super) fn keep_old(&mut self, path: &str, place: &Place) -> Result<bool, Fault> {
        if is_torn(place)? {
            // The copy is all that is left of the old file.
            return Ok(true);
        }
        let Some(old) = place.file()? else { return Ok(false) };
        let mut bytes = Vec::new();
        File::from(old)
            .read_to_end(&mut bytes)
            .map_err(|error| Fault::said(format!("read the old file: {error}")))?;
        self.pass("keep the old file", path)?;
        let name = old_name(place);
        // One of a run that was cut short, and the file that it was made from is whole.
        let _ = unlinkat(&place.directory, name.as_str(), UnlinkatFlags::NoRemoveDir);
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let copy = openat(&place.directory, name.as_str(), flags, Mode::from_bits_truncate(0o600))
            .map_err(at("keep the old file beside it"))?;
        write_all(&copy, &bytes).map_err(at("keep the old file beside it"))?;
        fsync(&copy).map_err(at("sync the old file"))?;
        syncfs(&place.directory).map_err(at("sync its file system"))?;
        Ok(true)
    }

    /// The new file is in its place: only once it reads as it was written does the old copy go.
    pub(super) fn drop_old(&mut self, path: &str, place: &Place, new: &[u8]) -> Result<(), Fault> {
        syncfs(&place.directory).map_err(at("sync its file system"))?;
        let mut bytes = Vec::new();
        let there = place.file()?;
        let read = there.map(|file| File::from(file).read_to_end(&mut bytes));
        if !matches!(read, Some(Ok(_))) || bytes != new {
            return Err(Fault::said(format!(
                "it reads back otherwise than it was written; what was there before is beside it, in {}",
                old_name(place)
            )));
        }
        self.pass("remove the old copy", path)?;
        unlinkat(&place.directory, old_name(place).as_str(), UnlinkatFlags::NoRemoveDir)
            .map_err(at("remove the old copy"))?;
        fsync(&place.directory).map_err(at("sync its directory"))
    }

    /// Remove the copy that an earlier run has left beside a file that is whole; how many there were.
    pub(super) fn remove_old(&mut self, path: &str, place: &Place) -> Result<usize, Fault> {
        if !self.renames_in_steps(place) || copy(place)?.is_none() || is_torn(place)? {
            return Ok(0);
        }
        self.pass("remove the old copy", path)?;
        match unlinkat(&place.directory, old_name(place).as_str(), UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(at("remove the old copy of an earlier run")(errno)),
        }
        syncfs(&place.directory).map_err(at("sync its file system"))?;
        Ok(1)
    }

    /// Put the old copy back where a rename that was cut short left nothing; whether it did.
    pub(super) fn restore_old(&mut self, path: &str) -> Result<bool, Fault> {
        let Located::Found(place) = self.locate(path)? else { return Ok(false) };
        if !self.renames_in_steps(&place) || !is_torn(&place)? {
            return Ok(false);
        }
        self.pass("restore the old copy", path)?;
        let name = old_name(&place);
        renameat(&place.directory, name.as_str(), &place.directory, place.name.as_str())
            .map_err(at("restore the old copy of an earlier run"))?;
        syncfs(&place.directory).map_err(at("sync its file system"))?;
        Ok(true)
    }
}

/// The copy beside a file.
fn copy(place: &Place) -> Result<Option<File>, Fault> {
    let directory = place.directory.try_clone().map_err(cloned)?;
    let copy = Place { directory, name: old_name(place), linked: false };
    Ok(copy.file()?.map(File::from))
}

/// Whether there is nothing under the name, and something in the copy beside it.
fn is_torn(place: &Place) -> Result<bool, Fault> {
    let holds_nothing = |file: Option<File>| match file.map(|file| file.metadata()) {
        None => Ok(true),
        Some(meta) => meta.map(|meta| meta.len() == 0).map_err(cloned),
    };
    Ok(!holds_nothing(copy(place)?)? && holds_nothing(place.file()?.map(File::from))?)
}

fn cloned(error: std::io::Error) -> Fault {
    Fault::said(format!("look at its directory: {error}"))
}

fn old_name(place: &Place) -> String {
    format!(".{}{OLD}", place.name)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::Gate;
    use super::*;
    use crate::host::Writer as _;

    fn writer(root: &Path, gate: Gate) -> DirWriter {
        DirWriter::image(root, false).unwrap().gated(gate).on_fat()
    }

    fn free() -> Gate {
        Box::new(|_, _| Ok(()))
    }

    /// A power cut before each step, after which a name that was being renamed may be empty.
    #[test]
    fn the_old_file_or_the_new_one_is_there_after_any_cut() {
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
                writer(root.path(), free()).sweep(FILE).unwrap();
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

    /// A root with `a.conf` and the copy beside it.
    fn torn(file: &str, copy: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a.conf"), file).unwrap();
        std::fs::write(root.path().join(COPY), copy).unwrap();
        root
    }

    #[test]
    fn only_what_is_asked_for_is_restored_and_only_on_fat() {
        let text = |root: &Path| std::fs::read_to_string(root.join("a.conf")).unwrap();
        let root = torn("", "old\n");
        assert_eq!(writer(root.path(), free()).sweep("/a.conf").unwrap(), 0);
        assert_eq!(text(root.path()), "", "sweeping restores nothing");
        let mut other = DirWriter { fat: Some(false), ..writer(root.path(), free()) };
        assert!(!other.restore_cut_short("/a.conf").unwrap());
        assert!(writer(root.path(), free()).restore_cut_short("/a.conf").unwrap());
        assert_eq!(text(root.path()), "old\n");
        assert!(!root.path().join(COPY).exists());
        // Elsewhere the name is not bedplate's.
        let root = torn("now\n", "theirs\n");
        let mut other = DirWriter { fat: Some(false), ..writer(root.path(), free()) };
        assert_eq!(other.sweep("/a.conf").unwrap(), 0);
        assert!(root.path().join(COPY).exists());
        assert_eq!(writer(root.path(), free()).sweep("/a.conf").unwrap(), 1);
        assert_eq!(text(root.path()), "now\n");
    }

    #[test]
    fn the_copy_of_a_file_that_is_gone_outlives_another_cut() {
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

    #[test]
    fn a_replacement_that_fails_leaves_no_copy() {
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
    fn a_new_file_needs_no_copy() {
        let root = tempfile::tempdir().unwrap();
        let mut writer = writer(root.path(), free());
        writer.replace_file("/a.conf", b"one", 0o644).unwrap();
        writer.replace_file("/a.conf", b"two", 0o644).unwrap();
        assert_eq!(std::fs::read(root.path().join("a.conf")).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
    }
}
