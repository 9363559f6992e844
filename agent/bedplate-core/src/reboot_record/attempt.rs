//! A requested reboot, as stored across boots.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::profile::model::RebootMethod;

/// A requested reboot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// Hash of the pending changes.
    pub plan: String,
    /// Boot in which it was requested (/proc/sys/kernel/random/boot_id).
    pub boot_id: String,
    /// Time of the request.
    pub at: Timestamp,
    /// Scheduled time.
    pub due: Option<Timestamp>,
    /// Method of the reboot.
    pub method: RebootMethod,
    /// Subject, for display.
    pub subject: String,
    /// Whether it is a dry run, which never counts.
    pub dry_run: bool,
    /// Whether IOMMU passthrough was among the pending changes.
    pub passthrough: bool,
    /// Whether a boot has followed: the next one has another cause.
    pub followed: bool,
}
