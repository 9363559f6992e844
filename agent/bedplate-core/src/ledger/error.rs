//! Why there is no ledger to go by.

use super::VERSION;
use bedplate_base::ReadError;

/// Why there is no ledger to go by. Never a reason to start afresh: what was found on the host would be forgotten.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// It cannot be read.
    #[error("cannot read the ledger{}", if matches!(.0, ReadError::Denied { .. }) { ": run as root" } else { "" })]
    Unreadable(#[source] ReadError),
    /// It is not what bedplate writes.
    #[error(
        "the ledger {path} is damaged: {reason}; restore it from a backup, or move it away: \
         then `bedplate apply` takes over the files that bedplate wrote, and what else it changed cannot be put back"
    )]
    Damaged {
        /// The file, with the root that it is in.
        path: String,
        /// The fault.
        reason: String,
    },
    /// It holds what no bedplate writes down: another program wrote it, and nothing of it is done.
    #[error(
        "the ledger {path} was not written by this bedplate: {what}. Nothing was changed: if a newer bedplate wrote it, use \
         that one; else look at it, and restore it from a backup or move it away: then what bedplate changed cannot be put back"
    )]
    Foreign {
        /// The file, with the root that it is in.
        path: String,
        /// What gives it away.
        what: String,
    },
    /// An older program wrote it.
    #[error(
        "the ledger {path} was written by an older bedplate (format {found}, this one knows {VERSION}). Nothing was changed: run \
         `bedplate revert` with the bedplate that wrote it, then `bedplate apply` with this one"
    )]
    Older {
        /// The file, with the root that it is in.
        path: String,
        /// Its format version.
        found: u32,
    },
    /// A newer program wrote it.
    #[error(
        "the ledger {path} was written by a newer bedplate (format {found}, this one knows {VERSION}): use the newer bedplate"
    )]
    Newer {
        /// The file, with the root that it is in.
        path: String,
        /// Its format version.
        found: u32,
    },
}
