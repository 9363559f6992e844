//! Cause of a boot, as stored.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::profile::model::RebootMethod;

/// Origin of a reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RebootOrigin {
    /// bedplate's, intended as a power cycle by the BMC; the BMC did not do it, and an ordinary reboot took place.
    OrdinaryWithoutBmc,
    /// Not bedplate's: an operator, another program, a crash, a power failure.
    External,
    /// A reboot was scheduled, and the evidence does not show whether this is it.
    Unknown,
    /// bedplate's, as scheduled, by this method; a power cycle by the BMC is confirmed by the BMC.
    #[serde(untagged)]
    Scheduled(RebootMethod),
}

/// Cause of one boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastBoot {
    /// Boot after the reboot.
    pub boot_id: String,
    /// Origin of the reboot.
    pub by: RebootOrigin,
    /// Requested method; `None`: bedplate had scheduled no reboot.
    pub method: Option<RebootMethod>,
    /// Scheduled time.
    pub scheduled_for: Option<Timestamp>,
    /// Summary in one sentence.
    pub summary: String,
}
