//! Files below a mount of the running host.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

use crate::image::ImageRoot;

/// Opens a path below the mount.
pub(super) fn open(root: &ImageRoot, path: &str, flags: OFlag) -> Result<OwnedFd, Errno> {
    root.inside(path, flags | OFlag::O_CLOEXEC, Mode::empty()).0
}

/// Reads a file of the kernel below the mount.
pub(super) fn text(root: &ImageRoot, path: &str) -> std::io::Result<String> {
    let mut text = Vec::new();
    File::from(open(root, path, OFlag::O_RDONLY)?).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
