//! Changes that an image cannot make.

use serde::{Deserialize, Serialize};

/// Event that a change of the running machine waits for in an image.
pub(crate) const FIRST_BOOT: &str =
    "bedplate runs on the booted machine (daemon, boot service or `bedplate apply`)";

/// Reason why a change is shown but cannot be made on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Deferred {
    /// Event that it waits for.
    pub until: String,
}

impl Deferred {
    /// Defers a change of the machine that cannot be made in an image.
    pub(crate) fn to_first_boot() -> Self {
        Deferred { until: FIRST_BOOT.to_owned() }
    }
}
