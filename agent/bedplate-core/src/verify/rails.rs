//! The rails of the GPUs: RDMA NICs that jobs use for GPUDirect RDMA. Checks of rails (an active port, equal rates, a
//! large MTU) do not cover NICs for storage or the front end. Pure.

use std::collections::{BTreeMap, BTreeSet};

use bedplate_base::value::{PciAddress, PciId};
use bedplate_facts::pci::Function;
use bedplate_facts::topology::{Distance, Topology};
use bedplate_nccl::ports::within;

/// Vendor, device and subsystem.
pub(crate) type Model = (PciId, PciId, (PciId, PciId));

/// Returns the model of a NIC, as its vendor sells it.
pub(super) fn model(nic: &Function) -> Model {
    (nic.vendor, nic.device, nic.subsystem)
}

/// Returns the RDMA-capable PFs near GPUs: those below the same switches if there are any, otherwise the nearest. Of
/// several models, selects the commonest, and NICs of other models that are a GPU's only near ones. Without a GPU, all
/// NICs.
pub(crate) fn rails<'a>(
    topology: &Topology<'_>,
    gpus: &[&Function],
    nics: &[&'a Function],
    data_direct: &[&Function],
) -> Vec<&'a Function> {
    let ways = |nic: &Function| {
        let dma = data_direct.iter().map(|dma| dma.address);
        let dma = dma.filter(|dma| topology.nics_of(*dma).contains(&nic.address));
        [nic.address].into_iter().chain(dma).collect::<Vec<PciAddress>>()
    };
    let distances: Vec<Vec<Distance>> = nics
        .iter()
        .map(|nic| {
            let ways = ways(nic);
            let to = |gpu: &&Function| {
                let all = ways.iter().map(|way| topology.distance(gpu.address, *way));
                all.min().unwrap_or(Distance::Unknown)
            };
            gpus.iter().map(to).collect()
        })
        .collect();
    let least = |row: &Vec<Distance>| row.iter().min().copied();
    // An unknown distance counts as near.
    let reach = within(distances.iter().filter_map(least), Distance::Unknown);
    let near = |at: usize| distances[at].is_empty() || least(&distances[at]) <= Some(reach);
    // Functions of one card count once.
    let mut cards: BTreeMap<Model, BTreeSet<(u32, u8, u8)>> = BTreeMap::new();
    for nic in (0..nics.len()).filter(|at| near(*at)).map(|at| nics[at]) {
        let PciAddress { domain, bus, device, .. } = nic.address;
        cards.entry(model(nic)).or_default().insert((domain, bus, device));
    }
    let count = |nic: &Function| cards.get(&model(nic)).map_or(0, BTreeSet::len);
    let most = cards.values().map(BTreeSet::len).max().unwrap_or(0);
    let is_main = |at: usize| near(at) && count(nics[at]) == most;
    let nearest = |gpu: usize| -> Vec<usize> {
        let least = distances.iter().map(|row| row[gpu]).min();
        (0..nics.len()).filter(|at| Some(distances[*at][gpu]) == least).collect()
    };
    let others = (0..gpus.len()).map(nearest).filter(|nics| !nics.iter().any(|at| is_main(*at)));
    let alone: Vec<usize> = others.flatten().collect();
    let is_rail = |at: &usize| is_main(*at) || near(*at) && alone.contains(at);
    (0..nics.len()).filter(is_rail).map(|at| nics[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_testhosts::fixture::{Machine, at, hgx};

    fn rails_of(machine: &Machine) -> Vec<String> {
        let topology = Topology::new(&machine.tree);
        let all = || machine.tree.functions.values();
        let gpus: Vec<&Function> = all().filter(|f| f.is_gpu()).collect();
        let nics: Vec<&Function> = all().filter(|f| f.is_nic() && !f.is_vf()).collect();
        let dma: Vec<&Function> = all().filter(|f| f.is_data_direct()).collect();
        rails(&topology, &gpus, &nics, &dma).iter().map(|f| f.address.to_string()).collect()
    }

    #[test]
    fn only_nics_below_the_gpus_switches_are_rails() {
        let mut machine = hgx();
        let rails = rails_of(&machine);
        assert_eq!(rails.len(), 8);
        // A front end of the same model on a root port of its own, and a storage NIC in a switch.
        machine.root_port("0000:e0:01.0", 1);
        machine.nic("0000:e1:00.0", Some("0000:e0:01.0"));
        machine.nic("0000:1d:00.0", Some("0000:18:04.0")).device = PciId(0x101d);
        assert_eq!(rails_of(&machine), rails);
    }

    #[test]
    fn only_near_nic_of_a_gpu_is_a_rail_of_any_model() {
        let mut machine = hgx();
        let rails = rails_of(&machine);
        let other = machine.tree.get(at(&rails[0])).unwrap().parent;
        let siblings: Vec<String> = rails
            .iter()
            .filter(|nic| {
                let parent = |f: PciAddress| machine.tree.get(f).and_then(|f| f.parent);
                parent(at(nic)).and_then(parent) == other.and_then(parent)
            })
            .cloned()
            .collect();
        siblings.iter().for_each(|nic| machine.get(nic).device = PciId(0x101d));
        assert_eq!(rails_of(&machine), rails);
    }

    #[test]
    fn without_switches_nics_of_the_commonest_model_are_rails() {
        let mut machine = Machine::default();
        for (bus, is_gpu) in [(0x10, true), (0x20, true), (0x30, false), (0x40, false)] {
            let root = format!("0000:{bus:02x}:00.0");
            machine.root_port(&root, 0);
            let below = format!("0000:{:02x}:00.0", bus + 1);
            match is_gpu {
                true => machine.gpu(&below, Some(&root)),
                false => machine.nic(&below, Some(&root)),
            };
        }
        machine.root_port("0000:50:00.0", 0);
        machine.nic("0000:51:00.0", Some("0000:50:00.0")).device = PciId(0xa2dc);
        assert_eq!(rails_of(&machine), ["0000:31:00.0", "0000:41:00.0"]);
    }
}
