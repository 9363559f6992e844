//! Which NIC and which disk a GPU should use. Pure.
//!
//! A way inside the PCIe switches carries peer-to-peer traffic at full rate; one through the CPU does not, and one between
//! sockets is the worst. So a GPU shares a device that it reaches by switches alone rather than take a free one beyond the CPU,
//! and shares one on its own NUMA node rather than take one on another. Among devices of one such rank the load is spread first,
//! so that each is used once where possible, and then the nearest is taken; among equals the lowest addresses go together.

use std::collections::VecDeque;

use super::devices::{Device, Devices, Sort};
use super::{Distance, Topology};
use crate::value::PciAddress;

/// A device that a GPU should use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The NIC or disk.
    pub peer: PciAddress,
    /// The Data Direct function by which the GPU reaches the NIC.
    pub via: Option<PciAddress>,
    /// How far.
    pub distance: Distance,
    /// A nearer one, which others use.
    pub taken: Option<(PciAddress, Distance)>,
    /// The other GPUs that use it as well.
    pub shared_with: Vec<PciAddress>,
}

/// What one GPU should use; the first of each list is its own, others are there because nobody else uses them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pairing {
    /// The GPU.
    pub gpu: PciAddress,
    /// NICs.
    pub nics: Vec<Choice>,
    /// Disks.
    pub nvmes: Vec<Choice>,
}

/// Among which NICs was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Candidates {
    /// Those with an RDMA device.
    Rdma,
    /// All, for none has an RDMA device.
    All,
}

/// The recommended pairs of a host.
#[derive(Debug)]
pub struct Pairings {
    /// One for each GPU, in PCI order.
    pub gpus: Vec<Pairing>,
    /// Among which NICs was chosen.
    pub candidates: Candidates,
    /// How many NICs and disks there were to choose from.
    pub counts: (usize, usize),
    /// NICs among them that no GPU should use.
    pub spare_nics: Vec<PciAddress>,
}

/// Chooses.
pub fn pair(topology: &Topology, devices: &Devices) -> Pairings {
    let has_rdma = |device: &&Device| !device.function.infiniband.is_empty();
    let nics: Vec<&Device> = devices.nics.iter().filter(|d| d.sort == Sort::Nic).collect();
    let candidates = if nics.iter().any(has_rdma) { Candidates::Rdma } else { Candidates::All };
    let nics: Vec<&Device> =
        nics.into_iter().filter(|nic| candidates == Candidates::All || has_rdma(nic)).collect();
    let nvmes: Vec<&Device> = devices.nvmes.iter().collect();
    let dmas: Vec<&Device> = devices.nics.iter().filter(|d| d.sort == Sort::DataDirect).collect();
    let (for_nics, spare_nics) = choose(topology, &devices.gpus, &nics, &dmas);
    let (for_nvmes, _) = choose(topology, &devices.gpus, &nvmes, &[]);
    let gpus = devices.gpus.iter().zip(for_nics).zip(for_nvmes);
    let gpus = gpus.map(|((gpu, nics), nvmes)| Pairing { gpu: gpu.address(), nics, nvmes });
    Pairings { gpus: gpus.collect(), candidates, counts: (nics.len(), nvmes.len()), spare_nics }
}

/// For each GPU its peers, and those that nobody uses.
fn choose(
    topology: &Topology,
    gpus: &[Device],
    peers: &[&Device],
    dmas: &[&Device],
) -> (Vec<Vec<Choice>>, Vec<PciAddress>) {
    let via: Vec<Vec<&Device>> = peers
        .iter()
        .map(|peer| dmas.iter().filter(|dma| dma.of.contains(&peer.address())).copied().collect())
        .collect();
    let way = |gpu: &Device, peer: usize| {
        let own = (topology.between(&gpu.spot, &peers[peer].spot), None);
        let others = via[peer].iter();
        let others =
            others.map(|dma| (topology.between(&gpu.spot, &dma.spot), Some(dma.address())));
        others.fold(own, |best, other| if other.0 < best.0 { other } else { best })
    };
    let distances: Vec<Vec<Distance>> =
        gpus.iter().map(|gpu| (0..peers.len()).map(|peer| way(gpu, peer).0).collect()).collect();
    let rounds = rounds(&distances, |one, other| {
        let ids = |peer: usize| (peers[peer].function.vendor, peers[peer].function.device);
        ids(one) == ids(other)
    });
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); peers.len()];
    for round in &rounds {
        round.iter().enumerate().for_each(|(gpu, peer)| users[*peer].push(gpu));
    }
    let choice = |gpu: usize, peer: usize| {
        let (distance, via) = way(&gpus[gpu], peer);
        let nearest = (0..peers.len()).min_by_key(|other| distances[gpu][*other]);
        let taken = nearest.map(|other| (peers[other].address(), distances[gpu][other]));
        let others = users[peer].iter().filter(|user| **user != gpu);
        Choice {
            peer: peers[peer].address(),
            via,
            distance,
            taken: taken.filter(|(_, nearer)| *nearer < distance),
            shared_with: others.map(|user| gpus[*user].address()).collect(),
        }
    };
    let chosen = (0..gpus.len())
        .map(|gpu| rounds.iter().map(|round| choice(gpu, round[gpu])).collect())
        .collect();
    let spare = users.iter().zip(peers).filter(|(users, _)| users.is_empty());
    (chosen, spare.map(|(_, peer)| peer.address()).collect())
}

