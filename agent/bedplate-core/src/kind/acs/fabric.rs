//! PCIe tree ("fabric") below one root port, or below the topmost visible bridge, with peers that share a switch: its
//! topology class ("shape"), and the desired bits of its ports. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::kind::some_of;
use crate::plan::Rationale;
use bedplate_base::Reading;
use bedplate_base::value::{AcsBits, PciAddress, RegisterBits};
use bedplate_facts::pci::{Function, PciTree};
use bedplate_facts::topology::{Pair, Peer, Role, Topology};

use super::section::{Acs, Guests, PeerKind};
use super::shape::{FabricTraits, Row, SHAPES, Shape};

/// Root ports known to be above a Data Direct path (Grace; handbook §14.1).
const DATA_DIRECT_ROOTS: [(u16, u16); 3] = [(0x10de, 0x22b1), (0x10de, 0x22b2), (0x10de, 0x22b8)];

const RDMA_TOPO: &str = "rdma-core kernel-boot/rdma_topo; handbook §14.1";
const GROUPING: &str = "Linux drivers/iommu/iommu.c pci_device_group; handbook §3.2, §3.3";

/// Desired bits of a port, and the reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// Desired bits.
    pub bits: RegisterBits,
    /// Reasons for them.
    pub why: Vec<Rationale>,
}

/// Ports that the policy applies to.
pub(crate) type Targets = BTreeMap<PciAddress, Target>;

/// Pairs below one topmost bridge.
#[derive(Clone)]
pub(crate) struct Fabric<'a> {
    topology: &'a Topology<'a>,
    tree: &'a PciTree,
    guests: Guests,
    peers: Vec<PeerKind>,
    has_iommu: bool,
    /// Whether a function below one of its switches is, may be, or will be assigned to a VM.
    has_guest: bool,
    /// Root port, if it is visible.
    root: Option<PciAddress>,
    /// Pairs that share one of its switches.
    pub pairs: Vec<Pair>,
}

/// Returns the host's PCIe trees by address, for the given IOMMU state and the functions assigned to VMs below each bridge.
pub(crate) fn fabrics<'a>(
    profile: &Acs,
    has_iommu: bool,
    guests_below: &BTreeMap<PciAddress, Vec<PciAddress>>,
    tree: &'a PciTree,
    topology: &'a Topology<'a>,
) -> Vec<Fabric<'a>> {
    let mut by_top: BTreeMap<PciAddress, Vec<Pair>> = BTreeMap::new();
    for pair in topology.pairs() {
        if let Some(top) = tree.path_up(pair.gpu).last() {
            by_top.entry(*top).or_default().push(pair);
        }
    }
    for gpu in topology.gpus() {
        if let [root] = tree.path_up(gpu)[..]
            && topology.role(root) == Role::RootPort
        {
            by_top.entry(root).or_default();
        }
    }
    let fabric = |pairs: Vec<Pair>| Fabric {
        topology,
        tree,
        guests: profile.guests,
        peers: profile.peers.clone(),
        has_iommu,
        has_guest: pairs.iter().any(|pair| guests_below.contains_key(&pair.switch)),
        root: pairs.iter().find_map(|pair| pair.root_port),
        pairs,
    };
    by_top.into_values().map(fabric).collect()
}

