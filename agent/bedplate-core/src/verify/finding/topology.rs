//! Positions of GPUs and NICs relative to each other.

use serde::Serialize;

use super::{FindingText, named, text};
use bedplate_base::counted;
use bedplate_base::value::PciAddress;

/// A finding about the positions of GPUs and NICs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "TopologyCode"))]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum TopologyFinding {
    /// GPUs without an RDMA NIC below the same switches.
    NoNearNic {
        /// The GPUs.
        gpus: Vec<PciAddress>,
    },
    /// NUMA nodes with GPUs and no RDMA NIC.
    NodeWithoutNic {
        /// The nodes.
        nodes: Vec<i32>,
    },
    /// Some RDMA NICs are the nearest to more GPUs than the rest.
    NicSharedUnevenly {
        /// The NICs with the most GPUs.
        nics: Vec<PciAddress>,
        /// Number of GPUs of each of these NICs.
        max: u16,
        /// Number of GPUs of the NIC with the fewest.
        min: u16,
    },
}

impl TopologyFinding {
    pub(super) fn text(&self) -> FindingText {
        match self {
            Self::NoNearNic { gpus } => text(
                "GPU {}: no RDMA NIC below the same switches; NCCL stages in host memory by default",
                named(gpus, "GPUs"),
                "before setting `NCCL_NET_GDR_LEVEL=PHB` for jobs, measure with it: beyond a switch, the root complex \
                 decides whether direct transfers are faster",
            ),
            Self::NodeWithoutNic { nodes } => text(
                "NUMA node {}: GPUs but no RDMA NIC",
                nodes.iter().map(i32::to_string).collect::<Vec<_>>().join(", "),
                "check whether a NIC is missing (`bedplate topology`), or put one into a slot of that socket",
            ),
            Self::NicSharedUnevenly { nics, max, min } => text(
                format!("NIC {{}}: {}, others have {min}", counted((*max).into(), "GPU")),
                named(nics, "NICs"),
                "check whether a NIC is missing, or in another slot than on similar machines (`bedplate topology`)",
            ),
        }
    }
}
