//! Topology classes ("shapes") of GPU and NIC below PCIe bridges, and the ACS bits of each: one table entry per class. Bits
//! and conditions are NVIDIA's (rdma-core kernel-boot/rdma_topo; handbook §14.1, pictures in `docs/fabrics.md`).
//! Pure.

use bedplate_base::value::{AcsBits, RegisterBits};

/// Redirect bits off, as with `pci=disable_acs_redir=`.
pub(super) const NO_REDIRECT: RegisterBits = RegisterBits { mask: AcsBits::REDIRECT.0, value: 0 };
/// Every bit off.
pub(super) const ALL_OFF: RegisterBits = RegisterBits { mask: AcsBits::ALL.0, value: 0 };
/// No requirement.
const NONE: RegisterBits = RegisterBits { mask: 0, value: 0 };

/// Parses the constant flags of an entry.
const fn bits(flags: &str) -> RegisterBits {
    match RegisterBits::from_flags(flags) {
        Some(bits) => bits,
        None => panic!("flags are 1, 0 or x"),
    }
}

/// Desired IOMMU groups of the two ends of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Groups {
    /// In one group, or both without a group.
    Together,
    /// In different groups.
    Apart,
}

/// Topology class of a PCIe tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shape {
    /// A ConnectX-8 reaches the GPU by its own DMA function.
    DataDirect,
    /// GPU and NIC below one switch, for VMs: the NIC translates, and the switch passes translated requests.
    SwitchForGuests,
    /// GPU and NIC below one switch, on bare metal.
    Switch,
    /// Each GPU and each NIC on its own root port.
    RootPortEach,
}

/// Traits that identify the class of a PCIe tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FabricTraits {
    /// A GPU and a peer share a switch.
    pub meets: bool,
    /// The GPU is reached through a DMA function of the NIC.
    pub data_direct: bool,
    /// Its ports must serve VMs.
    pub for_guests: bool,
}

/// Requirements of a topology class.
pub(crate) struct Row {
    /// Class of this entry.
    pub shape: Shape,
    /// Condition; the first matching entry applies.
    pub is: fn(FabricTraits) -> bool,
    /// Ports between the switch's inside and the NIC (or its DMA function).
    pub nic: RegisterBits,
    /// Ports between the switch's inside and the GPU.
    pub gpu: RegisterBits,
    /// The root port above.
    pub root: RegisterBits,
    /// Upstream ports of the switches on the path, including the common one: Linux checks their redirect bits too
    /// (drivers/pci/p2pdma.c, `calc_map_type_and_dist` tests each bridge before it compares).
    pub upstream: RegisterBits,
    /// Required IOMMU groups.
    pub groups: Groups,
    /// Required ATS in the NIC; `None` if it does not matter.
    pub ats: Option<bool>,
    /// Reason for the bits of the ports on the path.
    pub because: &'static str,
    /// Reason for the bits of the root port.
    pub root_because: &'static str,
}

/// One entry per class.
pub(crate) const SHAPES: [Row; 4] = [
    // No common switch: Linux's own bits are right (`xx111x1`; Vera's root ports have no CR).
    Row {
        shape: Shape::RootPortEach,
        is: |fabric| !fabric.meets,
        nic: NONE,
        gpu: NONE,
        root: NONE,
        upstream: NONE,
        groups: Groups::Apart,
        ats: Some(false),
        because: "their traffic passes the root complex",
        root_because: "their traffic passes the root complex",
    },
    Row {
        shape: Shape::DataDirect,
        is: |fabric| fabric.data_direct,
        nic: bits("xx110x1"),
        gpu: bits("xx101x1"),
        root: bits("xx111x0"),
        upstream: NONE,
        groups: Groups::Together,
        ats: None,
        because: "the switch passes requests of the DMA function (RR) and completions of the GPU (CR) directly, all \
                  else stays redirected",
        root_because: "root port above a Data Direct path: isolation stays on, except source validation",
    },
    Row {
        shape: Shape::SwitchForGuests,
        is: |fabric| fabric.for_guests,
        nic: bits("1x111x1"),
        gpu: bits("xx111x1"),
        root: bits("xx111x1"),
        upstream: NONE,
        groups: Groups::Apart,
        ats: Some(true),
        because: "for guests: the switch passes requests translated by the NIC (ATS) directly (DT), all others stay \
                  redirected",
        root_because: "root port above a switch for guests: isolation stays on",
    },
    Row {
        shape: Shape::Switch,
        is: |_| true,
        nic: bits("xx000x0"),
        gpu: bits("xx000x0"),
        root: bits("xx000x0"),
        upstream: bits("xxx00xx"),
        groups: Groups::Together,
        ats: Some(false),
        because: "with redirect on, their traffic detours through the root complex",
        root_because: "root port above a switch with redirect disabled: also cleared, so that Linux builds one IOMMU \
                       group below it, matching the actual isolation",
    },
];
