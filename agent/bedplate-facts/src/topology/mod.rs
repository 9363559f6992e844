//! PCI topology: roles of bridges, distance of functions, pairs that share a switch, and the nearest NIC of a GPU.
//! Pure: uses only a [`PciTree`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Serialize;

use self::pci_path::PciPath;

use crate::pci::{Function, PciTree, PortType};
use crate::vpd::Vpd;
use bedplate_base::Reading;
use bedplate_base::value::PciAddress;

mod assign;
pub mod cpulist;
pub mod devices;
pub mod pairing;
pub mod pci_path;
pub mod pcie_link;

/// Role of a bridge in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A port of the root complex.
    RootPort,
    /// Port of a switch towards the root complex; its bus is internal to the switch.
    Upstream,
    /// Port of a switch towards a device or another switch.
    Downstream,
    /// A conventional PCI bridge, a function other than a bridge, or one that is not in the tree.
    Other,
}

/// Distance of two functions in the terms of `nvidia-smi topo` (handbook §8.2), from near to far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum Distance {
    /// Within one switch, or on one device.
    Pix,
    /// Through several switches, without a host bridge.
    Pxb,
    /// Through the host bridge above both.
    Phb,
    /// Between host bridges of one NUMA node.
    Node,
    /// Across NUMA nodes.
    Sys,
    /// The NUMA node of one function is unknown, so `NODE` and `SYS` cannot be distinguished.
    Unknown,
}

impl Distance {
    /// Returns the abbreviation.
    pub fn letters(self) -> &'static str {
        match self {
            Distance::Pix => "PIX",
            Distance::Pxb => "PXB",
            Distance::Phb => "PHB",
            Distance::Node => "NODE",
            Distance::Sys => "SYS",
            Distance::Unknown => "unknown",
        }
    }
}

impl std::fmt::Display for Distance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.letters())
    }
}

/// Type of a GPU's peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// Another GPU.
    Gpu,
    /// A network function.
    Nic,
    /// The DMA function of a NIC that is located elsewhere.
    DataDirect,
    /// A disk.
    Nvme,
}

/// A GPU and another function that share a switch, in which their traffic can stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// The GPU.
    pub gpu: PciAddress,
    /// Other function; for two GPUs the one with the higher address.
    pub peer: PciAddress,
    /// Type of `peer`.
    pub kind: Peer,
    /// Upstream port of the shared switch.
    pub switch: PciAddress,
    /// Bridges of both path segments below `switch`, sorted: the ports with the ACS bits that route the traffic.
    pub legs: Vec<PciAddress>,
    /// Root port above, if the tree has one.
    pub root_port: Option<PciAddress>,
}

/// A tree with its derived children and roles.
#[derive(Debug)]
pub struct Topology<'a> {
    tree: &'a PciTree,
    children: BTreeMap<PciAddress, Vec<PciAddress>>,
    roles: BTreeMap<PciAddress, Role>,
    /// NICs by `V3` and by serial number of their Vital Product Data.
    adapters: BTreeMap<&'a str, Vec<PciAddress>>,
    boards: BTreeMap<&'a str, Vec<PciAddress>>,
}

