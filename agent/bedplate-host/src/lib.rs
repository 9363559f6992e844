//! All input from and output to a host. Planning gets only a [`Reader`]; only apply, revert and seal get a [`Writer`].
//! Paths are absolute *inside* the host (`/etc/default/grub`), independent of its real directory or file. A host is a
//! running machine or an image ([`DirReader`], [`write::DirWriter`]), or a snapshot ([`snapshot::Snapshot`]).
//!
//! Depends on bedplate-base alone. Start with [`Reader`] in `host.rs`, then `dir.rs`.

pub mod boot_id;
pub mod capability;
pub mod child;
mod dir;
mod errno;
pub mod fat_backup;
pub mod file;
mod grub_mkconfig;
mod host;
mod image;
pub mod kmsg;
mod lock;
pub mod machine_id;
pub mod module;
pub mod mountinfo;
mod netlink;
pub mod package_lock;
pub mod process;
pub mod published;
pub mod snapshot;
pub mod snapshot_paths;
pub mod symlink;
mod timeout;
mod tool;
pub mod trust;
pub mod write;

pub use dir::{DirReader, ImageError, ImageRoot};
pub use host::{
    ConfigSpace, DAEMON_DIRECTORY, Expected, FileMeta, HostKind, ModifiedAt, NicCause, NicError,
    ReadCost, Reader, SHM, STATE_DIRECTORY, ToolEnd, ToolOutput, WriteError, Writer,
};
pub use kmsg::{KernelLog, LineFilter};
pub use lock::{LOCK, LockError};
pub use netlink::{any_answer, changed_links};
