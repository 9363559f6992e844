//! PCIe registers.

use std::borrow::Cow;

use serde::Serialize;

use super::{FindingText, named};
use bedplate_base::value::PciAddress;

/// A finding about PCIe registers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "kebab-case")]
#[cfg_attr(feature = "schemars", schemars(rename = "PcieCode"))]
pub enum PcieFinding {
    /// Both ends of a link have different payload sizes.
    PayloadDiffers {
        /// Functions at the lower ends.
        functions: Vec<PciAddress>,
    },
    /// Links between a GPU and another device below the same switch have different payload sizes.
    PayloadDiffersOnPath {
        /// The GPU.
        gpu: PciAddress,
        /// The other device.
        peer: PciAddress,
        /// The bridge at which their paths meet.
        switch: PciAddress,
    },
    /// NICs read in smaller requests than others of their model, or in the smallest.
    ReadRequestsSmall {
        /// NICs.
        nics: Vec<PciAddress>,
    },
    /// Relaxed ordering is off in device control.
    RelaxedOrderingOff {
        /// NICs.
        nics: Vec<PciAddress>,
    },
}

impl FindingText for PcieFinding {
    fn description(&self) -> Cow<'static, str> {
        match self {
            PcieFinding::PayloadDiffers { .. } => "another payload size than the port above".into(),
            PcieFinding::PayloadDiffersOnPath { gpu, peer, switch } => format!(
                "between GPU {gpu} and {peer} links have different payload sizes, and the switch {switch} splits no packet"
            )
            .into(),
            PcieFinding::ReadRequestsSmall { .. } => {
                "NIC {}: reads in smaller requests than it could".into()
            }
            PcieFinding::RelaxedOrderingOff { .. } => "NIC {}: relaxed ordering is off".into(),
        }
    }

    fn subject(&self) -> String {
        match self {
            PcieFinding::PayloadDiffers { functions } => named(functions, "functions"),
            PcieFinding::PayloadDiffersOnPath { .. } => String::new(),
            PcieFinding::ReadRequestsSmall { nics } | PcieFinding::RelaxedOrderingOff { nics } => {
                named(nics, "NICs")
            }
        }
    }

    fn remedy(&self) -> Cow<'static, str> {
        match self {
            PcieFinding::PayloadDiffers { .. } | PcieFinding::PayloadDiffersOnPath { .. } => {
                "`args = [\"pci=pcie_bus_safe\"]` in [cmdline] of the profile, `bedplate apply`, and reboot".into()
            }
            PcieFinding::ReadRequestsSmall { .. } => {
                "drop `pci=pcie_bus_perf` and `pci=pcie_bus_peer2peer` where they are on the command line; else reload the NIC's \
                 driver, which sets it, or `setpci -s ADDRESS CAP_EXP+8.w=5000:7000` for 4,096 bytes until the next reset"
                    .into()
            }
            PcieFinding::RelaxedOrderingOff { .. } => {
                "`dmesg | grep 'Relaxed Ordering'`: where Linux switched it off for the root port, nothing is to be done; else switch \
                 \"PCIe Relaxed Ordering\" on in the firmware's setup"
                    .into()
            }
        }
    }
}
