//! Mounted file systems, and mount points where one is missing. An unmounted /boot must never be taken for an empty one.

use super::Obstacle;
use bedplate_base::{OptionalRead as _, ReadError, Reading, Reason};
use bedplate_host::Reader;
pub(super) use bedplate_host::mountinfo::Mount;
use bedplate_host::mountinfo::unescaped;

/// Mounts as the reading process sees them (proc(5)).
pub(crate) const MOUNTINFO: &str = "/proc/self/mountinfo";
/// Mounts that the operator configured (fstab(5)).
pub(crate) const FSTAB: &str = "/etc/fstab";
/// Mount points that a boot loader's files may be on, with the systemd unit that mounts each (systemd.mount(5)).
const POINTS: [(&str, &str); 5] = [
    ("/boot", "boot.mount"),
    ("/boot/efi", "boot-efi.mount"),
    ("/boot/grub", "boot-grub.mount"),
    ("/boot/grub2", "boot-grub2.mount"),
    ("/efi", "efi.mount"),
];

/// All mounts, in the order in which they were made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mounts(Vec<Mount>);

impl Mounts {
    /// Reads the mounts.
    ///
    /// # Errors
    /// If the kernel does not show the mounts.
    pub(super) fn read(reader: &dyn Reader) -> Result<Mounts, ReadError> {
        let text = reader.read(MOUNTINFO)?;
        Ok(Mounts::parse(&String::from_utf8_lossy(&text)))
    }

    fn parse(text: &str) -> Mounts {
        Mounts(text.lines().filter_map(Mount::parse).collect())
    }

    /// Iterates over all mounts.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Mount> {
        self.0.iter()
    }

    /// Returns the mount that contains a path. The last of several mounts at one point covers the rest.
    pub(super) fn covering(&self, path: &str) -> Option<&Mount> {
        let mut best: Option<&Mount> = None;
        for mount in self.0.iter().filter(|mount| below(path, &mount.point).is_some()) {
            if best.is_none_or(|best| mount.point.len() >= best.point.len()) {
                best = Some(mount);
            }
        }
        best
    }

    /// Whether a separate file system is mounted at `point`. A directory that a sandbox binds to itself does not count.
    fn is_mounted(&self, point: &str) -> bool {
        let Some(mount) = self.covering(point).filter(|mount| mount.point == point) else {
            return false;
        };
        let parent = point.rsplit_once('/').map_or("/", |(parent, _)| parent);
        let parent = if parent.is_empty() { "/" } else { parent };
        let Some(above) = self.covering(parent) else { return true };
        let inside = below(point, &above.point).unwrap_or_default();
        let same = format!("{}{inside}", above.root.trim_end_matches('/'));
        mount.device != above.device || mount.root != same
    }
}

/// Returns the part of a line of [`MOUNTINFO`] that snapshots record, for file systems that boot loaders read.
pub(crate) fn recorded_mount(line: &str) -> Option<String> {
    let Mount { point, root, device, kind, source } = Mount::parse(line)?;
    let counts = point == "/" || POINTS.iter().any(|(known, _)| *known == point);
    // Redacted: operators choose the names of volumes and pools.
    let plain = ["/dev/sd", "/dev/nvme", "/dev/vd", "/dev/xvd", "/dev/md", "/dev/dm-"];
    let is_plain = plain.iter().any(|prefix| source.starts_with(prefix));
    let source = if is_plain { source.as_str() } else { "none" };
    let is_one_word = !root.contains(char::is_whitespace);
    (counts && is_one_word).then(|| format!("0 0 {device} {root} {point} rw - {kind} {source} rw"))
}

/// Returns the part of a line of [`FSTAB`] that snapshots record.
pub(crate) fn recorded_fstab(line: &str) -> Option<String> {
    let mut fields = line.split_whitespace().skip(1);
    let (point, kind) = (fields.next()?, fields.next()?);
    let counts = POINTS.iter().any(|(known, _)| *known == point.trim_end_matches('/'));
    let is_plain = kind.bytes().all(|c| c.is_ascii_alphanumeric());
    (counts && is_plain && !line.trim_start().starts_with('#'))
        .then(|| format!("none {point} {kind} defaults 0 0"))
}

