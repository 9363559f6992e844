//! Recommends a NIC and a disk for each GPU. Pure.
//!
//! A path within PCIe switches carries peer-to-peer traffic at full rate; one through the CPU does not, and one between
//! sockets is the worst. So a GPU shares a device that it reaches through switches alone rather than use a free one
//! beyond the CPU, and shares one on its own NUMA node rather than use one on another. Among devices of equal rank,
//! load is balanced first, so that each is used once where possible; then the nearest is chosen, and then the lowest
//! address.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::assign::assign;
use super::devices::{Device, DeviceClass, Devices};
use super::{Distance, Topology};
use bedplate_base::value::PciAddress;

/// A device that a GPU should use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// NIC or disk.
    pub peer: PciAddress,
    /// Data Direct function through which the GPU reaches the NIC.
    pub via: Option<PciAddress>,
    /// Distance to the GPU.
    pub distance: Distance,
    /// A nearer device that other GPUs use.
    pub taken: Option<(PciAddress, Distance)>,
    /// All GPUs with this choice.
    users: Rc<[PciAddress]>,
}

impl Choice {
    /// Returns other GPUs with the same choice.
    pub fn shared_with(&self, own: PciAddress) -> Vec<PciAddress> {
        self.users.iter().copied().filter(|user| *user != own).collect()
    }
}

/// Recommendation for one GPU. The first of each list is its own; the rest are devices that no other GPU uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pairing {
    /// The GPU.
    pub gpu: PciAddress,
    /// NICs.
    pub nics: Vec<Choice>,
    /// Disks.
    pub nvmes: Vec<Choice>,
}

/// Set of NICs considered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Candidates {
    /// NICs with an RDMA device.
    Rdma,
    /// All NICs, because there is no RDMA device.
    All,
}

/// Recommended pairs of a host.
#[derive(Debug)]
pub struct Pairings {
    /// One entry per GPU, in PCI order.
    pub gpus: Vec<Pairing>,
    /// Set of NICs considered.
    pub candidates: Candidates,
    /// Number of NICs and disks considered.
    pub counts: (usize, usize),
    /// NICs among them without a GPU.
    pub spare_nics: Vec<PciAddress>,
}

/// Chooses NICs and disks for all GPUs.
pub fn pair(topology: &Topology, devices: &Devices) -> Pairings {
    let has_rdma = |device: &&Device| !device.function.infiniband.is_empty();
    let answers = |device: &&Device| !device.function.is_dead();
    let nics = devices.nics.iter().filter(answers);
    let nics: Vec<&Device> = nics.filter(|d| d.class == DeviceClass::Nic).collect();
    let candidates = if nics.iter().any(has_rdma) { Candidates::Rdma } else { Candidates::All };
    let nics: Vec<&Device> =
        nics.into_iter().filter(|nic| candidates == Candidates::All || has_rdma(nic)).collect();
    let nvmes: Vec<&Device> = devices.nvmes.iter().filter(answers).collect();
    let dmas = devices.nics.iter().filter(answers);
    let dmas: Vec<&Device> = dmas.filter(|d| d.class == DeviceClass::DataDirect).collect();
    let gpus: Vec<&Device> = devices.gpus.iter().filter(answers).collect();
    let (for_nics, spare_nics) = choose(topology, &gpus, &nics, &dmas);
    let (for_nvmes, _) = choose(topology, &gpus, &nvmes, &[]);
    let gpus = gpus.into_iter().zip(for_nics).zip(for_nvmes);
    let gpus = gpus.map(|((gpu, nics), nvmes)| Pairing { gpu: gpu.address(), nics, nvmes });
    Pairings { gpus: gpus.collect(), candidates, counts: (nics.len(), nvmes.len()), spare_nics }
}

/// Returns the choices of each GPU, and the unused peers.
fn choose(
    topology: &Topology,
    gpus: &[&Device],
    peers: &[&Device],
    dmas: &[&Device],
) -> (Vec<Vec<Choice>>, Vec<PciAddress>) {
    let mut via: BTreeMap<PciAddress, Vec<&Device>> = BTreeMap::new();
    for dma in dmas {
        dma.of.iter().for_each(|nic| via.entry(*nic).or_default().push(dma));
    }
    let via: Vec<&[&Device]> =
        peers.iter().map(|peer| via.get(&peer.address()).map_or(&[][..], Vec::as_slice)).collect();
    let way = |gpu: &Device, peer: usize| {
        let own = (topology.between(&gpu.spot, &peers[peer].spot), None);
        let others = via[peer].iter();
        let others =
            others.map(|dma| (topology.between(&gpu.spot, &dma.spot), Some(dma.address())));
        others.fold(own, |best, other| if other.0 < best.0 { other } else { best })
    };
    let distances: Vec<Vec<Distance>> =
        gpus.iter().map(|gpu| (0..peers.len()).map(|peer| way(gpu, peer).0).collect()).collect();
    let nearest: Vec<Option<usize>> =
        distances.iter().map(|row| (0..peers.len()).min_by_key(|peer| row[*peer])).collect();
    let rounds = rounds(&distances, |one, other| {
        let ids = |peer: usize| (peers[peer].function.vendor, peers[peer].function.device);
        ids(one) == ids(other)
    });
    let mut users: Vec<Vec<PciAddress>> = vec![Vec::new(); peers.len()];
    for round in &rounds {
        round.iter().zip(gpus).for_each(|(peer, gpu)| users[*peer].push(gpu.address()));
    }
    let users: Vec<Rc<[PciAddress]>> = users.into_iter().map(Rc::from).collect();
    let choice = |gpu: usize, peer: usize| {
        let (distance, via) = way(gpus[gpu], peer);
        let taken = nearest[gpu].map(|other| (peers[other].address(), distances[gpu][other]));
        Choice {
            peer: peers[peer].address(),
            via,
            distance,
            taken: taken.filter(|(_, nearer)| *nearer < distance),
            users: Rc::clone(&users[peer]),
        }
    };
    let chosen = (0..gpus.len())
        .map(|gpu| rounds.iter().map(|round| choice(gpu, round[gpu])).collect())
        .collect();
    let spare = users.iter().zip(peers).filter(|(users, _)| users.is_empty());
    (chosen, spare.map(|(_, peer)| peer.address()).collect())
}

