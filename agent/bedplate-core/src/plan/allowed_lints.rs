//! Lints of error level that the profile allows, as part of a plan.

use serde::{Deserialize, Serialize};

/// An allowed lint of error level.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct AllowedLint {
    /// Id of the lint (`amd-iommu-on`).
    pub id: String,
    /// Reason, as given by the operator.
    pub reason: String,
}
