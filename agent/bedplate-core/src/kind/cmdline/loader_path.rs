//! Maps paths of a boot loader to files of this host. GRUB's paths start at the root of a file system, wherever its
//! parts are mounted. A path that cannot be mapped is unknown, never missing.

mod device;
mod grub_link;

use super::boot_entry::Place;
use super::mounts::{Mount, Mounts, below, unmounted};
use bedplate_base::{Reading, Reason};
use bedplate_cmdline::boot::grub_cfg::Device;
use bedplate_host::Reader;
use device::MountState;
use grub_link::Followed;

/// Result of locating a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Location {
    /// Exists at this path on this host.
    There(String),
    /// Proved missing at this path on this host.
    Missing(String),
    /// A link that GRUB resolves within its file system, where the target does not exist.
    Unreachable {
        /// The link.
        path: String,
        /// The target, by its path on this host.
        to: String,
    },
    /// May exist.
    Unknown(Reason),
}

/// Usual mount points of file systems that contain the files of a loader.
const USUAL: [&str; 4] = ["", "/boot", "/boot/efi", "/efi"];

/// Locates a file that a boot entry loads.
pub(crate) fn locate(reader: &dyn Reader, place: &Place, path: &str) -> Location {
    match place {
        Place::Host => exactly(reader, path.to_owned()),
        Place::Partition(point) => {
            exactly(reader, format!("{point}/{}", path.trim_start_matches('/')))
        }
        Place::Grub { device, own } => match unmounted(reader, own) {
            Reading::Absent => on_device(reader, device, own, path),
            Reading::Known(point) => Location::Unknown(
                format!("{point} is not mounted; the default boot entry loads files from it")
                    .into(),
            ),
            Reading::Unknown(why) => Location::Unknown(why),
        },
    }
}

fn exactly(reader: &dyn Reader, path: String) -> Location {
    match reader.exists(&path) {
        Ok(true) => Location::There(path),
        Ok(false) => Location::Missing(path),
        Err(error) => Location::Unknown(error.into()),
    }
}

fn on_device(reader: &dyn Reader, device: &Device, own: &str, path: &str) -> Location {
    let (device, path) = match path.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        Some(("$root" | "", rest)) => (device.clone(), rest),
        Some((_, rest)) => (Device::Other, rest),
        None => (device.clone(), path),
    };
    let path = path.replace("//", "/");
    if path.contains('$') || !path.starts_with('/') {
        return Location::Unknown(
            format!("`{path}` depends on variables that only GRUB knows").into(),
        );
    }
    let Ok(mounts) = Mounts::read(reader) else {
        return locate_by_usual_mounts(reader, &path, &|_| true);
    };
    match device::mounted(reader, &mounts, &device, own) {
        MountState::Here(chosen) => {
            let places = places(&mounts, chosen, &path);
            match places.is_empty() {
                // The part of the file system is not mounted, or the mounts do not show it.
                true => locate_by_usual_mounts(reader, &path, &|host| {
                    mounts.covering(host).is_some_and(|mount| mount.is_same_file_system(chosen))
                }),
                false => locate_by_mounts(reader, &mounts, places, &path),
            }
        }
        MountState::Elsewhere(name) => Location::Unknown(
            format!(
                "GRUB loads {path} from the file system with {name}, which is not mounted here"
            )
            .into(),
        ),
        MountState::NotKnown => locate_by_usual_mounts(reader, &path, &|_| true),
    }
}

/// Locates the file by the mounts of its file system.
fn locate_by_mounts(
    reader: &dyn Reader,
    mounts: &Mounts,
    places: Vec<String>,
    path: &str,
) -> Location {
    let mut unread = None;
    for host in &places {
        match grub_link::followed(reader, mounts, host) {
            Followed::Plain => {}
            Followed::To(to) => {
                let is_elsewhere =
                    reader.exists(&to) == Ok(false) && reader.exists(host) == Ok(true);
                return match is_elsewhere {
                    true => Location::Unreachable { path: host.clone(), to },
                    false => exactly(reader, to),
                };
            }
            Followed::NotKnown(why) => return Location::Unknown(why),
        }
        match reader.exists(host) {
            Ok(true) => return Location::There(host.clone()),
            Ok(false) => {}
            Err(error) => unread = unread.or(Some(error)),
        }
    }
    if let Some(host) = usual_paths(path).into_iter().find(|host| reader.exists(host) == Ok(true)) {
        return Location::Unknown(
            format!("{path} is not on the device that GRUB reads, but {host} exists").into(),
        );
    }
    match (unread, places.into_iter().next()) {
        (Some(error), _) => Location::Unknown(error.into()),
        (None, Some(host)) => Location::Missing(host),
        (None, None) => not_mounted(path),
    }
}

/// Locates the file at the usual mount points for which `may_be` is true.
fn locate_by_usual_mounts(
    reader: &dyn Reader,
    path: &str,
    may_be: &dyn Fn(&str) -> bool,
) -> Location {
    let mut unread = None;
    for host in usual_paths(path).into_iter().filter(|host| may_be(host)) {
        match reader.exists(&host) {
            Ok(true) => return Location::There(host),
            Ok(false) => {}
            Err(error) => unread = unread.or(Some(error)),
        }
    }
    unread.map_or_else(|| not_mounted(path), |error| Location::Unknown(error.into()))
}

/// Returns the possible host paths of a loader's path, by the usual mount points.
pub(crate) fn usual_paths(path: &str) -> Vec<String> {
    let usual = USUAL.iter().map(|directory| format!("{directory}{path}"));
    // A leading subvolume that the mounts do not show.
    let inside = path.strip_prefix("/@").and_then(|rest| rest.split_once('/'));
    usual.chain(inside.map(|(_, rest)| format!("/{rest}"))).collect()
}

fn not_mounted(path: &str) -> Location {
    Location::Unknown(
        format!("the device of {path}, which the default boot entry loads, is not mounted here")
            .into(),
    )
}

/// Returns the host paths of a path on a mounted file system.
fn places(mounts: &Mounts, chosen: &Mount, path: &str) -> Vec<String> {
    let same = mounts.iter().filter(|mount| {
        let both_zfs = mount.kind == "zfs" && chosen.kind == "zfs";
        both_zfs || mount.is_same_file_system(chosen)
    });
    let places = same.filter_map(|mount| {
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

/// Returns the name of a device node after following links: `dm-0` for `/dev/mapper/vg-root`. `None` for a missing udev
/// link.
pub(crate) fn node_of(reader: &dyn Reader, path: &str) -> Option<String> {
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
