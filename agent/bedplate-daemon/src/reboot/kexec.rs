//! Whether a reboot would skip the firmware: some distributions turn `reboot` into kexec when a kernel is loaded
//! (handbook §2.4), and then nothing of what the reboot is for happens. Reads one file, changes nothing.

use std::path::Path;

/// `1` while a kernel is loaded for kexec (`kernel/ksysfs.c`). Not `kexec_crash_loaded`: kdump's kernel waits for a
/// crash and has no part in a reboot.
const LOADED: &str = "/sys/kernel/kexec_loaded";

/// Why a machine must not be rebooted for now.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KexecBlock {
    /// A kernel is loaded, or the file says something else that is not "none".
    #[error(
        "a kernel is loaded for kexec ({LOADED} reads `{value}`), so a reboot may skip the firmware; unload it with \
            `kexec --unload`"
    )]
    Loaded {
        /// Content of the file.
        value: String,
    },
    /// It cannot be found out. Unknown is never fine.
    #[error(
        "whether a kernel is loaded for kexec is unknown: {LOADED} cannot be read; check that /sys is mounted"
    )]
    Unknown(#[source] std::io::Error),
}

/// What keeps the machine under `root` from a reboot through its firmware; `None` = nothing.
pub(crate) fn block(root: &Path) -> Option<KexecBlock> {
    let path = super::method::under(root, LOADED);
    match std::fs::read_to_string(&path) {
        Ok(text) if text.trim() == "0" => None,
        Ok(text) => Some(KexecBlock::Loaded { value: text.trim().to_owned() }),
        // Without CONFIG_KEXEC_CORE the directory is there and the file is not. Without the directory there is no
        // sysfs to ask.
        Err(error)
            if error.kind() == std::io::ErrorKind::NotFound
                && path.parent().is_some_and(Path::is_dir) =>
        {
            None
        }
        Err(error) => Some(KexecBlock::Unknown(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reboot::method::tests::Tree;

    #[test]
    fn only_a_plain_zero_or_no_kexec_support_lets_a_reboot_pass() {
        let tree = Tree::new("kexec");
        assert!(matches!(block(&tree.0), Some(KexecBlock::Unknown(_))), "no sysfs at all");
        tree.put("/sys/kernel/fscaps", "1\n");
        assert!(block(&tree.0).is_none(), "no kexec support");
        tree.put(LOADED, "0\n");
        assert!(block(&tree.0).is_none());
        for loaded in ["1\n", "", "what"] {
            tree.put(LOADED, loaded);
            let said = block(&tree.0).unwrap().to_string();
            assert!(said.contains(&format!("reads `{}`", loaded.trim())), "{said}");
        }
        std::fs::remove_file(under(&tree)).unwrap();
        std::fs::create_dir(under(&tree)).unwrap();
        assert!(matches!(block(&tree.0), Some(KexecBlock::Unknown(_))), "unreadable");
    }

    fn under(tree: &Tree) -> std::path::PathBuf {
        crate::reboot::method::under(&tree.0, LOADED)
    }
}
