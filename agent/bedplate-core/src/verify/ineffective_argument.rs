//! Ineffective kernel arguments.

use serde::Serialize;

/// A kernel argument that does nothing, or not what it is meant to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct IneffectiveArgument {
    /// Argument as written.
    pub argument: String,
    /// Lint id.
    pub lint: &'static str,
    /// The fault, in one sentence.
    #[serde(skip)]
    pub message: String,
    /// Fix.
    #[serde(skip)]
    pub fix: String,
}