/// A peer for each GPU and then, as long as every GPU gets one that nobody uses, that is no farther by rank and of the same model
/// as its first, one more each.
fn rounds(
    distances: &[Vec<Distance>],
    same_model: impl Fn(usize, usize) -> bool,
) -> Vec<Vec<usize>> {
    let nearest = |row: &Vec<Distance>| row.iter().map(|distance| rank(*distance)).min();
    let wanted = |row: &Vec<Distance>, allowed: &dyn Fn(usize) -> bool| {
        let best = nearest(row);
        let fits = |(peer, distance): (usize, &Distance)| {
            (Some(rank(*distance)) == best && allowed(peer)).then_some(*distance as u8)
        };
        row.iter().enumerate().map(fits).collect::<Vec<Option<u8>>>()
    };
    let costs: Vec<Vec<Option<u8>>> = distances.iter().map(|row| wanted(row, &|_| true)).collect();
    let mut used = vec![false; distances.first().map_or(0, Vec::len)];
    let Some(first) = assign(&costs, i64::MAX) else { return Vec::new() };
    let mut rounds = vec![first.clone()];
    loop {
        rounds.last().into_iter().flatten().for_each(|peer| used[*peer] = true);
        let costs: Vec<Vec<Option<u8>>> = distances
            .iter()
            .zip(&first)
            .map(|(row, own)| wanted(row, &|peer| !used[peer] && same_model(*own, peer)))
            .collect();
        match assign(&costs, 1) {
            Some(round) => rounds.push(round),
            None => return rounds,
        }
    }
}

/// What counts more than load: inside the switches, on the NUMA node, beyond.
fn rank(distance: Distance) -> u8 {
    match distance {
        Distance::Pix | Distance::Pxb => 0,
        Distance::Phb | Distance::Node => 1,
        Distance::Sys | Distance::Unknown => 2,
    }
}

/// One more user costs more than any way: far above what all distances can come to.
const LOAD: i64 = 1 << 32;

