//! Arguments of the kernel that have no effect.

use serde::Serialize;

/// An argument of the kernel's that does nothing, or not what it is there for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "Suspect"))]
pub struct IneffectiveArgument {
    /// As it is written.
    pub argument: String,
    /// The lint's id.
    pub lint: &'static str,
    /// What is wrong with it, in one sentence.
    #[serde(skip)]
    pub message: String,
    /// Remedy.
    #[serde(skip)]
    pub remedy: String,
}
