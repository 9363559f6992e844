//! Whether it is worth looking at the host although nothing was heard of it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use crate::kind::Watch;

/// Cheap signs that something may have changed, none of them in config space: the count of uevents (VFs that
/// come and go are some), modules, sizes and times of files. Nothing for which the kernel waits for a driver: the daemon
/// itself must not hang.
pub fn of(root: &Path, watch: Option<&Watch>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for file in ["sys/kernel/uevent_seqnum", "proc/modules"] {
        // Use counts of modules change all the time: names are enough.
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
        text.lines().for_each(|line| line.split(' ').next().hash(&mut hasher));
    }
    for hold in [crate::enforce_hold::HOLD, crate::reboot::hold::HOLD] {
        let meta = std::fs::metadata(root.join(hold.trim_start_matches('/'))).ok();
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
    hasher.finish()
}
