//! Errors of loading the ledger.

use super::VERSION;
use bedplate_base::ReadError;

/// Error of loading the ledger. Must never lead to a new ledger: the original state of the host would be lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// The file cannot be read.
    #[error("cannot read the ledger{}", if matches!(.0, ReadError::Denied { .. }) { ": run as root" } else { "" })]
    Unreadable(#[source] ReadError),
    /// The content is damaged.
    #[error(
        "the ledger {path} is damaged: {reason}; restore it from a backup, or move it away: \
         then `bedplate apply` takes over the files that bedplate wrote, and what else it changed cannot be put back"
    )]
    Damaged {
        /// File, with the root that contains it.
        path: String,
        /// Fault.
        reason: String,
    },
    /// Valid data that no version of bedplate writes: another program wrote it. It is not used.
    #[error(
        "the ledger {path} was not written by this bedplate: {what}. Nothing was changed: if a newer bedplate wrote it, use \
         that one; else look at it, and restore it from a backup or move it away: then what bedplate changed cannot be put back"
    )]
    Foreign {
        /// File, with the root that contains it.
        path: String,
        /// Evidence.
        what: String,
    },
    /// Written by an older version.
    #[error(
        "the ledger {path} was written by an older bedplate (format {found}, this one knows {VERSION}). Nothing was changed: run \
         `bedplate revert` with the bedplate that wrote it, then `bedplate apply` with this one"
    )]
    Older {
        /// File, with the root that contains it.
        path: String,
        /// Its format version.
        found: u32,
    },
    /// Written by a newer version.
    #[error(
        "the ledger {path} was written by a newer bedplate (format {found}, this one knows {VERSION}): use the newer bedplate"
    )]
    Newer {
        /// File, with the root that contains it.
        path: String,
        /// Its format version.
        found: u32,
    },
}
