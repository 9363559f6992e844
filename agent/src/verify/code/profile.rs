//! The profile.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use super::Words;

/// A finding about the profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum ProfileCode {
    /// The profile asks for something that is not in effect.
    NotInEffect {
        /// The setting's kind: `acs`, `cmdline`, `modules`, `sriov` …
        setting: &'static str,
    },
}

impl Words for ProfileCode {
    fn says(&self) -> Cow<'static, str> {
        match self {
            ProfileCode::NotInEffect { .. } => "not in effect".into(),
        }
    }

    fn subject(&self) -> String {
        match self {
            ProfileCode::NotInEffect { setting } => (*setting).to_owned(),
        }
    }
}