/// For each row a column, so that the load is spread as evenly as it can be and then the sum of costs is least. `None`: there
/// are no rows, one has no column that it may have, or a column would have more than `most`.
///
/// Rows are added one after the other, each by the cheapest way of moving earlier ones aside (successive shortest paths): the
/// result is optimal after each. The way is looked for among columns, with a queue (Bellman and Ford's).
fn assign(costs: &[Vec<Option<u8>>], most: i64) -> Option<Vec<usize>> {
    let columns = costs.first()?.len();
    let mut held: Vec<Vec<usize>> = vec![Vec::new(); columns];
    let mut column_of: Vec<usize> = Vec::with_capacity(costs.len());
    let cost = |row: usize, column: usize| costs[row][column].map(i64::from);
    for row in 0..costs.len() {
        // The least that it costs to bring the new row in and to have `column` take one row more, and which row that is.
        let mut least: Vec<Option<i64>> = (0..columns).map(|column| cost(row, column)).collect();
        let mut mover: Vec<Option<usize>> = vec![None; columns];
        let mut queue: VecDeque<usize> = (0..columns).filter(|at| least[*at].is_some()).collect();
        while let Some(from) = queue.pop_front() {
            let Some(so_far) = least[from] else { continue };
            for moved in &held[from] {
                let freed = so_far - cost(*moved, from).unwrap_or(0);
                for to in 0..columns {
                    let Some(total) = cost(*moved, to).map(|more| freed + more) else { continue };
                    if to != from && least[to].is_none_or(|known| total < known) {
                        (least[to], mover[to]) = (Some(total), Some(*moved));
                        queue.push_back(to);
                    }
                }
            }
        }
        let load = |column: usize| held[column].len() as i64;
        let ends = (0..columns).filter(|column| load(*column) < most);
        let ends = ends.filter_map(|column| Some((least[column]? + load(column) * LOAD, column)));
        let (_, mut column) = ends.min()?;
        column_of.push(column);
        while let Some(moved) = mover[column] {
            let from = column_of[moved];
            held[from].retain(|other| *other != moved);
            held[column].push(moved);
            column_of[moved] = column;
            column = from;
        }
        held[column].push(row);
        column_of[row] = column;
    }
    (!column_of.is_empty()).then_some(column_of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sum of squares of the loads, then sum of costs: what [`assign`] makes least.
    fn worth(costs: &[Vec<Option<u8>>], chosen: &[usize]) -> Option<(usize, i64)> {
        let mut loads = vec![0_usize; costs[0].len()];
        let mut sum = 0;
        for (row, column) in chosen.iter().enumerate() {
            sum += i64::from(costs[row][*column]?);
            loads[*column] += 1;
        }
        Some((loads.iter().map(|load| load * load).sum(), sum))
    }

    /// The best of all assignments, one by one.
    fn best(costs: &[Vec<Option<u8>>]) -> Option<(usize, i64)> {
        let columns = costs[0].len();
        let all = columns.pow(costs.len() as u32);
        let digits = |mut number: usize| {
            let next = |_| {
                let digit = number % columns;
                number /= columns;
                digit
            };
            (0..costs.len()).map(next).collect::<Vec<usize>>()
        };
        (0..all).filter_map(|number| worth(costs, &digits(number))).min()
    }

    proptest! {
        #[test]
        fn it_is_the_best_there_is(
            costs in (1..5_usize, 1..5_usize).prop_flat_map(|(rows, columns)| {
                let cell = prop::option::weighted(0.8, 0..4_u8);
                prop::collection::vec(prop::collection::vec(cell, columns), rows)
            })
        ) {
            let chosen = assign(&costs, i64::MAX);
            prop_assert_eq!(chosen.and_then(|chosen| worth(&costs, &chosen)), best(&costs));
        }
    }

    #[test]
    fn equals_go_together_by_address() {
        let equal = vec![vec![Some(0); 4]; 4];
        assert_eq!(assign(&equal, 1), Some(vec![0, 1, 2, 3]));
        assert_eq!(assign(&vec![vec![Some(0); 2]; 4], i64::MAX), Some(vec![0, 1, 0, 1]));
        assert_eq!(assign(&vec![vec![Some(0); 2]; 4], 1), None);
        assert_eq!(assign(&[vec![None]], 1), None);
        assert_eq!(assign(&[], 1), None);
    }

    #[test]
    fn a_nearer_rank_is_shared_and_a_nearer_one_of_the_same_rank_is_not() {
        use Distance::{Node, Phb, Pix, Pxb, Sys};
        let same = |_, _| false;
        // Two GPUs at one NIC; the other NIC is beyond the CPU.
        assert_eq!(rounds(&[vec![Pix, Node], vec![Pix, Node]], same), [[0, 0]]);
        // The other one is behind the second level of switches.
        assert_eq!(rounds(&[vec![Pix, Pxb], vec![Pix, Pxb]], same), [[0, 1]]);
        assert_eq!(rounds(&[vec![Phb, Node], vec![Phb, Node]], same), [[0, 1]]);
        assert_eq!(rounds(&[vec![Node, Sys], vec![Node, Sys]], same), [[0, 0]]);
    }

    #[test]
    fn what_is_left_over_is_shared_out_if_there_is_enough_for_all() {
        use Distance::Node;
        let like = |one: usize, other: usize| (one < 5) == (other < 5);
        assert_eq!(rounds(&vec![vec![Node; 4]; 2], like), [[0, 1], [2, 3]]);
        assert_eq!(rounds(&vec![vec![Node; 3]; 2], like), [[0, 1]]);
        // The last one is another model.
        assert_eq!(rounds(&vec![vec![Node; 6]; 2], like), [[0, 1], [2, 3]]);
    }
}
