//! Cheap check for changes of the host that no event reported.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use bedplate_core::kind::Watch;
use bedplate_host::file::{self, under};

/// Returns a hash of cheap indicators: the count of uevents (which changes when VFs are added or removed), loaded
/// modules, sizes and times of files. Reads no config space and nothing for which the kernel waits for a driver:
/// the daemon must not hang.
pub(crate) fn fingerprint(root: &Path, watch: Option<&Watch>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for path in ["sys/kernel/uevent_seqnum", "proc/modules"] {
        // Use counts of modules change all the time; only the names are hashed.
        let text = file::text(&root.join(path)).unwrap_or_default();
        text.lines().for_each(|line| line.split(' ').next().hash(&mut hasher));
    }
    for hold in [bedplate_core::enforce_hold::HOLD, bedplate_core::reboot_hold::HOLD] {
        let meta = std::fs::metadata(under(root, hold)).ok();
        meta.map(|meta| (meta.len(), meta.modified().ok())).hash(&mut hasher);
    }
    let nothing = Watch::default();
    let watch = watch.unwrap_or(&nothing);
    for directory in &watch.directories {
        let Ok(entries) = std::fs::read_dir(directory) else { continue };
        let mut entries: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        entries.sort();
        for path in entries {
            let meta = std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file);
            (path, meta.map(|meta| (meta.len(), meta.modified().ok()))).hash(&mut hasher);
        }
    }
    // The kernel returns its parameters without asking a driver. inotify may lose writes to them when memory is short.
    for path in watch.attributes.iter().filter(|path| path.starts_with("/proc/sys/")) {
        let value = file::bytes(&under(root, path)).ok();
        (path, value).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reboot::method::tests::Tree;

    /// Each indicator changes the fingerprint; other files do not.
    #[test]
    fn fingerprint_changes_only_with_its_indicators() {
        let tree = Tree::new();
        let root = tree.0.as_path();
        let directory = root.join("etc/modprobe.d").display().to_string();
        let watch = Watch {
            directories: vec![directory],
            attributes: vec![
                "/proc/sys/vm/swappiness".to_owned(),
                "/sys/devices/x/sriov_numvfs".to_owned(),
            ],
            ..Watch::default()
        };
        let mut last = fingerprint(root, Some(&watch));
        for (path, text, counts) in [
            ("sys/kernel/uevent_seqnum", "7\n", true),
            ("sys/kernel/uevent_seqnum", "8\n", true),
            ("proc/modules", "loop 1 0 - Live\n", true),
            ("proc/modules", "loop 1 9 - Live\n", false),
            ("proc/modules", "loop 1 9 - Live\nib_core 1 0 - Live\n", true),
            (bedplate_core::enforce_hold::HOLD, "one", true),
            (bedplate_core::enforce_hold::HOLD, "another", true),
            (bedplate_core::reboot_hold::HOLD, "one", true),
            ("etc/modprobe.d/a.conf", "one", true),
            ("etc/modprobe.d/a.conf", "more", true),
            ("proc/sys/vm/swappiness", "60\n", true),
            ("proc/sys/vm/swappiness", "10\n", true),
            ("sys/devices/x/sriov_numvfs", "8\n", false),
            ("etc/hosts", "one", false),
        ] {
            tree.put(path, text);
            let now = fingerprint(root, Some(&watch));
            assert_eq!(now != last, counts, "{path}: {text}");
            last = now;
        }
        std::fs::remove_file(under(root, bedplate_core::enforce_hold::HOLD)).unwrap();
        assert_ne!(fingerprint(root, Some(&watch)), last, "a hold that ends");
    }
}
