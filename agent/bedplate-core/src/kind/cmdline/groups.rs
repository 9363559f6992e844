//! IOMMU groups of the functions that carry GPUDirect traffic: what type they have (handbook §1.3, §4).

use std::collections::{BTreeMap, BTreeSet};

use bedplate_base::Reading;
use bedplate_base::value::PciAddress;
use bedplate_facts::Facts;
use bedplate_facts::topology::Topology;
use bedplate_host::Reader;

/// Instead of a type, where there is no IOMMU or it does not see the function.
pub(crate) const NO_GROUP: &str = "no IOMMU group";

/// The IOMMU group types of GPUs and NICs.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// Functions by type, or [`NO_GROUP`].
    pub types: BTreeMap<String, usize>,
    /// Those whose DMA addresses are translated, and that carry GPUDirect traffic: GPUs, NICs that meet one inside a
    /// switch, NICs with an RDMA device. A management port may be translated for all that it matters here.
    pub translated: Vec<PciAddress>,
    /// Whether any function is passed through.
    identity: bool,
    /// Functions whose type cannot be read.
    pub unread: usize,
    /// Why, of the first of them.
    pub why_unread: Option<String>,
}

impl Groups {
    /// Whether the kernel translates throughout: what a single group shows may be a single device's affair.
    pub(super) fn all_translated(&self) -> bool {
        !self.translated.is_empty() && !self.identity
    }
}

/// Reads them.
pub(crate) fn groups(reader: &dyn Reader, facts: &Facts) -> Groups {
    let mut groups = Groups::default();
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
        true => format!("{path} is not there: Linux shows it from 5.11 on"),
        false => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_testhosts::fixture::{Files, Machine, at};

    /// A GPU and a NIC below one switch, an RDMA NIC and a management port elsewhere; these groups have these types.
    fn seen(types: [&str; 4]) -> Groups {
        let mut machine = Machine::default();
        machine.root_port("0000:20:00.0", 0);
        let down = machine.switch("0000:20:00.0", "0000:21:00.0", 2);
        machine.gpu("0000:23:00.0", Some(&down[0]));
        machine.nic("0000:24:00.0", Some(&down[1]));
        for (rdma, address) in [(true, "0000:41:00.0"), (false, "0000:01:00.0")] {
            machine.root_port(&address.replace(":00.0", ":1f.0"), 0);
            let nic = machine.nic(address, None);
            nic.infiniband = if rdma { vec!["mlx5_0".into()] } else { Vec::new() };
        }
        let addresses = ["0000:23:00.0", "0000:24:00.0", "0000:41:00.0", "0000:01:00.0"];
        let mut files = Files::default();
        for (number, (address, kind)) in addresses.iter().zip(types).enumerate() {
            machine.get(address).iommu_group = Reading::Known(u32::try_from(number).unwrap());
            files
                .files
                .insert(format!("/sys/kernel/iommu_groups/{number}/type"), format!("{kind}\n"));
        }
        groups(&files, &machine.facts())
    }

    #[test]
    fn a_management_port_may_be_translated() {
        let groups = seen(["identity", "identity", "identity", "DMA-FQ"]);
        assert_eq!((groups.translated.len(), groups.all_translated()), (0, false));
        assert_eq!(groups.types["DMA-FQ"], 1, "it is shown all the same");
    }

    #[test]
    fn what_carries_gpudirect_may_not() {
        let groups = seen(["identity", "DMA", "DMA-FQ", "identity"]);
        assert_eq!(groups.translated, [at("0000:24:00.0"), at("0000:41:00.0")]);
        assert!(!groups.all_translated(), "a device's affair, not the kernel's default");
        assert!(seen(["DMA"; 4]).all_translated());
        let unknown = seen(["unknown"; 4]);
        assert_eq!((unknown.translated.len(), unknown.all_translated()), (0, false));
    }
}
