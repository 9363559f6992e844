//! Which boot of the kernel this is: 36 characters, new at every start (drivers/char/random.c).

use std::path::Path;

use super::Reader;
use crate::file;
use bedplate_base::ReadError;

/// Where the kernel shows it, inside the host.
pub const PATH: &str = "/proc/sys/kernel/random/boot_id";

/// The boot that a host is in.
///
/// # Errors
/// Why it cannot be read.
pub fn read(reader: &dyn Reader) -> Result<String, ReadError> {
    reader.attribute(PATH)
}

/// The boot of the machine below `root`; a tree that has no `/proc` is in the boot of the machine that it lies on.
/// Empty where even that is not readable.
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
    fn a_tree_has_its_own_boot_or_that_of_this_machine() {
        let root = tempfile::tempdir().unwrap();
        let own = std::fs::read_to_string(PATH).unwrap();
        assert_eq!(below(root.path()), own.trim());
        let path = root.path().join(PATH.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "boot-7\n").unwrap();
        assert_eq!(below(root.path()), "boot-7");
    }
}
