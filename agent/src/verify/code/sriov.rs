//! Virtual functions.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use super::Words;
use crate::value::PciAddress;

/// A finding about virtual functions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum SriovCode {
    /// A VF has an address of zeros.
    ZeroAddress {
        /// The function.
        function: PciAddress,
    },
}

impl Words for SriovCode {
    fn says(&self) -> Cow<'static, str> {
        match self {
            SriovCode::ZeroAddress { .. } => "an address of zeros".into(),
        }
    }

    fn subject(&self) -> String {
        match self {
            SriovCode::ZeroAddress { function } => format!("NIC {function}"),
        }
    }
}
