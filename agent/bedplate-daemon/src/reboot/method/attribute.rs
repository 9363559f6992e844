//! Reading and writing the sysfs attributes that the reboot methods need, under a root directory.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{MethodError, Unusable, under, unusable};

/// An attribute's text without the white space around it.
///
/// # Errors
/// It cannot be read.
pub fn read(root: &Path, path: &str) -> Result<String, MethodError> {
    match std::fs::read_to_string(under(root, path)) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(source) => Err(MethodError::read(path, source)),
    }
}

/// Writes an attribute in one write(2). It must be there: nothing is created.
///
/// # Errors
/// It cannot be written.
pub(crate) fn write(root: &Path, path: &str, value: &str) -> Result<(), MethodError> {
    let opened = OpenOptions::new().write(true).truncate(true).open(under(root, path));
    let written = opened.and_then(|mut file| file.write_all(value.as_bytes()));
    written.map_err(|source| MethodError {
        what: format!("cannot write `{value}` to {path}"),
        source: Some(source),
    })
}

/// Writes an attribute, and makes sure that it shows the value.
///
/// # Errors
/// It cannot be written or read, or shows another value.
pub(crate) fn write_and_check(root: &Path, path: &str, value: &str) -> Result<(), MethodError> {
    write(root, path, value)?;
    let found = read(root, path)?;
    if found == value {
        return Ok(());
    }
    let what = format!("{path} reads `{found}` after `{value}` was written to it");
    Err(MethodError::new(what))
}

/// Whether an attribute could be written, without writing: by its mode, which root may ignore elsewhere and sysfs
/// does not (`KERNFS_ROOT_EXTRA_OPEN_PERM_CHECK`), and by opening it, which a read-only /sys refuses.
///
/// # Errors
/// What is in the way.
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
            "{path} cannot be written ({error}); run as root, outside a container and without ProtectKernelTunables="
        )),
    }
}