impl Fabric<'_> {
    /// Returns a copy with another IOMMU state.
    pub(super) fn with_iommu(&self, has_iommu: bool) -> Self {
        Fabric { has_iommu, ..self.clone() }
    }

    /// Returns the entry of its topology class.
    pub(super) fn row(&self) -> &'static Row {
        let traits = FabricTraits {
            meets: !self.pairs.is_empty(),
            data_direct: self.is_data_direct(),
            for_guests: self.is_for_guests(),
        };
        // The last entry matches everything.
        SHAPES.iter().find(|row| (row.is)(traits)).unwrap_or(&SHAPES[SHAPES.len() - 1])
    }

    /// Whether the GPU is reached through a DMA function of the NIC.
    pub(super) fn is_data_direct(&self) -> bool {
        self.pairs.iter().any(|pair| pair.kind == Peer::DataDirect)
            && self.root_id().is_none_or(|(vendor, _)| vendor == 0x10de)
    }

    /// Whether its ports must serve VMs. `auto` requires a function below that is assigned to a VM, ATS in every requested NIC,
    /// and ports that can pass translated requests (DT): a NIC without ATS cannot cross such a switch. It also requires an
    /// IOMMU, which does the translation.
    pub(super) fn is_for_guests(&self) -> bool {
        match self.guests {
            Guests::Yes => true,
            Guests::No => false,
            Guests::Auto => {
                let mut nics = self.pairs.iter().filter(|pair| pair.kind == Peer::Nic).peekable();
                let able = |pair: &Pair| {
                    matches!(self.ats(pair.peer), Reading::Known(_))
                        && self.cannot_pass(pair).is_none()
                };
                self.depends_on_ats() && nics.peek().is_some() && nics.all(able)
            }
        }
    }

    /// Whether the ATS of its NICs decides its topology class.
    pub(super) fn depends_on_ats(&self) -> bool {
        self.guests == Guests::Auto && self.has_guest && self.has_iommu && self.wants(Peer::Nic)
    }

    /// Whether only some NICs in its switches have ATS.
    pub(super) fn is_mixed(&self) -> bool {
        let nics = if self.pairs.is_empty() { Vec::new() } else { self.nics() };
        nics.iter().any(|nic| matches!(self.ats(*nic), Reading::Known(_)))
            && nics.iter().any(|nic| self.ats(*nic) == Reading::Absent)
    }

    /// Returns the reason why a Data Direct path cannot be planned, if any: another root port, VMs, or not exactly one GPU.
    pub(super) fn data_direct_obstacle(&self) -> Option<String> {
        if !self.is_data_direct() {
            return None;
        }
        let gpus: BTreeSet<PciAddress> = self.pairs.iter().map(|pair| pair.gpu).collect();
        match self.root_id() {
            _ if self.guests == Guests::Yes => Some(
                "Data Direct path for guests: required ACS bits unknown (handbook §14.1)"
                    .to_owned(),
            ),
            None => Some(
                "Data Direct path below a root port that is not visible: required ACS bits unknown (handbook §14.1)"
                    .to_owned(),
            ),
            Some(id) if !DATA_DIRECT_ROOTS.contains(&id) => Some(format!(
                "Data Direct path below root port {:04x}:{:04x}: required ACS bits unknown (handbook §14.1)",
                id.0, id.1
            )),
            _ if gpus.len() != 1 => Some(format!(
                "Data Direct path to {} GPUs: required ACS bits are known for one GPU only (handbook §14.1)",
                gpus.len()
            )),
            _ => None,
        }
    }

    /// Returns NICs with unreadable ATS, if the topology class depends on it.
    pub(super) fn ats_unknown(&self) -> Vec<(PciAddress, &str)> {
        let nics = self.nics();
        // One NIC without ATS decides for all, and so does a port that cannot pass translated requests.
        let is_decided = nics.iter().any(|nic| self.ats(*nic) == Reading::Absent)
            || self.pairs.iter().any(|pair| pair.kind == Peer::Nic && self.lacks_dt(pair));
        if !self.depends_on_ats() || is_decided || self.row().shape != Shape::Switch {
            return Vec::new();
        }
        let unread = |nic: PciAddress| match self.tree.get(nic).map(|f| &f.ats) {
            Some(Reading::Unknown(reason)) => Some((nic, &**reason)),
            _ => None,
        };
        nics.into_iter().filter_map(unread).collect()
    }

    /// Returns a port above a NIC with unreadable ACS, if the topology class depends on its DT: all NICs have ATS, and no
    /// other port is known to lack DT.
    pub(super) fn dt_unknown(&self) -> Option<(PciAddress, &str)> {
        let nics = || self.pairs.iter().filter(|pair| pair.kind == Peer::Nic);
        let able =
            |pair: &Pair| matches!(self.ats(pair.peer), Reading::Known(_)) && !self.lacks_dt(pair);
        if !self.depends_on_ats() || self.row().shape != Shape::Switch || !nics().all(able) {
            return None;
        }
        nics().find_map(|pair| {
            let port = self.cannot_pass(pair)?;
            match &self.tree.get(port)?.acs {
                Reading::Unknown(reason) => Some((port, &**reason)),
                _ => None,
            }
        })
    }

    /// Returns the port above the NIC unless it is known to pass translated requests (DT).
    pub(super) fn cannot_pass(&self, pair: &Pair) -> Option<PciAddress> {
        let port = *self.tree.path_up(pair.peer).first()?;
        let acs = self.tree.get(port).and_then(|f| f.acs.known());
        acs.is_none_or(|acs| acs.capable.and(AcsBits::DT).is_empty()).then_some(port)
    }

    /// Whether the port above the NIC is known to lack DT.
    fn lacks_dt(&self, pair: &Pair) -> bool {
        let port = self.cannot_pass(pair).and_then(|port| self.tree.get(port));
        port.is_some_and(|port| !matches!(port.acs, Reading::Unknown(_)))
    }

    /// Returns network functions that share a switch with a GPU, by address; if GPUs are on root ports, the NICs on root
    /// ports.
    pub(super) fn nics(&self) -> Vec<PciAddress> {
        if self.row().shape == Shape::RootPortEach {
            let mut nics = self.topology.nics();
            nics.retain(|nic| self.tree.path_up(*nic).len() == 1);
            return nics;
        }
        let nics = self.pairs.iter().filter(|pair| pair.kind == Peer::Nic);
        nics.map(|pair| pair.peer).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Whether the profile assigns the devices to VMs.
    pub(super) fn serves_guests(&self) -> bool {
        self.guests == Guests::Yes
    }

    /// Returns the ATS state of a NIC.
    pub(super) fn ats(&self, nic: PciAddress) -> Reading<bool> {
        self.tree.get(nic).map_or(Reading::Absent, |function| function.ats.clone())
    }

    fn root_id(&self) -> Option<(u16, u16)> {
        self.tree.get(self.root?).map(|root: &Function| (root.vendor.0, root.device.0))
    }

    /// Returns the requested pairs that the topology class covers: only the paths of DMA functions for Data Direct, and no
    /// disks for VMs.
    pub(super) fn pairs_of(&self, row: &Row) -> impl Iterator<Item = &Pair> {
        let shape = row.shape;
        self.pairs.iter().filter(move |pair| {
            self.wants(pair.kind)
                && match shape {
                    Shape::DataDirect => pair.kind == Peer::DataDirect,
                    Shape::SwitchForGuests => pair.kind != Peer::Nvme,
                    Shape::Switch => true,
                    Shape::RootPortEach => false,
                }
        })
    }

    /// Whether the profile requests direct traffic with this kind of peer.
    pub(super) fn wants(&self, kind: Peer) -> bool {
        self.peers.contains(&match kind {
            Peer::Gpu => PeerKind::Gpu,
            Peer::Nic | Peer::DataDirect => PeerKind::Nic,
            Peer::Nvme => PeerKind::Nvme,
        })
    }

    fn peer_side(&self, pair: &Pair) -> Vec<PciAddress> {
        let gpu = self.tree.path_up(pair.gpu);
        pair.legs.iter().filter(|port| !gpu.contains(port)).copied().collect()
    }

    /// Returns the ports of both path segments for which the class has bits. Data Direct is decided in the common switch; a
    /// switch between it and the GPU keeps Linux's bits (rdma_topo NVCX_DMA_Complex).
    fn ports_of<'p>(&self, row: &Row, pair: &'p Pair) -> Vec<&'p PciAddress> {
        let below_the_switch = |port: &&PciAddress| {
            self.tree.get(**port).is_some_and(|f| f.parent == Some(pair.switch))
        };
        pair.legs
            .iter()
            .filter(|port| row.shape != Shape::DataDirect || below_the_switch(port))
            .collect()
    }

    /// Returns the desired bits of its ports.
    pub(super) fn targets(&self, root_port: bool) -> Targets {
        let row = self.row();
        let mut uses: BTreeMap<PciAddress, (RegisterBits, Vec<&Pair>)> = BTreeMap::new();
        for pair in self.pairs_of(row) {
            let peers = self.peer_side(pair);
            for port in self.ports_of(row, pair).into_iter().chain([&pair.switch]) {
                let bits = match (self.topology.role(*port), pair.kind) {
                    (Role::Upstream, _) => row.upstream,
                    (_, Peer::Nic | Peer::DataDirect) if peers.contains(port) => row.nic,
                    _ => row.gpu,
                };
                let (so_far, pairs) = uses.entry(*port).or_default();
                *so_far = so_far.isolating(bits);
                pairs.push(pair);
            }
        }
        let roots: BTreeSet<PciAddress> =
            self.pairs_of(row).filter_map(|pair| pair.root_port.filter(|_| root_port)).collect();
        let mut targets: Targets = uses
            .into_iter()
            .filter(|(_, (bits, _))| *bits != RegisterBits::default())
            .map(|(port, (bits, pairs))| (port, Target { bits, why: self.why(row, port, &pairs) }))
            .collect();
        for root in roots {
            let source = if row.shape == Shape::Switch { GROUPING } else { RDMA_TOPO };
            let why = || vec![Rationale::new(row.root_because, source)];
            targets.entry(root).or_insert_with(|| Target { bits: row.root, why: why() });
        }
        targets
    }

    fn why(&self, row: &Row, port: PciAddress, pairs: &[&Pair]) -> Vec<Rationale> {
        let named = some_of(pairs.iter().map(|pair| self.named(pair)), 2, "pairs");
        let (text, source) = match (self.topology.role(port), row.shape) {
            (Role::Upstream, _) => (
                format!(
                    "upstream port of the switch between {named}: Linux checks its redirect bits too"
                ),
                "Linux drivers/pci/p2pdma.c; handbook §14.1",
            ),
            (_, Shape::Switch) => (
                format!("on the path between {named}: {}", row.because),
                "Linux drivers/pci/p2pdma.c; handbook §3.2",
            ),
            _ => (format!("on the path between {named}: {}", row.because), RDMA_TOPO),
        };
        vec![Rationale::new(text, source)]
    }

    /// Formats as `GPU a and NIC b`.
    pub(super) fn named(&self, pair: &Pair) -> String {
        let peer = match pair.kind {
            Peer::Gpu => format!("GPU {}", pair.peer),
            Peer::Nic => format!("NIC {}", pair.peer),
            Peer::Nvme => format!("NVMe {}", pair.peer),
            Peer::DataDirect => match &self.topology.nics_of(pair.peer)[..] {
                [] => format!("Data Direct function {}", pair.peer),
                nics => {
                    let nics = some_of(nics.iter().map(PciAddress::to_string), 2, "functions");
                    format!("NIC {nics} by its Data Direct function {}", pair.peer)
                }
            },
        };
        format!("GPU {} and {peer}", pair.gpu)
    }
}
