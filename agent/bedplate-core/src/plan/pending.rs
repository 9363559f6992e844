//! Changes pending until a boot: already written, or to be recorded until then.

use serde::{Deserialize, Serialize};

use super::{Effect, KindId};

/// An item of a change that takes effect at the next boot and is unobservable until then: a blacklist of a loaded
/// module, or an option that sysfs does not show. The ledger records it for the boot in which it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingUntilBoot {
    /// Id of the change.
    pub change: String,
    /// Normalized name of the module that applies it at its next load.
    pub module: String,
    /// Subject of the item.
    pub subject: String,
    /// Value in the file when this boot began; `None`: no value.
    pub began: Option<String>,
    /// Value from the next boot on.
    pub next: Option<String>,
}

/// A difference that only a boot removes: configuration and next boot are converged, the running kernel is older.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Pending {
    /// Resource type.
    pub kind: KindId,
    /// Subject of the difference.
    pub subject: String,
    /// Value in the running system.
    pub running: Option<String>,
    /// Value from the next boot on.
    pub next: Option<String>,
    /// `NextBoot` or `ColdBoot`.
    pub effect: Effect,
}
