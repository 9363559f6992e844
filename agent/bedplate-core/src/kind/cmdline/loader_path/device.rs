//! Maps a GRUB device to a mounted file system.

use super::node_of;
use crate::kind::cmdline::mounts::{Mount, Mounts};
use bedplate_cmdline::boot::grub_cfg::Device;
use bedplate_host::Reader;

/// File system types that no boot loader reads: their mounted content is not what it finds on the disk.
const NOT_ON_DISK: [&str; 9] =
    ["overlay", "tmpfs", "ramfs", "rootfs", "squashfs", "nfs", "nfs4", "9p", "virtiofs"];

/// Mount state of a device.
pub(super) enum MountState<'a> {
    /// Mounted here, perhaps also elsewhere.
    Here(&'a Mount),
    /// Not mounted. Contains the name of the device.
    Elsewhere(String),
    /// The device or the mounts are unknown.
    NotKnown,
}

/// Finds the mount of the device.
pub(super) fn mounted<'a>(
    reader: &dyn Reader,
    mounts: &'a Mounts,
    device: &Device,
    own: &str,
) -> MountState<'a> {
    let (directory, what, name) = match device {
        Device::Own => {
            return mounts
                .covering(own)
                .filter(on_disk)
                .map_or(MountState::NotKnown, MountState::Here);
        }
        Device::Other => return MountState::NotKnown,
        Device::Uuid(uuid) => ("/dev/disk/by-uuid", "UUID", uuid),
        Device::Label(label) => ("/dev/disk/by-label", "label", label),
    };
    // udev and GRUB name ZFS pools differently.
    if let Some(pool) = mounts.covering(own).filter(|mount| mount.kind == "zfs") {
        return MountState::Here(pool);
    }
    // A sandbox or a snapshot without udev's links proves nothing.
    if reader.exists(directory) != Ok(true) {
        return MountState::NotKnown;
    }
    // udev writes FAT ids in capitals. GRUB ignores the case.
    let spelled = [name.clone(), name.to_uppercase(), name.to_lowercase()];
    let node = spelled.iter().find_map(|name| node_of(reader, &format!("{directory}/{name}")));
    let is_it = |mount: &&Mount| {
        on_disk(mount)
            && (nodes(reader, mount).iter().any(|own| node.as_ref() == Some(own))
                || spelled.iter().any(|uuid| is_part_of(reader, mount, uuid)))
    };
    match mounts.iter().find(is_it) {
        Some(mount) => MountState::Here(mount),
        None => MountState::Elsewhere(format!("{what} {name}")),
    }
}

fn on_disk(mount: &&Mount) -> bool {
    !NOT_ON_DISK.contains(&mount.kind.as_str())
}

/// Returns the names of a mount's device node: by the mount's source, which may be `/dev/root`, and by its device
/// number.
fn nodes(reader: &dyn Reader, mount: &Mount) -> Vec<String> {
    let by_number = reader.link(&format!("/sys/dev/block/{}", mount.device)).ok();
    let by_number = by_number.and_then(|target| target.rsplit('/').next().map(str::to_owned));
    node_of(reader, &mount.source).into_iter().chain(by_number).collect()
}

/// Whether a btrfs mount is part of the file system with this UUID, by any of its devices (fs/btrfs/sysfs.c,
/// `devices`).
fn is_part_of(reader: &dyn Reader, mount: &Mount, uuid: &str) -> bool {
    let devices = || reader.list(&format!("/sys/fs/btrfs/{uuid}/devices")).unwrap_or_default();
    mount.kind == "btrfs"
        && node_of(reader, &mount.source).is_some_and(|own| devices().contains(&own))
}
