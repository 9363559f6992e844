//! The mounted file system that a device of GRUB's is.

use super::node_of;
use crate::kind::cmdline::mounts::{Mount, Mounts};
use bedplate_cmdline::boot::grub_cfg::Device;
use bedplate_host::Reader;

/// File systems that no boot loader reads: what is mounted is not what it finds on the disk.
const NOT_ON_DISK: [&str; 9] =
    ["overlay", "tmpfs", "ramfs", "rootfs", "squashfs", "nfs", "nfs4", "9p", "virtiofs"];

/// Whether the device is mounted.
pub(super) enum MountState<'a> {
    /// By this mount, perhaps among others.
    Here(&'a Mount),
    /// It is not, by what names it.
    Elsewhere(String),
    /// The device, or what is mounted, cannot be told.
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
    // udev names pools of ZFS otherwise than GRUB does.
    if let Some(pool) = mounts.covering(own).filter(|mount| mount.kind == "zfs") {
        return MountState::Here(pool);
    }
    // A sandbox or a recording without udev's links tells nothing of them.
    if reader.exists(directory) != Ok(true) {
        return MountState::NotKnown;
    }
    // udev writes the ids of FAT in capitals, GRUB compares them without regard to case.
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

/// Names of the node that is mounted: by the mount's source, which may be `/dev/root`, and by its device number.
fn nodes(reader: &dyn Reader, mount: &Mount) -> Vec<String> {
    let by_number = reader.link(&format!("/sys/dev/block/{}", mount.device)).ok();
    let by_number = by_number.and_then(|target| target.rsplit('/').next().map(str::to_owned));
    node_of(reader, &mount.source).into_iter().chain(by_number).collect()
}

/// Whether a mount of btrfs is of the file system with this UUID, of whichever of its devices
/// (fs/btrfs/sysfs.c, `devices`).
fn is_part_of(reader: &dyn Reader, mount: &Mount, uuid: &str) -> bool {
    let devices = || reader.list(&format!("/sys/fs/btrfs/{uuid}/devices")).unwrap_or_default();
    mount.kind == "btrfs"
        && node_of(reader, &mount.source).is_some_and(|own| devices().contains(&own))
}
