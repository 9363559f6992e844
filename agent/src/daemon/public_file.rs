//! Files that other programs read: metrics, labels, status, `/run/reboot-required`.

use std::io::Write as _;
use std::path::Path;

/// A reader sees the old text or the new one. Everybody may read it, whatever the unit's umask.
pub(super) fn replace(path: &Path, text: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
    let mut name = path.file_name().unwrap_or_default().to_owned();
    // node_exporter reads `*.prom` only, and NFD no hidden files.
    name.push(".tmp");
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    let temporary = path.with_file_name(hidden);
    if let Some(directory) = path.parent()
        && !directory.is_dir()
    {
        std::fs::create_dir_all(directory)?;
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755))?;
    }
    let _ = std::fs::remove_file(&temporary);
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(text)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))?;
    drop(file);
    std::fs::rename(&temporary, path)
}
