//! Limits that jobs run under.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use super::{DeviceKind, Words};

/// A finding about limits of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum LimitsCode {
    /// A device node is not there.
    NodeMissing {
        /// Path.
        path: String,
        /// Kind of its device.
        kind: DeviceKind,
    },
}

impl Words for LimitsCode {
    fn says(&self) -> Cow<'static, str> {
        match self {
            LimitsCode::NodeMissing { .. } => "no such device node".into(),
        }
    }

    fn subject(&self) -> String {
        match self {
            LimitsCode::NodeMissing { path, .. } => path.clone(),
        }
    }
}
