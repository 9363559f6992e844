//! Writes a snapshot to directories and files, for programs without snapshot support (`lspci -A linux-sysfs -O
//! sysfs.path=DIR/sys/bus/pci`, `bedplate --root DIR`).

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use bedplate_host::snapshot::{Node, Snapshot};

/// Writes every node below `directory`, which must exist. Config space is a file of its full length, with zeros where
/// nothing was recorded. Denied, failed and absent nodes are left out. A file with only its start known holds that
/// start; one known only to exist holds an empty line.
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
            // An empty file would differ: an empty kernel image does not boot.
            Node::Present => fs::write(&target, b"\n")?,
            Node::Absent | Node::Denied | Node::Failed(_) => {}
        }
    }
    Ok(())
}
