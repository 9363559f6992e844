//! ACS, ATS and IOMMU groups.

use serde::Serialize;

use super::{FEW, FindingText, first, in_profile, named, text};
use crate::plan::Subject;
use bedplate_base::value::PciAddress;
use bedplate_base::{Recovery, counted};

const DIRECT_P2P: &str = "[acs] policy = \"direct-p2p\"";

/// A finding about ACS, ATS or IOMMU groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "AcsCode"))]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum AcsFinding {
    /// Ports redirect traffic of pairs to the root complex.
    Redirected {
        /// Pairs of a GPU and a NIC or GPU with redirected traffic.
        detoured: usize,
        /// All such pairs of the host.
        pairs: usize,
        /// The ports.
        ports: Vec<PciAddress>,
    },
    /// Ports redirect traffic of pairs to the root complex, and must, because functions below are assigned to VMs.
    RedirectedForGuests {
        /// Pairs of a GPU and a NIC or GPU with redirected traffic.
        detoured: usize,
        /// All such pairs of the host.
        pairs: usize,
        /// The ports.
        ports: Vec<PciAddress>,
    },
    /// ACS bits that Linux sets are off at root ports of NVIDIA's Arm CPUs.
    LinuxBitsOff {
        /// The root ports.
        ports: Vec<PciAddress>,
    },
    /// Ports do not pass translated requests directly, as guests need.
    DtOff {
        /// The ports.
        ports: Vec<PciAddress>,
    },
    /// ACS bits of ports differ from those that their PCIe topology requires.
    AcsBitsDiffer {
        /// The ports.
        ports: Vec<PciAddress>,
    },
    /// A guest can reach functions outside its IOMMU group.
    GuestExposed {
        /// The port that forwards the requests.
        #[serde(flatten)]
        port: Subject,
        /// Reason from the plan.
        #[serde(skip)]
        reason: String,
        /// Fix from the plan.
        #[serde(skip)]
        fix: String,
    },
    /// The NVIDIA driver refuses DMA-BUF between a GPU and a Data Direct function.
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
    /// NICs have ATS although their PCIe topology is that of bare metal.
    AtsNeedless {
        /// The NICs.
        nics: Vec<PciAddress>,
    },
    /// ATS is off in NICs assigned to VMs.
    AtsOffForGuest {
        /// The NICs.
        nics: Vec<PciAddress>,
    },
}

impl AcsFinding {
    pub(super) fn text(&self) -> FindingText {
        match self {
            Self::Redirected { detoured, pairs, ports } => {
                in_profile("", redirected(*detoured, *pairs, ports), DIRECT_P2P, "")
            }
            Self::RedirectedForGuests { detoured, pairs, ports } => {
                let redirected = redirected(*detoured, *pairs, ports);
                text(
                    "",
                    format!("{redirected}, as required by functions below assigned to VMs"),
                    "assign to VMs only functions of switches that the host itself does not use",
                )
            }
            Self::LinuxBitsOff { ports } => text(
                "ACS bits that Linux sets on NVIDIA's Arm CPUs are off at root ports {}",
                named(ports, "ports"),
                "find what cleared them: `pci=disable_acs_redir=` or `pci=config_acs=` on the kernel command line, or a \
                 script with setpci. Without it, Linux sets them at the next boot",
            ),
            Self::DtOff { ports } => in_profile(
                "translated requests of guests do not pass directly: DT is off at {}",
                named(ports, "ports"),
                DIRECT_P2P,
                "",
            ),
            Self::AcsBitsDiffer { ports } => in_profile(
                "wrong ACS bits for this PCIe topology at {}",
                counted(ports.len(), "port"),
                DIRECT_P2P,
                "",
            ),
            Self::GuestExposed { port, reason, fix } => {
                text("", format!("{port}: {reason}"), fix.clone())
            }
            Self::GroupsApart { gpu, function } => in_profile(
                "in different IOMMU groups: the NVIDIA driver refuses DMA-BUF between them",
                format!("GPU {gpu} and function {function}"),
                DIRECT_P2P,
                ", reboot: groups follow at the next boot",
            )
            .recovery(Recovery::Reboot),
            Self::NoAts { function } => no_ats(*function),
            Self::AtsNeedless { nics } => text(
                "NIC {}: ATS is on in its firmware, but its PCIe topology is that of bare metal",
                named(nics, "NICs"),
                format!(
                    "run `mlxconfig -d {} set ATS_ENABLED=0` (other vendors: firmware setup), cold boot. Reserved for VMs? \
                     Set [acs] guests = true in the profile",
                    first(nics)
                ),
            ),
            Self::AtsOffForGuest { nics } => text(
                "NIC {}: assigned to a VM, but ATS is off",
                named(nics, "NICs"),
                "remove `pci=noats` from the command line. Not there? This host's IOMMU does not support ATS",
            ),
        }
    }
}

fn no_ats(function: PciAddress) -> FindingText {
    text(
        "NIC {}: no ATS, in a switch for guests",
        function,
        format!(
            "run `mlxconfig -d {function} set ATS_ENABLED=1` (other vendors: firmware setup), cold boot. Never assigned to a \
             VM? Set [acs] guests = false in the profile"
        ),
    )
    .listed(FEW, "NICs")
}

fn redirected(detoured: usize, pairs: usize, ports: &[PciAddress]) -> String {
    format!(
        "{detoured} of {pairs} GPU–NIC/GPU–GPU pairs detour through the root complex: ACS redirect at {}",
        counted(ports.len(), "port")
    )
}
