//! Reading and writing the sysfs attributes that the reboot methods need, under a root directory.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::unusable::Unusable;
use super::{MethodError, under};

/// An attribute's text without the white space around it.
///
/// # Errors
/// [`MethodError::Read`].
pub fn read(root: &Path, path: &str) -> Result<String, MethodError> {
    match std::fs::read_to_string(under(root, path)) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(source) => Err(MethodError::Read { path: path.to_owned(), source }),
    }
}

/// Writes an attribute in one write(2). It must be there: nothing is created.
///
/// # Errors
/// [`MethodError::Write`].
pub(crate) fn write(root: &Path, path: &str, value: &str) -> Result<(), MethodError> {
    let opened = OpenOptions::new().write(true).truncate(true).open(under(root, path));
    let written = opened.and_then(|mut file| file.write_all(value.as_bytes()));
    written.map_err(|source| MethodError::Write {
        path: path.to_owned(),
        value: value.to_owned(),
        source,
    })
}

/// Writes an attribute, and makes sure that it shows the value.
///
/// # Errors
/// [`MethodError::Write`], [`MethodError::Read`], [`MethodError::Ignored`].
pub(crate) fn write_and_check(root: &Path, path: &str, value: &str) -> Result<(), MethodError> {
    write(root, path, value)?;
    let found = read(root, path)?;
    if found == value {
        return Ok(());
    }
    Err(MethodError::Ignored { path: path.to_owned(), value: value.to_owned(), found })
}

/// Whether an attribute could be written, without writing: by its mode, which root may ignore elsewhere and sysfs
/// does not (`KERNFS_ROOT_EXTRA_OPEN_PERM_CHECK`), and by opening it, which a read-only /sys refuses.
///
/// # Errors
/// What is in the way.
pub(crate) fn writable(root: &Path, path: &str) -> Result<(), Unusable> {
    let real = under(root, path);
    let meta =
        real.metadata().map_err(|source| Unusable::NotThere { path: path.to_owned(), source })?;
    if meta.permissions().mode() & 0o222 == 0 {
        return Err(Unusable::ReadOnly { path: path.to_owned() });
    }
    match OpenOptions::new().write(true).open(real) {
        Ok(_) => Ok(()),
        Err(error) => Err(Unusable::NotWritable { path: path.to_owned(), error }),
    }
}
