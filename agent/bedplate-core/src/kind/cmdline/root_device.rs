//! Root file system of a line: whether two lines have the same one, and whether the kernel finds it by itself.

use std::borrow::Cow;

use super::loader_path::node_of;
use bedplate_cmdline::CommandLine;
use bedplate_host::Reader;

/// Result of comparing the roots of two lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SameRoot {
    /// Same root, or the first line has no comparable root.
    Yes,
    /// The second line has no root.
    Lost,
    /// Different roots.
    No,
    /// Spelled differently, and a device is unknown.
    Unknown,
}

/// Prefixes of file system names, and the directories of udev's links to their devices.
const BY: [(&str, &str); 4] = [
    ("UUID=", "by-uuid"),
    ("PARTUUID=", "by-partuuid"),
    ("LABEL=", "by-label"),
    ("PARTLABEL=", "by-partlabel"),
];

/// Returns `root=` of a line. The kernel uses the last one (init/do_mounts.c).
pub(crate) fn root(line: &CommandLine) -> Option<String> {
    line.named("root").next_back()?.value().map(Cow::into_owned)
}

/// Compares the roots of the running line and of the line to boot.
pub(crate) fn compare(reader: &dyn Reader, before: &CommandLine, after: &CommandLine) -> SameRoot {
    let Some(one) = root(before).filter(|root| is_on_disk(root)) else { return SameRoot::Yes };
    let Some(other) = root(after) else { return SameRoot::Lost };
    if one.eq_ignore_ascii_case(&other) {
        return SameRoot::Yes;
    }
    match (device(reader, &one), device(reader, &other)) {
        (Some(one), Some(other)) if one == other => SameRoot::Yes,
        (Some(_), Some(_)) => SameRoot::No,
        // Device nodes that are not visible here may have new names.
        (None, None) if kind(&one) == Some("/dev/") => SameRoot::Unknown,
        _ if kind(&one) == kind(&other) => SameRoot::No,
        _ => SameRoot::Unknown,
    }
}

/// Whether a root is on a disk. A boot entry on a disk does not start live systems and network roots.
fn is_on_disk(root: &str) -> bool {
    BY.iter().any(|(prefix, _)| root.starts_with(prefix))
        || root.starts_with("/dev/")
            && !["/dev/nfs", "/dev/ram"].iter().any(|no| root.starts_with(no))
}

fn kind(root: &str) -> Option<&'static str> {
    let prefixes = BY.iter().map(|(prefix, _)| *prefix).chain(["/dev/"]);
    prefixes.into_iter().find(|prefix| root.starts_with(prefix))
}

fn device(reader: &dyn Reader, root: &str) -> Option<String> {
    let by = BY.iter().find_map(|(prefix, directory)| {
        let name = root.strip_prefix(prefix)?.trim_matches('"');
        Some(format!("/dev/disk/{directory}/{name}"))
    });
    let path = by.unwrap_or_else(|| root.to_owned());
    // A missing node is not a device of this host.
    reader.exists(&path).ok().filter(|there| *there)?;
    node_of(reader, &path)
}

/// Whether the kernel mounts this root without help: partitions by number, name or GPT id (init/do_mounts.c,
/// block/early-lookup.c). File systems by UUID or label, LVM, RAID and encryption need an initrd.
pub(crate) fn is_found_by_kernel(root: &str) -> bool {
    let by_helper = ["/dev/mapper/", "/dev/disk/", "/dev/md/", "/dev/vg", "/dev/ubuntu-vg/"];
    match kind(root) {
        Some("PARTUUID=" | "PARTLABEL=") => true,
        Some("/dev/") => {
            !by_helper.iter().any(|prefix| root.starts_with(prefix))
                // `/dev/VOLUME-GROUP/VOLUME`
                && !root.trim_start_matches("/dev/").contains('/')
        }
        Some(_) => false,
        // Device numbers; network roots.
        None => !root.starts_with("ZFS=") && !root.starts_with("zfs:"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_host::snapshot::{Node, Snapshot};

    #[test]
    fn root_spelled_differently_is_the_same_device() {
        let mut host = Snapshot::new(true);
        for (path, target) in [
            ("/dev/disk/by-uuid/aa", "../../vda3"),
            ("/dev/disk/by-partuuid/bb", "../../vda3"),
            ("/dev/disk/by-uuid/cc", "../../vda4"),
            ("/dev/mapper/vg-root", "../dm-0"),
            ("/dev/vg/root", "../dm-0"),
        ] {
            host.insert(path, Node::Link(target.into()));
        }
        for node in ["vda3", "vda4", "dm-0"] {
            host.insert(&format!("/dev/{node}"), Node::Present);
        }
        host.complete();
        let table = [
            ("root=UUID=aa", "root=PARTUUID=bb", SameRoot::Yes),
            ("root=UUID=aa", "root=/dev/vda3", SameRoot::Yes),
            ("root=UUID=AA", "root=UUID=aa", SameRoot::Yes),
            ("root=UUID=aa", "root=UUID=cc", SameRoot::No),
            ("root=UUID=aa", "root=UUID=dd", SameRoot::No),
            ("root=UUID=aa", "root=/dev/vda4", SameRoot::No),
            ("root=/dev/mapper/vg-root", "root=/dev/vg/root", SameRoot::Yes),
            ("root=UUID=aa", "root=LABEL=x", SameRoot::Unknown),
            ("root=/dev/sda1", "root=/dev/sda2", SameRoot::Unknown),
            ("root=/dev/vda3", "root=/dev/sda2", SameRoot::No),
            ("root=UUID=aa", "quiet", SameRoot::Lost),
            ("root=live:CDLABEL=x", "root=UUID=aa", SameRoot::Yes),
            ("root=/dev/nfs", "root=UUID=aa", SameRoot::Yes),
            ("quiet", "root=UUID=aa", SameRoot::Yes),
            ("root=UUID=cc root=UUID=aa", "root=UUID=aa", SameRoot::Yes),
        ];
        for (before, after, expected) in table {
            let (one, other) = (CommandLine::parse(before), CommandLine::parse(after));
            assert_eq!(compare(&host, &one, &other), expected, "{before} → {after}");
        }
    }

    #[test]
    fn kernel_finds_partitions_only() {
        for root in
            ["/dev/sda2", "/dev/nvme0n1p2", "PARTUUID=1-02", "PARTLABEL=r", "8:2", "/dev/nfs"]
        {
            assert!(is_found_by_kernel(root), "{root}");
        }
        for root in [
            "UUID=1",
            "LABEL=r",
            "/dev/mapper/r",
            "/dev/disk/by-uuid/1",
            "/dev/vg0/root",
            "ZFS=rpool",
        ] {
            assert!(!is_found_by_kernel(root), "{root}");
        }
    }
}
