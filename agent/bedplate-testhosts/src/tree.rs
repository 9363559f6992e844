//! A snapshot made into directories and files, so that programs that know nothing of snapshots can read it
//! (`lspci -A linux-sysfs -O sysfs.path=DIR/sys/bus/pci`, `bedplate --root DIR`).

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use bedplate_host::snapshot::{Node, Snapshot};

/// Write every node below `directory`, which must exist. Config space becomes a file of its full length, zero where
/// nothing was recorded. What was denied, failed or absent is left out; a file of which only the start is
/// known holds that much, and one of which only the presence is known an empty line.
pub fn write_tree(snapshot: &Snapshot, directory: &Path) -> io::Result<()> {
    for (path, node) in snapshot.nodes() {
        let target = directory.join(path.trim_start_matches('/'));
        match node {
            Node::Dir(_) => fs::create_dir_all(&target)?,
            Node::File(bytes) | Node::Start(bytes) => fs::write(&target, bytes)?,
            Node::Link(text) => symlink(text, &target)?,
            Node::Config(config) => {
                let mut bytes = vec![0; usize::from(config.length)];
                for (at, block) in &config.blocks {
                    let at = usize::from(*at);
                    let end = bytes.len().min(at + block.len());
                    bytes[at..end].copy_from_slice(&block[..end - at]);
                }
                fs::write(&target, bytes)?;
            }
            // An empty file would be another one: an empty kernel image does not boot.
            Node::Present => fs::write(&target, b"\n")?,
            Node::Absent | Node::Denied | Node::Failed(_) => {}
        }
    }
    Ok(())
}