impl<'a> Topology<'a> {
    /// Returns the underlying tree.
    pub fn tree(&self) -> &'a PciTree {
        self.tree
    }

    /// Analyses a tree once. Linear in the number of functions, even if their parents are wrong.
    pub fn new(tree: &'a PciTree) -> Self {
        let mut children: BTreeMap<PciAddress, Vec<PciAddress>> = BTreeMap::new();
        for function in tree.functions.values() {
            if let Some(parent) = place(tree, function).parent {
                children.entry(parent).or_default().push(function.address);
            }
        }
        let roles = roles(tree, &children);
        let (adapters, boards) =
            (nics_by(tree, |vpd| &vpd.adapter), nics_by(tree, |vpd| &vpd.board));
        Topology { tree, children, roles, adapters, boards }
    }

    /// Returns the role of a bridge; see [`Role`].
    pub fn role(&self, address: PciAddress) -> Role {
        self.roles.get(&address).copied().unwrap_or(Role::Other)
    }

    /// Returns the GPUs, without their VFs, by address.
    pub fn gpus(&self) -> Vec<PciAddress> {
        self.matching(|function| function.is_gpu() && !function.is_vf())
    }

    /// Returns the network functions by address, without VFs (a VF has its PF's location).
    pub fn nics(&self) -> Vec<PciAddress> {
        self.matching(|function| function.is_nic() && !function.is_vf())
    }

    /// Returns the NICs that a Data Direct function belongs to. All functions of one adapter have the same `V3` in their
    /// Vital Product Data. If that does not match, the only NIC on the same board. Empty: unknown.
    pub fn nics_of(&self, data_direct: PciAddress) -> Vec<PciAddress> {
        let Some(Reading::Known(own)) = self.tree.get(data_direct).map(|f| &f.vpd) else {
            return Vec::new();
        };
        let sharing = |key: fn(&Vpd) -> &Option<String>, nics: &BTreeMap<&str, Vec<PciAddress>>| {
            let found = key(own).as_ref().and_then(|key| nics.get(key.as_str()));
            found.cloned().unwrap_or_default()
        };
        let adapter = sharing(|vpd| &vpd.adapter, &self.adapters);
        if !adapter.is_empty() {
            return adapter;
        }
        let board = sharing(|vpd| &vpd.board, &self.boards);
        let one = board.iter().all(|nic| same_device(*nic, board[0]));
        if one { board } else { Vec::new() }
    }

    /// Returns the NICs of a pair's traffic.
    pub fn nics_in(&self, pair: &Pair) -> Vec<PciAddress> {
        match pair.kind {
            Peer::Nic => vec![pair.peer],
            Peer::DataDirect => self.nics_of(pair.peer),
            Peer::Gpu | Peer::Nvme => Vec::new(),
        }
    }

    fn matching(&self, wanted: impl Fn(&Function) -> bool) -> Vec<PciAddress> {
        self.tree
            .functions
            .values()
            .filter(|function| wanted(function))
            .map(|f| f.address)
            .collect()
    }

    /// Returns the functions below a bridge, including VFs, without bridges, by address.
    pub fn below(&self, bridge: PciAddress) -> Vec<PciAddress> {
        let mut seen = BTreeSet::from([bridge]);
        let mut queue = VecDeque::from([bridge]);
        while let Some(at) = queue.pop_front() {
            for child in self.children.get(&at).into_iter().flatten() {
                if seen.insert(*child) {
                    queue.push_back(*child);
                }
            }
        }
        let device = |address: &PciAddress| self.tree.get(*address).is_some_and(|f| !f.is_bridge());
        seen.into_iter().filter(device).collect()
    }

    /// Returns the distance of two functions, by the rule of handbook §8.3.
    pub fn distance(&self, a: PciAddress, b: PciAddress) -> Distance {
        match (self.path_of(a), self.path_of(b)) {
            (Some(a), Some(b)) => self.between(&a, &b),
            _ => Distance::Unknown,
        }
    }

    /// Returns all pairs of a GPU with a GPU, NIC, Data Direct function or NVMe disk that share a switch, by address.
    /// Compares only functions below the same topmost bridge, because no switch extends beyond it.
    pub fn pairs(&self) -> Vec<Pair> {
        let mut groups: BTreeMap<PciAddress, Legs> = BTreeMap::new();
        let peers = [
            (Peer::Gpu, self.gpus()),
            (Peer::Nic, self.nics()),
            (Peer::DataDirect, self.matching(Function::is_data_direct)),
            (Peer::Nvme, self.matching(|f| f.is_nvme() && !f.is_vf())),
        ];
        for (kind, members) in peers {
            for address in members {
                let path = self.tree.path_up(address);
                let Some(top) = path.last() else { continue };
                let (gpus, others) = groups.entry(*top).or_default();
                match kind {
                    Peer::Gpu => gpus.push(Leg { address, path }),
                    _ => others.push((kind, Leg { address, path })),
                }
            }
        }
        let mut pairs = Vec::new();
        for (gpus, others) in groups.values() {
            for (n, gpu) in gpus.iter().enumerate() {
                pairs.extend(others.iter().filter_map(|(kind, leg)| self.pair(gpu, leg, *kind)));
                let further = gpus[n + 1..].iter();
                pairs.extend(further.filter_map(|other| self.pair(gpu, other, Peer::Gpu)));
            }
        }
        pairs.sort_by_key(|pair| (pair.gpu, pair.peer));
        pairs
    }

    /// Returns the pair of two path segments if they meet at the upstream port of a switch. Two functions below the
    /// same downstream port share a device, so their traffic never reaches the switch.
    fn pair(&self, gpu: &Leg, peer: &Leg, kind: Peer) -> Option<Pair> {
        let (i, j) = meeting(&gpu.path, &peer.path)?;
        let switch = gpu.path[i];
        if self.role(switch) != Role::Upstream {
            return None;
        }
        let legs: BTreeSet<PciAddress> =
            gpu.path[..i].iter().chain(&peer.path[..j]).copied().collect();
        Some(Pair {
            gpu: gpu.address,
            peer: peer.address,
            kind,
            switch,
            legs: legs.into_iter().collect(),
            root_port: gpu.path.last().copied().filter(|top| self.role(*top) == Role::RootPort),
        })
    }

    /// Counts, for each of `nics`, the `gpus` nearest to it. Among equally near NICs a GPU gets the one with the fewest
    /// GPUs so far, then the lowest address; GPUs choose in address order.
    pub fn gpus_per_nic(
        &self,
        gpus: &[PciAddress],
        nics: &[PciAddress],
    ) -> BTreeMap<PciAddress, u16> {
        let mut counts: BTreeMap<PciAddress, u16> = nics.iter().map(|nic| (*nic, 0)).collect();
        let spots: BTreeMap<PciAddress, PciPath> =
            counts.keys().filter_map(|nic| Some((*nic, self.path_of(*nic)?))).collect();
        for gpu in gpus {
            let own = self.path_of(*gpu);
            let near = |(nic, count): (&PciAddress, &u16)| {
                let distance = match (&own, spots.get(nic)) {
                    (Some(gpu), Some(nic)) => self.between(gpu, nic),
                    _ => Distance::Unknown,
                };
                (distance, *count, *nic)
            };
            let nearest = counts.iter().map(near).min();
            if let Some((_, count, nic)) = nearest {
                counts.insert(nic, count.saturating_add(1));
            }
        }
        counts
    }
}

