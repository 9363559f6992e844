//! Why a path of a directory could not be read.

use nix::errno::Errno;

use crate::errno::error_message;
use bedplate_base::ReadError;

/// The system was not asked, or said something else than an errno.
pub(super) fn refused(path: &str, reason: &str) -> ReadError {
    ReadError::Failed { path: path.to_owned(), reason: reason.to_owned() }
}

/// What an errno means for a path.
pub(super) fn error(path: &str, errno: Errno) -> ReadError {
    let path = path.to_owned();
    match errno {
        Errno::ENOENT | Errno::ENOTDIR => ReadError::NotFound { path },
        Errno::EACCES | Errno::EPERM => ReadError::Denied { path },
        errno => ReadError::Failed { path, reason: error_message(errno) },
    }
}
