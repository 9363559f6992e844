//! PCIe registers.

use serde::Serialize;

use super::{FindingText, in_profile, named, text};
use bedplate_base::value::PciAddress;

const ONE_PAYLOAD_SIZE: &str = "[cmdline] args = [\"pci=pcie_bus_safe\"]";

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
            Self::PayloadDiffers { functions } => in_profile(
                "payload size differs from that of the port above",
                named(functions, "functions"),
                ONE_PAYLOAD_SIZE,
                ", reboot",
            ),
            Self::PayloadDiffersOnPath { gpu, peer, switch } => in_profile(
                format!(
                    "links between GPU {gpu} and {peer} differ in payload size, and switch {switch} does not split packets"
                ),
                "",
                ONE_PAYLOAD_SIZE,
                ", reboot",
            ),
            Self::ReadRequestsSmall { nics } => text(
                "NIC {}: read requests are smaller than possible",
                named(nics, "NICs"),
                "remove `pci=pcie_bus_perf` from the command line. Not there? Set [pcie] max_read_request = 4096 in the profile \
                 (NICs of other vendors than NVIDIA: by a rule under [[pcie.devices]]), run `bedplate apply`",
            ),
            Self::RelaxedOrderingOff { nics } => text(
                "NIC {}: relaxed ordering is off",
                named(nics, "NICs"),
                "check `dmesg | grep 'Relaxed Ordering'`: if Linux disabled it for the root port, leave it. Otherwise, set \
                 [pcie] relaxed_ordering = true in the profile, run `bedplate apply`",
            ),
        }
    }
}