/// A function and the bridges above it, nearest first.
struct Leg {
    address: PciAddress,
    path: Vec<PciAddress>,
}

/// GPUs and their peers below one topmost bridge.
type Legs = (Vec<Leg>, Vec<(Peer, Leg)>);

/// Returns the function with this one's location: for a VF its PF.
fn place<'a>(tree: &'a PciTree, function: &'a Function) -> &'a Function {
    function.physfn.and_then(|pf| tree.get(pf)).unwrap_or(function)
}

fn same_device(a: PciAddress, b: PciAddress) -> bool {
    (a.domain, a.bus, a.device) == (b.domain, b.bus, b.device)
}

/// Returns the NICs by a keyword of their Vital Product Data.
fn nics_by(tree: &PciTree, key: fn(&Vpd) -> &Option<String>) -> BTreeMap<&str, Vec<PciAddress>> {
    let mut found: BTreeMap<&str, Vec<PciAddress>> = BTreeMap::new();
    for nic in tree.functions.values().filter(|f| f.is_nic() && !f.is_vf()) {
        if let Some(key) = nic.vpd.known().and_then(|vpd| key(vpd).as_deref()) {
            found.entry(key).or_default().push(nic.address);
        }
    }
    found
}

/// Returns the first common bridge of two paths, as an index into each.
fn meeting(a: &[PciAddress], b: &[PciAddress]) -> Option<(usize, usize)> {
    a.iter()
        .enumerate()
        .find_map(|(i, bridge)| Some((i, b.iter().position(|other| other == bridge)?)))
}

/// Determines the roles of all bridges, top down. Bridges that are their own ancestors are never reached and stay
/// `Other`.
fn roles(
    tree: &PciTree,
    children: &BTreeMap<PciAddress, Vec<PciAddress>>,
) -> BTreeMap<PciAddress, Role> {
    let mut roles = BTreeMap::new();
    let orphan =
        |function: &&Function| function.parent.is_none_or(|parent| tree.get(parent).is_none());
    let mut queue: VecDeque<(&Function, Option<Role>)> =
        tree.functions.values().filter(orphan).map(|function| (function, None)).collect();
    while let Some((function, above)) = queue.pop_front() {
        if !function.is_bridge() || roles.contains_key(&function.address) {
            continue;
        }
        let own = role(&function.port, above);
        roles.insert(function.address, own);
        let below = children.get(&function.address).into_iter().flatten();
        queue.extend(below.filter_map(|child| tree.get(*child)).map(|child| (child, Some(own))));
    }
    roles
}

/// Determines a bridge's role from its port type and the role of the bridge above.
///
/// Location overrides type: a bridge on the inner bus of a switch is a downstream port, regardless of its type field.
/// Emulated switches have ports there that call themselves root ports. Linux uses the location too (it enables ACS on
/// them and splits IOMMU groups by it). An unreadable type (64 bytes of config space, handbook §3.1) or one that the
/// specification does not define is decided by location alone.
fn role(port: &Reading<PortType>, above: Option<Role>) -> Role {
    if above == Some(Role::Upstream) {
        return Role::Downstream;
    }
    match port {
        Reading::Known(PortType::RootPort) => Role::RootPort,
        Reading::Known(PortType::Upstream) => Role::Upstream,
        Reading::Known(PortType::Downstream) => Role::Downstream,
        Reading::Unknown(_) | Reading::Known(PortType::Reserved(_)) => match above {
            None => Role::RootPort,
            Some(Role::RootPort | Role::Downstream) => Role::Upstream,
            Some(Role::Upstream) => Role::Downstream,
            Some(Role::Other) => Role::Other,
        },
        Reading::Known(_) | Reading::Absent => Role::Other,
    }
}
