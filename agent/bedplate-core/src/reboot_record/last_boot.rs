//! Which reboot a boot followed, as it is kept.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::profile::model::RebootMethod;

/// Which reboot it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RebootOrigin {
    /// bedplate's, to be a power cycle by the BMC; the BMC did not do it, and an ordinary reboot went on.
    OrdinaryWithoutBmc,
    /// Not bedplate's: people, another program, a crash, a power failure.
    Others,
    /// It was announced, and what is known does not tell whether this is it.
    Unknown,
    /// bedplate's, as announced, by this method; of a power cycle by the BMC the BMC says so.
    #[serde(untagged)]
    Announced(RebootMethod),
}

/// The answer for one boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastBoot {
    /// The boot that follows the reboot.
    pub boot_id: String,
    /// Which reboot it was.
    pub by: RebootOrigin,
    /// The method that was asked for; `None`: bedplate had announced no reboot.
    pub asked_for: Option<RebootMethod>,
    /// The time that was announced.
    pub announced_for: Option<Timestamp>,
    /// The same in a sentence.
    pub summary: String,
}
