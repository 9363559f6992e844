//! Identifies a boot of the kernel: 36 characters, new at every start (drivers/char/random.c).

use std::path::Path;

use super::Reader;
use crate::file;
use bedplate_base::ReadError;

/// Path of the boot ID, inside the host.
pub const PATH: &str = "/proc/sys/kernel/random/boot_id";

/// Returns the boot ID of a host.
///
/// # Errors
/// The file cannot be read.
pub fn read(reader: &dyn Reader) -> Result<String, ReadError> {
    reader.attribute(PATH)
}

/// Returns the boot ID of the machine below `root`. A tree without `/proc` has the ID of the machine that it is on.
/// Empty if that is unreadable too.
pub fn below(root: &Path) -> String {
    std::fs::read_to_string(file::under(root, PATH))
        .or_else(|_| std::fs::read_to_string(PATH))
        .unwrap_or_default()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_id_falls_back_to_running_machine() {
        let root = tempfile::tempdir().unwrap();
        let own = std::fs::read_to_string(PATH).unwrap();
        assert_eq!(below(root.path()), own.trim());
        let path = root.path().join(PATH.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "boot-7\n").unwrap();
        assert_eq!(below(root.path()), "boot-7");
    }
}
