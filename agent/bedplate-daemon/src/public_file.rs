//! Files that other programs read: metrics, labels, status, `/run/reboot-required`.

use std::path::Path;

use bedplate_host::write::replace_public_file;

/// A reader sees the old text or the new one. Everybody may read it, whatever the unit's umask.
pub(super) fn replace(path: &Path, text: &[u8]) -> std::io::Result<()> {
    replace_public_file(path, text)
}
