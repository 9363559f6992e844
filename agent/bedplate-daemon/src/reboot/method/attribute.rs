//! Access to the sysfs attributes that the reboot methods need, under a root directory.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{MethodError, Unusable, under, unusable};

/// Reads an attribute, with surrounding white space removed.
///
/// # Errors
/// If it cannot be read.
pub fn read(root: &Path, path: &str) -> Result<String, MethodError> {
    match std::fs::read_to_string(under(root, path)) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(source) => Err(MethodError::read(path, source)),
    }
}

/// Writes an attribute in one write(2). The attribute must exist: no file is created.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write(root: &Path, path: &str, value: &str) -> Result<(), MethodError> {
    let opened = OpenOptions::new().write(true).truncate(true).open(under(root, path));
    let written = opened.and_then(|mut file| file.write_all(value.as_bytes()));
    written.map_err(|source| MethodError {
        what: format!("cannot write `{value}` to {path}"),
        source: Some(source),
    })
}

/// Writes an attribute, and checks that it reads back the value.
///
/// # Errors
/// If it cannot be written or read, or reads another value.
pub(crate) fn write_and_check(root: &Path, path: &str, value: &str) -> Result<(), MethodError> {
    write(root, path, value)?;
    let found = read(root, path)?;
    if found == value {
        return Ok(());
    }
    let what = format!("{path} reads `{found}` after writing `{value}`");
    Err(MethodError::new(what))
}

/// Checks that an attribute could be written, without writing: by its mode, which root may ignore elsewhere but not in sysfs
/// (`KERNFS_ROOT_EXTRA_OPEN_PERM_CHECK`), and by opening it, which fails on a read-only /sys.
///
/// # Errors
/// The obstacle.
pub(crate) fn writable(root: &Path, path: &str) -> Result<(), Unusable> {
    let real = under(root, path);
    let meta = match real.metadata() {
        Ok(meta) => meta,
        Err(error) => return unusable(format!("{path}: {error}")),
    };
    if meta.permissions().mode() & 0o222 == 0 {
        return unusable(format!("{path} is read-only"));
    }
    match OpenOptions::new().write(true).open(real) {
        Ok(_) => Ok(()),
        Err(error) => unusable(format!(
            "cannot write {path} ({error}); run as root, outside a container, without ProtectKernelTunables="
        )),
    }
}
