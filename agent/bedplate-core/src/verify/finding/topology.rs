//! Where GPUs and NICs are to each other.

use std::borrow::Cow;

use serde::Serialize;

use super::{FindingText, counted, named};
use bedplate_base::value::PciAddress;

/// A finding about where GPUs and NICs are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "kebab-case")]
#[cfg_attr(feature = "schemars", schemars(rename = "TopologyCode"))]
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
    /// RDMA NICs are the nearest to more GPUs than others are.
    NicSharedUnevenly {
        /// The NICs with the most GPUs.
        nics: Vec<PciAddress>,
        /// How many GPUs each of them has.
        most: u16,
        /// How many GPUs the NIC has that has the fewest.
        least: u16,
    },
}

impl FindingText for TopologyFinding {
    fn description(&self) -> Cow<'static, str> {
        match self {
            TopologyFinding::NoNearNic { .. } => {
                "GPU {}: no RDMA NIC below the same switches, so that NCCL stages in host memory by default".into()
            }
            TopologyFinding::NodeWithoutNic { .. } => "NUMA node {}: GPUs and no RDMA NIC".into(),
            TopologyFinding::NicSharedUnevenly { most, least, .. } => {
                format!("NIC {{}}: {}, others have {least}", counted((*most).into(), "GPU")).into()
            }
        }
    }

    fn subject(&self) -> String {
        match self {
            TopologyFinding::NoNearNic { gpus } => named(gpus, "GPUs"),
            TopologyFinding::NodeWithoutNic { nodes } => {
                nodes.iter().map(i32::to_string).collect::<Vec<_>>().join(", ")
            }
            TopologyFinding::NicSharedUnevenly { nics, .. } => named(nics, "NICs"),
        }
    }

    fn remedy(&self) -> Cow<'static, str> {
        let remedy = match self {
            TopologyFinding::NoNearNic { .. } => {
                "measure with `NCCL_NET_GDR_LEVEL=PHB` before it is set for jobs: beyond a switch it depends on the root complex \
                 whether direct transfers are faster"
            }
            TopologyFinding::NodeWithoutNic { .. } => {
                "look whether a NIC is gone (`bedplate topology`), or put one into a slot of that socket"
            }
            TopologyFinding::NicSharedUnevenly { .. } => {
                "look whether a NIC is gone, or sits in another slot than on machines that are alike (`bedplate topology`)"
            }
        };
        remedy.into()
    }
}