/// Maximum number of devices of one class per GPU. No known machine has more, and longer lists would not help.
const MOST: usize = 16;

/// Chooses a peer for each GPU. Then adds one more each while every GPU gets an unused one of the same rank and the
/// same model as its first.
fn rounds(
    distances: &[Vec<Distance>],
    same_model: impl Fn(usize, usize) -> bool,
) -> Vec<Vec<usize>> {
    let size = (distances.len(), distances.first().map_or(0, Vec::len));
    let best: Vec<Option<u8>> =
        distances.iter().map(|row| row.iter().map(|distance| rank(*distance)).min()).collect();
    let cost = |row: usize, column: usize| {
        let distance = distances[row][column];
        (Some(rank(distance)) == best[row]).then_some(distance as u8)
    };
    let Some(first) = assign(size, cost, usize::MAX) else { return Vec::new() };
    let mut used = vec![false; size.1];
    let mut rounds = vec![first.clone()];
    while rounds.len() < MOST {
        rounds.last().into_iter().flatten().for_each(|peer| used[*peer] = true);
        let free = |row: usize, column: usize| {
            let fits = !used[column] && same_model(first[row], column);
            fits.then(|| cost(row, column)).flatten()
        };
        match assign(size, free, 1) {
            Some(round) => rounds.push(round),
            None => break,
        }
    }
    rounds
}

/// Returns the rank of a distance, which overrides load: within switches, on the NUMA node, beyond.
fn rank(distance: Distance) -> u8 {
    match distance {
        Distance::Pix | Distance::Pxb => 0,
        Distance::Phb | Distance::Node => 1,
        Distance::Sys | Distance::Unknown => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Placement;

    #[test]
    fn dead_devices_are_not_paired() {
        let host = bedplate_testhosts::HostSpec::from_toml(
            "machine = \"hgx\"\n[[pci]]\nat = \"0000:18:00.0\"\nanswers = false\n\
             [[pci]]\nat = \"0000:1b:00.0\"\nanswers = false\n",
        );
        let facts = crate::observe(&host.unwrap().build(), crate::Depth::Thorough);
        let topology = Topology::new(facts.pci.known().unwrap());
        let pairings = pair(&topology, &Devices::find(&topology, &Placement::default(), false));
        let paired: Vec<String> =
            pairings.gpus.iter().map(|pairing| pairing.gpu.to_string()).collect();
        assert_eq!(paired.len(), 7);
        assert!(!paired.contains(&"0000:18:00.0".to_owned()));
        let peers = pairings.gpus.iter().flat_map(|pairing| &pairing.nics);
        assert!(peers.into_iter().all(|choice| choice.peer.to_string() != "0000:1b:00.0"));
    }

    #[test]
    fn nearer_device_is_shared_only_across_ranks() {
        use Distance::{Node, Phb, Pix, Pxb, Sys};
        let same = |_, _| false;
        // Two GPUs share a switch with one NIC; the other NIC is beyond the CPU.
        assert_eq!(rounds(&[vec![Pix, Node], vec![Pix, Node]], same), [[0, 0]]);
        // The other NIC is behind the second level of switches.
        assert_eq!(rounds(&[vec![Pix, Pxb], vec![Pix, Pxb]], same), [[0, 1]]);
        assert_eq!(rounds(&[vec![Phb, Node], vec![Phb, Node]], same), [[0, 1]]);
        assert_eq!(rounds(&[vec![Node, Sys], vec![Node, Sys]], same), [[0, 0]]);
    }

    #[test]
    fn spare_devices_are_added_if_enough_for_all() {
        use Distance::Node;
        let like = |one: usize, other: usize| (one < 5) == (other < 5);
        assert_eq!(rounds(&vec![vec![Node; 4]; 2], like), [[0, 1], [2, 3]]);
        assert_eq!(rounds(&vec![vec![Node; 3]; 2], like), [[0, 1]]);
        // The last device is another model.
        assert_eq!(rounds(&vec![vec![Node; 6]; 2], like), [[0, 1], [2, 3]]);
    }
}
