//! PCIe registers.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Words, named};
use crate::value::PciAddress;

/// A finding about PCIe registers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum PcieCode {
    /// NICs read in smaller requests than they could.
    ReadRequestsSmall {
        /// The NICs.
        nics: Vec<PciAddress>,
    },
}

impl Words for PcieCode {
    fn says(&self) -> Cow<'static, str> {
        match self {
            PcieCode::ReadRequestsSmall { .. } => "reads in smaller requests than it could".into(),
        }
    }

    fn subject(&self) -> String {
        match self {
            PcieCode::ReadRequestsSmall { nics } => format!("NIC {}", named(nics, "NICs")),
        }
    }

    fn remedy(&self) -> Cow<'static, str> {
        match self {
            PcieCode::ReadRequestsSmall { .. } => {
                "drop `pci=pcie_bus_perf` and `pci=pcie_bus_peer2peer` where they are on the command line; else reload the NIC's \
                 driver, which sets it, or `setpci -s ADDRESS CAP_EXP+8.w=5000:7000` for 4,096 bytes until the next reset"
                    .into()
            }
        }
    }
}
