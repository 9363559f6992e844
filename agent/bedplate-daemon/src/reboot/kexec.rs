//! Check for a reboot that would skip the firmware: some distributions turn `reboot` into kexec when a kernel is loaded
//! (handbook §2.4), and the reboot then does not bring the changes into effect. Reads one file, changes nothing.

use std::path::Path;

use bedplate_host::file;

/// `1` while a kernel is loaded for kexec (`kernel/ksysfs.c`). Not `kexec_crash_loaded`: kdump's kernel waits for a crash and
/// has no part in a reboot.
const LOADED: &str = "/sys/kernel/kexec_loaded";

/// Returns in one sentence why a reboot of the machine under `root` may skip the firmware; `None` if it cannot. An unknown
/// state counts as a reason.
pub(crate) fn block(root: &Path) -> Option<String> {
    let path = file::under(root, LOADED);
    match file::text(&path) {
        Ok(text) if text.trim() == "0" => None,
        Ok(text) => Some(format!(
            "a kernel is loaded for kexec ({LOADED} reads `{}`), so a reboot may skip the firmware; run `kexec \
             --unload`",
            text.trim()
        )),
        // Without CONFIG_KEXEC_CORE the directory exists without the file. Without the directory sysfs is not mounted.
        Err(error)
            if error.kind() == std::io::ErrorKind::NotFound
                && path.parent().is_some_and(Path::is_dir) =>
        {
            None
        }
        Err(error) => Some(format!(
            "unknown whether a kernel is loaded for kexec: cannot read {LOADED}; check that /sys is mounted: {error}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reboot::method::tests::Tree;

    #[test]
    fn only_zero_or_no_kexec_support_allows_a_reboot() {
        let tree = Tree::new();
        let is_unknown = || block(&tree.0).unwrap().contains("unknown whether");
        assert!(is_unknown(), "no sysfs at all");
        tree.put("/sys/kernel/fscaps", "1\n");
        assert!(block(&tree.0).is_none(), "no kexec support");
        tree.put(LOADED, "0\n");
        assert!(block(&tree.0).is_none());
        for loaded in ["1\n", "", "what"] {
            tree.put(LOADED, loaded);
            let said = block(&tree.0).unwrap();
            assert!(said.contains(&format!("reads `{}`", loaded.trim())), "{said}");
        }
        let path = file::under(&tree.0, LOADED);
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(is_unknown(), "unreadable");
    }
}
