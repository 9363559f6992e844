//! Messages for failed writes, with the fix. No I/O.

use nix::errno::Errno;

use crate::WriteError;
use crate::errno::error_message;

/// Reason why a step failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// A system call: its purpose and its error.
    #[error("{}", system(.0, *.1))]
    System(&'static str, Errno),
    /// A refusal by bedplate. Holds the complete message.
    #[error("{0}")]
    Refused(String),
}

impl Fault {
    /// Creates a refusal by bedplate.
    pub(super) fn refusal(text: impl Into<String>) -> Self {
        Fault::Refused(text.into())
    }

    /// Adds the operation and its target.
    pub(super) fn about(self, doing: &'static str, path: &str) -> WriteError {
        let is_limit = path.starts_with("/etc/systemd/") || path.starts_with("/etc/security/");
        let reason = match self {
            // The daemon's units as shipped.
            Fault::System(step, Errno::EROFS) if is_limit => format!(
                "{step}: read-only here; the daemon needs bedplate-worker@.service.d/limits.conf (bedplate-daemon(1), \
                 Additional rights)"
            ),
            fault => fault.to_string(),
        };
        WriteError { doing, path: path.to_owned(), reason }
    }
}

impl From<Fault> for std::io::Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::System(_, errno) => errno.into(),
            Fault::Refused(text) => Self::other(text),
        }
    }
}

/// For `map_err`: names the failed step, e.g. "open the directory".
pub(super) fn failed_to(step: &'static str) -> impl Fn(Errno) -> Fault {
    move |errno| Fault::System(step, errno)
}

fn system(step: &str, errno: Errno) -> String {
    let words = error_message(errno);
    let fix = match errno {
        Errno::ENOSPC => "free space on the file system and run again",
        Errno::EDQUOT => "raise the file system quota or free space",
        Errno::EROFS => {
            "remount the file system writable, or change the image on an image-based system"
        }
        Errno::EACCES => "run as root",
        Errno::EPERM => {
            "run as root; if you are root, the file system or a security module forbids it"
        }
        Errno::EBUSY => "mounted over or in use; see findmnt",
        Errno::ELOOP | Errno::EXDEV => "symbolic links form a loop or lead out of this host",
        _ => return format!("{step}: {words}"),
    };
    format!("{step}: {words}; {fix}")
}

/// Converts the errno of a rustix call.
pub(super) fn from_rustix(errno: rustix::io::Errno) -> Errno {
    Errno::from_raw(errno.raw_os_error())
}
