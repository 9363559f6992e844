//! Settings of the firmware.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Device, Words};
use crate::recovery::Recovery;

/// A finding about the firmware's settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum FirmwareCode {
    /// The large window of a GPU is smaller than its model's.
    WindowSmall {
        /// The GPU.
        device: Device,
        /// Its size.
        bytes: u64,
        /// The size that its model has.
        by_design: u64,
    },
}

impl Words for FirmwareCode {
    fn says(&self) -> Cow<'static, str> {
        match self {
            FirmwareCode::WindowSmall { .. } => "a smaller memory window than its model has".into(),
        }
    }

    fn subject(&self) -> String {
        match self {
            FirmwareCode::WindowSmall { device, .. } => device.to_string(),
        }
    }

    fn recovery(&self) -> Recovery {
        match self {
            FirmwareCode::WindowSmall { .. } => Recovery::Reboot,
        }
    }
}
