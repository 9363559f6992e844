//! Read errors for paths of a directory.

use nix::errno::Errno;

use crate::errno::error_message;
use bedplate_base::ReadError;

/// Creates an error without an errno.
pub(super) fn refused(path: &str, reason: &str) -> ReadError {
    ReadError::Failed { path: path.to_owned(), reason: reason.to_owned() }
}

/// Creates the error for an errno.
pub(super) fn error(path: &str, errno: Errno) -> ReadError {
    let path = path.to_owned();
    match errno {
        Errno::ENOENT | Errno::ENOTDIR => ReadError::NotFound { path },
        Errno::EACCES | Errno::EPERM => ReadError::Denied { path },
        errno => ReadError::Failed { path, reason: error_message(errno) },
    }
}
