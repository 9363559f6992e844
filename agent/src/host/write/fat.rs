//! Replacing files where a rename is not atomic. On FAT (the EFI system partition) it takes several sectors, and a power cut
//! between them can leave the name with neither file (fs/fat/namei_vfat.c, vfat_rename). So the old content is kept in a file
//! beside until the new one was read back, and the next run puts it back where the name was left empty.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::sys::statfs::{MSDOS_SUPER_MAGIC, fstatfs};
use nix::unistd::{UnlinkatFlags, fsync, syncfs, unlinkat};

use super::DirWriter;
use super::place::Place;
use super::replace::write_all;
use super::words::{Fault, at};

/// End of the names of old copies: no boot loader reads them (`*.conf`, `*.efi`, `*.cfg`).
const OLD: &str = ".bedplate-old";

/// Whether what is in this directory is on FAT.
pub(super) fn is_fat(directory: &OwnedFd) -> bool {
    fstatfs(directory).is_ok_and(|fs| fs.filesystem_type() == MSDOS_SUPER_MAGIC)
}

impl DirWriter {
    /// Keep a copy of what is there now; `false`: nothing is there.
    pub(super) fn keep_old(&mut self, path: &str, place: &Place) -> Result<bool, Fault> {
        let Some(old) = place.file()? else { return Ok(false) };
        let mut bytes = Vec::new();
        File::from(old)
            .read_to_end(&mut bytes)
            .map_err(|error| Fault::said(format!("read the old file: {error}")))?;
        self.pass("keep the old file", path)?;
        let name = old_name(place);
        // One of a run that was cut short: what is there now was looked at since.
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

    /// What a run that was cut short left of this: put the old copy back where there is nothing, else remove it.
    pub(super) fn mind_old(&mut self, path: &str, place: &Place) -> Result<usize, Fault> {
        let name = old_name(place);
        let copy = Place {
            directory: place.directory.try_clone().map_err(cloned)?,
            name: name.clone(),
            linked: false,
        };
        if copy.file()?.is_none() {
            return Ok(0);
        }
        let there = place.file()?.map(File::from);
        let empty = there.is_none_or(|file| file.metadata().is_ok_and(|meta| meta.len() == 0));
        self.pass("mind the old copy", path)?;
        let done = match empty {
            true => {
                renameat(&place.directory, name.as_str(), &place.directory, place.name.as_str())
            }
            false => unlinkat(&place.directory, name.as_str(), UnlinkatFlags::NoRemoveDir),
        };
        match done {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(at("mind the old copy of an earlier run")(errno)),
        }
        syncfs(&place.directory).map_err(at("sync its file system"))?;
        Ok(1)
    }
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
        DirWriter { fat: Some(true), ..DirWriter::image(root, false).unwrap().gated(gate) }
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
