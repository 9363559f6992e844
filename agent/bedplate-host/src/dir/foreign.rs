//! Directories below an image root that belong to the machine on which the image is built.

use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, fstat};
use nix::sys::statfs::{FsType, PROC_SUPER_MAGIC, SYSFS_MAGIC, fstatfs};

use crate::image::ImageRoot;

/// File systems that the kernel generates.
const KERNEL_FILESYSTEMS: [FsType; 2] = [SYSFS_MAGIC, PROC_SUPER_MAGIC];

/// A directory that belongs to that machine.
pub(super) struct Mount {
    pub(super) path: &'static str,
    pub(super) device: u64,
}

/// Finds these directories in an image.
pub(super) fn mounts(root: &ImageRoot) -> Vec<Mount> {
    let own = root.stat().map(|stat| stat.st_dev).ok();
    let paths = ["/proc", "/run", "/sys"].into_iter();
    paths.filter_map(|path| device(root, path, own).map(|device| Mount { path, device })).collect()
}

/// Returns the device number of `path` if it is a mount of the running machine, not of the image: a kernel file system,
/// or a separate `/run` (which is empty in an image that does not run).
fn device(root: &ImageRoot, path: &str, own: Option<u64>) -> Option<u64> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let fd = root.inside(path, flags, Mode::empty()).0.ok()?;
    let device = fstat(&fd).ok()?.st_dev;
    let kernel_made =
        fstatfs(&fd).is_ok_and(|fs| KERNEL_FILESYSTEMS.contains(&fs.filesystem_type()));
    (kernel_made || (path == "/run" && Some(device) != own)).then_some(device)
}
