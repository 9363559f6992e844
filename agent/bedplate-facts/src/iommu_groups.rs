//! Types of the IOMMU groups of functions that carry GPUDirect traffic (handbook §1.3, §4).

use std::collections::{BTreeMap, BTreeSet};

use super::facts::Facts;
use super::topology::Topology;
use bedplate_base::Reading;
use bedplate_base::value::PciAddress;
use bedplate_host::Reader;

/// Placeholder type for functions without an IOMMU, or not visible to it.
pub const NO_GROUP: &str = "no IOMMU group";

/// IOMMU group types of GPUs and NICs.
#[derive(Debug, Default)]
pub struct IommuGroups {
    /// Number of functions by type, or [`NO_GROUP`].
    pub types: BTreeMap<String, usize>,
    /// Translated functions that carry GPUDirect traffic: GPUs, NICs that share a switch with one, NICs with an RDMA
    /// device. Translation of a management port does not matter here.
    pub translated: Vec<PciAddress>,
    /// Whether any function is passed through.
    identity: bool,
    /// Number of functions with an unreadable type.
    pub unread: usize,
    /// Error of the first unreadable function.
    pub why_unread: Option<String>,
}

impl IommuGroups {
    /// Whether the kernel translates by default. A single group may differ because of its device alone.
    pub fn all_translated(&self) -> bool {
        !self.translated.is_empty() && !self.identity
    }
}

/// Reads the group types of all GPUs and NICs.
pub fn iommu_groups(reader: &dyn Reader, facts: &Facts) -> IommuGroups {
    let mut groups = IommuGroups::default();
    let Some(tree) = facts.pci.known() else { return groups };
    let near: BTreeSet<PciAddress> =
        Topology::new(tree).pairs().iter().map(|pair| pair.peer).collect();
    for function in
        tree.functions.values().filter(|function| function.is_gpu() || function.is_nic())
    {
        let kind = match &function.iommu_group {
            Reading::Known(group) => kind_of(reader, *group),
            Reading::Absent => Ok(NO_GROUP.into()),
            Reading::Unknown(why) => Err(why.to_string()),
        };
        let kind = match kind {
            Ok(kind) => kind,
            Err(why) => {
                groups.unread += 1;
                groups.why_unread.get_or_insert(why);
                continue;
            }
        };
        groups.identity |= kind == "identity";
        let carries = function.is_gpu()
            || !function.infiniband.is_empty()
            || near.contains(&function.address);
        if carries && matches!(kind.as_str(), "DMA" | "DMA-FQ") {
            groups.translated.push(function.address);
        }
        *groups.types.entry(kind).or_default() += 1;
    }
    groups
}

fn kind_of(reader: &dyn Reader, group: u32) -> Result<String, String> {
    let path = format!("/sys/kernel/iommu_groups/{group}/type");
    reader.attribute(&path).map_err(|error| match error.is_absent() {
        true => format!("{path} is missing (requires Linux 5.11)"),
        false => error.to_string(),
    })
}
