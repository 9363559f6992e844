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
        "ledger {path} is damaged: {reason}; restore it from a backup, or move it away: `bedplate apply` then adopts \
         bedplate's files, and its other changes cannot be reverted"
    )]
    Damaged {
        /// File, with the root that contains it.
        path: String,
        /// Fault.
        reason: String,
    },
    /// Valid data that no version of bedplate writes: another program wrote it. It is not used.
    #[error(
        "ledger {path} was not written by this bedplate: {what}. No changes made. If a newer bedplate wrote it, use that \
         one; otherwise restore it from a backup, or move it away: bedplate's changes can then not be reverted"
    )]
    Foreign {
        /// File, with the root that contains it.
        path: String,
        /// Evidence.
        what: String,
    },
    /// Written by an older version.
    #[error(
        "ledger {path} was written by an older bedplate (format {found}, supported: {VERSION}). No changes made. Run \
         `bedplate revert` with that bedplate, then `bedplate apply` with this one"
    )]
    Older {
        /// File, with the root that contains it.
        path: String,
        /// Its format version.
        found: u32,
    },
    /// Written by a newer version.
    #[error(
        "ledger {path} was written by a newer bedplate (format {found}, supported: {VERSION}): use the newer bedplate"
    )]
    Newer {
        /// File, with the root that contains it.
        path: String,
        /// Its format version.
        found: u32,
    },
}
