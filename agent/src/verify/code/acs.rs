//! ACS, ATS and IOMMU groups.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use super::Words;
use crate::recovery::Recovery;
use crate::value::PciAddress;

/// A finding about ACS, ATS or IOMMU groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum AcsCode {
    /// A GPU and a Data Direct function between which the NVIDIA driver refuses DMA-BUF.
    GroupsApart {
        /// The GPU.
        gpu: PciAddress,
        /// The Data Direct function.
        function: PciAddress,
    },
    /// A NIC has no ATS where guests need it.
    NoAts {
        /// The function.
        function: PciAddress,
    },
}

impl Words for AcsCode {
    fn says(&self) -> Cow<'static, str> {
        let says = match self {
            AcsCode::GroupsApart { .. } => {
                "in different IOMMU groups, so that the NVIDIA driver refuses DMA-BUF between them"
            }
            AcsCode::NoAts { .. } => "NIC {}: no ATS, in a switch for guests",
        };
        says.into()
    }

    fn subject(&self) -> String {
        match self {
            AcsCode::GroupsApart { gpu, function } => format!("GPU {gpu} and function {function}"),
            AcsCode::NoAts { function } => function.to_string(),
        }
    }

    fn recovery(&self) -> Recovery {
        match self {
            AcsCode::GroupsApart { .. } => Recovery::Reboot,
            _ => Recovery::None,
        }
    }
}
