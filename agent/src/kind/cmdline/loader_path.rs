//! Files as a boot loader names them → files of this host. GRUB's paths begin at the root of a file system, whatever part of
//! it is mounted where; a path that cannot be followed is unknown, never missing.

use super::boot_entry::Place;
use super::mounts::{Mount, Mounts, below, unmounted};
use crate::boot::grub_cfg::Device;
use crate::host::{Reader, Reading, Reason};

/// Whether a file is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Located {
    /// It is there, by its path on this host.
    There(String),
    /// It is known not to be there.
    Missing(String),
    /// It may be there.
    Unknown(Reason),
}

/// File systems that no boot loader reads: what is mounted is not what it finds on the disk.
const NOT_ON_DISK: [&str; 9] =
    ["overlay", "tmpfs", "ramfs", "rootfs", "squashfs", "nfs", "nfs4", "9p", "virtiofs"];

/// Where file systems are usually mounted whose root a loader's path begins at.
const USUAL: [&str; 4] = ["", "/boot", "/boot/efi", "/efi"];

/// Finds the file.
pub fn locate(reader: &dyn Reader, place: &Place, path: &str) -> Located {
    match place {
        Place::Host => exactly(reader, path.to_owned()),
        Place::Partition(point) => {
            exactly(reader, format!("{point}/{}", path.trim_start_matches('/')))
        }
        Place::Grub { device, own } => match unmounted(reader, own) {
            Reading::Absent => on_device(reader, device, own, path),
            Reading::Known(point) => Located::Unknown(
                format!("{point} is not mounted, and what the default boot entry loads is there")
                    .into(),
            ),
            Reading::Unknown(why) => Located::Unknown(why),
        },
    }
}

fn exactly(reader: &dyn Reader, path: String) -> Located {
    match reader.exists(&path) {
        Ok(true) => Located::There(path),
        Ok(false) => Located::Missing(path),
        Err(error) => Located::Unknown(error.into()),
    }
}

fn on_device(reader: &dyn Reader, device: &Device, own: &str, path: &str) -> Located {
    let (device, path) = match path.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        Some(("$root" | "", rest)) => (device.clone(), rest),
        Some((_, rest)) => (Device::Other, rest),
        None => (device.clone(), path),
    };
    let path = path.replace("//", "/");
    if path.contains('$') || !path.starts_with('/') {
        return Located::Unknown(
            format!("`{path}` depends on variables that only GRUB knows").into(),
        );
    }
    let places = match Mounts::read(reader) {
        Ok(mounts) => mapped(reader, &mounts, &device, own, &path),
        Err(_) => Vec::new(),
    };
    let usual = USUAL.iter().map(|directory| format!("{directory}{path}"));
    // A subvolume in front, where mounts do not show it.
    let inside = path.strip_prefix("/@").and_then(|rest| rest.split_once('/'));
    let inside = inside.map(|(_, rest)| format!("/{rest}"));
    let guesses = usual.chain(inside).collect::<Vec<String>>();
    let mut unread = None;
    for host in places.iter().chain(&guesses) {
        match reader.exists(host) {
            Ok(true) if places.is_empty() || places.contains(host) => {
                return Located::There(host.clone());
            }
            Ok(true) => {
                return Located::Unknown(
                    format!("{path} is not on the device that GRUB reads, and {host} is there")
                        .into(),
                );
            }
            Ok(false) => {}
            Err(error) => unread = unread.or(Some(error)),
        }
    }
    match (unread, places.into_iter().next()) {
        (Some(error), _) => Located::Unknown(error.into()),
        (None, Some(host)) => Located::Missing(host),
        (None, None) => Located::Unknown(
            format!("the device of {path}, which the default boot entry loads, is not one that is mounted here")
                .into(),
        ),
    }
}

/// Places of the path if the device is mounted.
fn mapped(
    reader: &dyn Reader,
    mounts: &Mounts,
    device: &Device,
    own: &str,
    path: &str,
) -> Vec<String> {
    let Some(chosen) = mounted(reader, mounts, device, own) else { return Vec::new() };
    let same = |mount: &&Mount| mount.device == chosen.device && mount.source == chosen.source;
    let places = mounts.iter().filter(same).filter_map(|mount| {
        let rest = match mount.kind.as_str() {
            // `/DATASET@/path`, the data set by its path in the pool.
            "zfs" => {
                let (set, rest) = path.split_once('@')?;
                mount.source.ends_with(set).then_some(rest)?
            }
            _ => below(path, &mount.root)?,
        };
        let host = format!("{}{rest}", mount.point.trim_end_matches('/'));
        (mounts.covering(&host) == Some(mount)).then_some(host)
    });
    places.collect()
}

/// A mount of the device.
fn mounted<'a>(
    reader: &dyn Reader,
    mounts: &'a Mounts,
    device: &Device,
    own: &str,
) -> Option<&'a Mount> {
    let on_disk = |mount: &&Mount| !NOT_ON_DISK.contains(&mount.kind.as_str());
    let by = |directory: &str, name: &str| {
        let node = node_of(reader, &format!("/dev/disk/{directory}/{name}"))?;
        let is_it = |mount: &&Mount| node_of(reader, &mount.source).as_ref() == Some(&node);
        mounts.iter().filter(on_disk).find(is_it)
    };
    match device {
        Device::Own => mounts.covering(own).filter(on_disk),
        Device::Uuid(uuid) => by("by-uuid", uuid),
        Device::Label(label) => by("by-label", label),
        Device::Other => None,
    }
}

/// The name of a device node, links followed: `dm-0` of `/dev/mapper/vg-root`. A link of udev that is not there has none.
pub fn node_of(reader: &dyn Reader, path: &str) -> Option<String> {
    if !path.starts_with("/dev/") {
        return None;
    }
    let link = reader.link(path);
    if link.is_err() && path.starts_with("/dev/disk/") {
        return None;
    }
    let target = link.unwrap_or_else(|_| path.to_owned());
    target.rsplit('/').next().map(str::to_owned)
}
