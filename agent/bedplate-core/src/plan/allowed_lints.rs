//! What stands in a plan about the profile itself: lints of level error that are let pass.

use serde::{Deserialize, Serialize};

/// A lint of level error that is let pass.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct AllowedLint {
    /// Its id (`amd-iommu-on`).
    pub id: String,
    /// Why, in the operator's words.
    pub reason: String,
}
