//! Replaces and removes files so that a crash at any point leaves the old file or the new one, never part of one.

use std::os::fd::OwnedFd;

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, fsync, unlinkat};
use rustix::rand::{GetRandomFlags, getrandom};

use super::error_text::{Fault, failed_to, from_rustix};
use super::resolve::{Location, Place};
use super::unlink::unlink_in_order;
use super::{DirWriter, meta};
use crate::{Expected, FileMeta};

/// Names of temporary files: hidden, and with a suffix that no reader of `*.cfg`, `*.conf` or `*.rules` accepts.
const TEMP_START: &str = ".bedplate-";
const TEMP_END: &str = ".tmp";
/// Random hex digits between the two, so that other users of the directory cannot guess the name.
const TEMP_DIGITS: usize = 16;

/// Metadata of the new file.
pub(super) enum KeptMeta<'a> {
    /// That of the old file; `new_mode` if there is no old file.
    Found { new_mode: u32 },
    /// The given metadata.
    Given(&'a FileMeta),
}

impl DirWriter {
    /// Makes `path` hold `bytes`.
    pub(super) fn replace(
        &mut self,
        path: &str,
        bytes: &[u8],
        keep: KeptMeta,
        expected: Expected,
    ) -> Result<(), Fault> {
        let place = self.locate_or_make(path)?;
        let found = place.meta()?;
        if let KeptMeta::Given(meta) = keep {
            place.may_own(meta, found.as_ref())?;
        }
        place.expect(expected)?;
        self.replace_by_rename(
            path,
            &place,
            &temp_name()?,
            bytes,
            (&keep, found.as_ref(), expected),
        )
    }

    /// Replaces the file with `bytes`, through a temporary file in the same directory.
    pub(super) fn replace_by_rename(
        &mut self,
        path: &str,
        place: &Place,
        temp_name: &str,
        bytes: &[u8],
        (keep, found, expected): (&KeptMeta, Option<&FileMeta>, Expected),
    ) -> Result<(), Fault> {
        self.pass("create", path)?;
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        // 0600 until it has its owner: no user may read early what they may not read later.
        let temp = openat(&place.directory, temp_name, flags, Mode::from_bits_truncate(0o600))
            .map_err(|errno| place.why_not("create a temporary file", errno))?;
        let in_steps = self.durable && self.renames_in_steps(place);
        let filled = self.fill(path, &temp, bytes, keep, found);
        let mut replaced = None;
        let renamed = filled.and_then(|()| self.sync_filled(path, place, &temp)).and_then(|()| {
            if in_steps {
                replaced = self.keep_old(path, place)?;
            }
            self.pass("rename", path)?;
            place.expect(expected)?;
            renameat(&place.directory, temp_name, &place.directory, place.name.as_str())
                .map_err(|errno| place.why_not("rename the new file", errno))
        });
        if let Err(fault) = renamed {
            if self.pass("unlink", path).is_ok() {
                // Report the first fault. If this fails too, the next cleanup removes the file.
                let _ = self.unlink(place, temp_name);
                let _ = self.remove_old(path, place);
            }
            return Err(fault);
        }
        if !self.durable {
            return Ok(());
        }
        self.pass("sync a directory", path)?;
        fsync(&place.directory).map_err(failed_to("sync the directory"))?;
        if !in_steps {
            return Ok(());
        }
        self.settle_renamed(path, place, (&temp, bytes), replaced)
    }

    fn fill(
        &mut self,
        path: &str,
        temp: &OwnedFd,
        bytes: &[u8],
        keep: &KeptMeta,
        found: Option<&FileMeta>,
    ) -> Result<(), Fault> {
        self.pass("write", path)?;
        write_all(temp, bytes).map_err(failed_to("write the new file"))?;
        self.pass("set the owner", path)?;
        match (keep, found) {
            (KeptMeta::Given(meta), _) => meta::give(temp, meta)?,
            (KeptMeta::Found { .. }, Some(meta)) => meta::give(temp, meta)?,
            (KeptMeta::Found { new_mode }, None) => meta::give_mode(temp, *new_mode)?,
        }
        Ok(())
    }

    fn sync_filled(&mut self, path: &str, place: &Place, temp: &OwnedFd) -> Result<(), Fault> {
        if !self.durable {
            return Ok(());
        }
        if self.renames_in_steps(place) {
            return self.sync_made(path, place, temp);
        }
        self.pass("sync", path)?;
        fsync(temp).map_err(failed_to("sync the new file"))
    }

    fn unlink(&self, place: &Place, name: &str) -> Result<(), Errno> {
        if self.renames_in_steps(place) {
            return unlink_in_order(place, name);
        }
        unlinkat(&place.directory, name, UnlinkatFlags::NoRemoveDir)
    }

    /// Removes a file.
    pub(super) fn remove(&mut self, path: &str, expected: Expected) -> Result<(), Fault> {
        let Location::Found(place) = self.locate(path)? else { return Ok(()) };
        if place.linked {
            // Neither the link nor its target is certain to be the intended file.
            return Err(Fault::refusal("unmanaged symbolic link; remove it by hand"));
        }
        if place.file()?.is_none() {
            return Ok(());
        }
        self.pass("unlink", path)?;
        place.expect(expected)?;
        self.unlink(&place, &place.name).map_err(|errno| place.why_not("unlink", errno))?;
        self.pass("sync a directory", path)?;
        fsync(&place.directory).map_err(failed_to("sync the directory"))
    }

    /// Removes the temporary files of killed runs from the directory of `path`.
    pub(super) fn remove_stale_files_next_to(&mut self, path: &str) -> Result<usize, Fault> {
        let Location::Found(place) = self.locate(path)? else { return Ok(0) };
        let stale = stale_temporary_files(&place)?;
        for name in &stale {
            self.pass("unlink", path)?;
            match self.unlink(&place, name) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(errno) => {
                    return Err(failed_to("remove a temporary file of an earlier run")(errno));
                }
            }
        }
        Ok(stale.len() + self.remove_old(path, &place)?)
    }
}

/// Writes all bytes.
pub(super) fn write_all(file: &OwnedFd, mut rest: &[u8]) -> Result<(), Errno> {
    while !rest.is_empty() {
        let written = match nix::unistd::write(file, rest) {
            Err(Errno::EINTR) => 0,
            written => written?,
        };
        rest = &rest[written..];
    }
    Ok(())
}

fn stale_temporary_files(place: &Place) -> Result<Vec<String>, Fault> {
    let mut names = Vec::new();
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut directory = Dir::openat(&place.directory, ".", flags, Mode::empty())
        .map_err(failed_to("list the directory"))?;
    for entry in directory.iter() {
        let entry = entry.map_err(failed_to("list the directory"))?;
        if let Ok(name) = entry.file_name().to_str()
            && is_temp_name(name)
            && matches!(entry.file_type(), Some(Type::File) | None)
        {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn temp_name() -> Result<String, Fault> {
    let mut random = [0_u8; TEMP_DIGITS / 2];
    let got = getrandom(&mut random[..], GetRandomFlags::empty())
        .map_err(from_rustix)
        .map_err(failed_to("get random bytes"))?;
    if got < random.len() {
        return Err(Fault::refusal("too few random bytes for a file name; run again"));
    }
    let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{TEMP_START}{digits}{TEMP_END}"))
}

fn is_temp_name(name: &str) -> bool {
    name.strip_prefix(TEMP_START).and_then(|rest| rest.strip_suffix(TEMP_END)).is_some_and(
        |digits| {
            digits.len() == TEMP_DIGITS
                && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        },
    )
}