/// Returns the part of a path after a directory, with its `/`. Empty for the directory itself. `None`: not below it.
pub(super) fn below<'a>(path: &'a str, directory: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(directory.trim_end_matches('/'))?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// Returns the configured mount point at or above `path` at which nothing is mounted. `Absent`: everything is mounted.
pub(crate) fn unmounted(reader: &dyn Reader, path: &str) -> Reading<String> {
    let fstab = match reader.read(FSTAB).optional() {
        Ok(bytes) => String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned(),
        Err(error) => return Reading::unknown(error),
    };
    let in_fstab = |point: &str| {
        fstab
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'))
            .filter_map(|line| line.split_whitespace().nth(1))
            .any(|field| unescaped(field).trim_end_matches('/') == point)
    };
    let has_unit =
        |unit: &str| reader.exists(&format!("/etc/systemd/system/{unit}")).unwrap_or(false);
    let configured: Vec<&str> = POINTS
        .iter()
        .filter(|(point, unit)| below(path, point).is_some() && (in_fstab(point) || has_unit(unit)))
        .map(|(point, _)| *point)
        .collect();
    if configured.is_empty() {
        return Reading::Absent;
    }
    match Mounts::read(reader) {
        Ok(mounts) => configured
            .into_iter()
            .find(|point| !mounts.is_mounted(point))
            .map_or(Reading::Absent, |point| Reading::Known(point.to_owned())),
        Err(error) => Reading::Unknown(
            Reason::from(error).about(format!("whether {} is mounted", configured[0])),
        ),
    }
}

/// Returns an obstacle if the menu's directory does not exist. It also has GRUB's own files, so no menu can be
/// generated.
pub(crate) fn no_directory(reader: &dyn Reader, path: &str) -> Option<Obstacle> {
    let directory = path.rsplit_once('/').map_or("/", |(directory, _)| directory);
    (reader.exists(directory) == Ok(false)).then(|| Obstacle {
        reason: format!("{directory}, the directory of GRUB's boot menu, does not exist"),
        fix: "check that /boot is mounted; otherwise reinstall GRUB (`grub-install`, `grub2-install`, or its packages \
                 on UEFI hosts), then plan again"
            .into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_host::snapshot::{Node, Snapshot};

    const ROOT: &str = "29 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw\n";
    const BOOT: &str = "40 29 8:1 / /boot rw,relatime shared:2 - ext4 /dev/sda1 rw\n";
    /// Bind mount, as `ReadWritePaths=/boot` of a unit makes it.
    const BOUND: &str = "41 29 8:2 /boot /boot rw,relatime - ext4 /dev/sda2 rw\n";

    fn host(fstab: &str, mounts: Option<&str>) -> Snapshot {
        let mut host = Snapshot::new(true);
        host.insert(FSTAB, Node::File(fstab.into()));
        if let Some(mounts) = mounts {
            host.insert(MOUNTINFO, Node::File(mounts.into()));
        }
        host.complete();
        host
    }

    #[test]
    fn configured_mount_point_without_mount_is_named() {
        let fstab = "# /boot\nUUID=1 / ext4 defaults 0 1\nUUID=2 /boot/ ext4 defaults 0 2\n";
        let both = format!("{ROOT}{BOOT}");
        let bound = format!("{ROOT}{BOUND}");
        let path = "/boot/grub/grub.cfg";
        assert_eq!(unmounted(&host(fstab, Some(&both)), path), Reading::Absent);
        assert_eq!(unmounted(&host(fstab, Some(ROOT)), path), Reading::Known("/boot".into()));
        assert_eq!(unmounted(&host(fstab, Some(&bound)), path), Reading::Known("/boot".into()));
        assert!(matches!(unmounted(&host(fstab, None), path), Reading::Unknown(_)));
        assert_eq!(unmounted(&host("", Some(ROOT)), path), Reading::Absent);
        assert_eq!(unmounted(&host("#UUID=2 /boot ext4\n", None), path), Reading::Absent);
        assert_eq!(unmounted(&host(fstab, Some(ROOT)), "/efi/loader"), Reading::Absent);
    }

    #[test]
    fn subvolume_counts_as_separate_mount() {
        let fstab = "UUID=1 /boot btrfs subvol=@boot 0 0\n";
        let root = "29 1 0:28 /@ / rw - btrfs /dev/sda2 rw,subvol=/@\n";
        let boot = "40 29 0:28 /@boot /boot rw - btrfs /dev/sda2 rw,subvol=/@boot\n";
        let both = format!("{root}{boot}");
        assert_eq!(unmounted(&host(fstab, Some(&both)), "/boot/grub"), Reading::Absent);
    }

    #[test]
    fn path_is_on_the_last_mount_of_the_deepest_point() {
        let mounts = Mounts::parse(&format!(
            "{ROOT}{BOOT}42 29 8:3 / /boot rw - ext4 /dev/sda3 rw\n43 29 8:4 / /mnt\\040x rw - xfs /dev/sda4 rw\n"
        ));
        let device = |path| mounts.covering(path).map(|mount| mount.device.as_str());
        assert_eq!(device("/boot/vmlinuz"), Some("8:3"));
        assert_eq!(device("/bootx"), Some("8:2"));
        assert_eq!(device("/mnt x/y"), Some("8:4"));
    }
}
