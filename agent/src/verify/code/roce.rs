//! RoCE: addresses, interfaces and flow control.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use super::Words;

/// A finding about RoCE.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum RoceCode {
    /// A port has no GID for RoCE v2.
    NoGid {
        /// `mlx5_0/1`.
        port: String,
    },
}

impl Words for RoceCode {
    fn says(&self) -> Cow<'static, str> {
        match self {
            RoceCode::NoGid { .. } => "port {}: no GID for RoCE v2".into(),
        }
    }

    fn subject(&self) -> String {
        match self {
            RoceCode::NoGid { port } => port.clone(),
        }
    }

    fn noun(&self) -> &'static str {
        "ports"
    }

    fn remedy(&self) -> Cow<'static, str> {
        match self {
            RoceCode::NoGid { .. } => "give the interface an IP address; where that does not help, RoCE is off: `devlink dev param show` (enable_roce)".into(),
        }
    }
}
