//! Removes a name where that takes several steps (FAT).

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, fsync, unlinkat};

use super::resolve::Place;

/// Removes a name, and frees its clusters only once that is on the disk. Succeeds if it is missing.
pub(super) fn unlink_in_order(place: &Place, name: &str) -> Result<(), Errno> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let held = match openat(&place.directory, name, flags, Mode::empty()) {
        Err(Errno::ENOENT) => return Ok(()),
        held => held?,
    };
    unlinkat(&place.directory, name, UnlinkatFlags::NoRemoveDir)?;
    fsync(&place.directory)?;
    drop(held);
    Ok(())
}
