//! What waits for a boot: written already, or to be remembered until then.

use serde::{Deserialize, Serialize};

use super::{Effect, KindId};

/// One item of a change that counts from the next boot on, and of which the running host shows nothing until then: a
/// blacklist of a loaded module, an option that sysfs does not show. The ledger remembers it for the boot it was done in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingUntilBoot {
    /// The change's id.
    pub change: String,
    /// The module whose next load brings it, folded.
    pub module: String,
    /// The item's subject.
    pub subject: String,
    /// What the file said when this boot began, as far as is known; `None` = nothing.
    pub began: Option<String>,
    /// What the next boot will have; `None` = nothing.
    pub next: Option<String>,
}

/// A difference that only a boot will close: configuration and next boot are right, the running kernel is older.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Pending {
    /// The kind it belongs to.
    pub kind: KindId,
    /// What waits.
    pub subject: String,
    /// What the running system has.
    pub running: Option<String>,
    /// What the next boot will have.
    pub next: Option<String>,
    /// `NextBoot` or `ColdBoot`.
    pub effect: Effect,
}
