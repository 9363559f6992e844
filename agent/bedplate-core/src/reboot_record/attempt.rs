//! One reboot that bedplate asked for, as it is kept across boots.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::profile::model::RebootMethod;

/// One reboot that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// Hash of what was to come into effect.
    pub plan: String,
    /// The boot it was asked from (/proc/sys/kernel/random/boot_id).
    pub boot_id: String,
    /// When.
    pub at: Timestamp,
    /// The time that was announced.
    pub due: Option<Timestamp>,
    /// How.
    pub method: RebootMethod,
    /// Subject, for display.
    pub subject: String,
    /// Only rehearsed: it never counts.
    pub rehearsal: bool,
    /// Whether IOMMU passthrough was among what waited.
    pub passthrough: bool,
    /// A boot has followed: the next one is not this reboot's.
    pub followed: bool,
}
