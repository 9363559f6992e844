//! PCIe registers.

use serde::Serialize;

use super::{FindingText, named, text};
use bedplate_base::value::PciAddress;

const ONE_PAYLOAD_SIZE: &str =
    "`args = [\"pci=pcie_bus_safe\"]` in [cmdline] of the profile, `bedplate apply`, and reboot";

/// A finding about PCIe registers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "PcieCode"))]
#[serde(tag = "code", rename_all = "kebab-case")]
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
        /// The common upstream switch of the two.
        switch: PciAddress,
    },
    /// NICs use smaller read requests than others of their model, or the smallest.
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

impl PcieFinding {
    pub(super) fn text(&self) -> FindingText {
        match self {
            Self::PayloadDiffers { functions } => text(
                "another payload size than the port above",
                named(functions, "functions"),
                ONE_PAYLOAD_SIZE,
            ),
            Self::PayloadDiffersOnPath { gpu, peer, switch } => text(
                format!(
                    "between GPU {gpu} and {peer} links have different payload sizes, and the switch {switch} splits no packet"
                ),
                "",
                ONE_PAYLOAD_SIZE,
            ),
            Self::ReadRequestsSmall { nics } => text(
                "NIC {}: reads in smaller requests than it could",
                named(nics, "NICs"),
                "drop `pci=pcie_bus_perf` and `pci=pcie_bus_peer2peer` where they are on the command line; else reload the NIC's \
                 driver, which sets it, or `setpci -s ADDRESS CAP_EXP+8.w=5000:7000` for 4,096 bytes until the next reset",
            ),
            Self::RelaxedOrderingOff { nics } => text(
                "NIC {}: relaxed ordering is off",
                named(nics, "NICs"),
                "`dmesg | grep 'Relaxed Ordering'`: where Linux switched it off for the root port, nothing is to be done; else switch \
                 \"PCIe Relaxed Ordering\" on in the firmware's setup",
            ),
        }
    }
}
