//! The shapes of fabrics in which a GPU meets a NIC, and the ACS bits that each wants: one row a shape. A new shape is a new
//! row. Bits and conditions are NVIDIA's (rdma-core kernel-boot/rdma_topo; handbook §14.1, pictures in `docs/fabrics.md`).
//! Pure.

use bedplate_base::value::{AcsBits, RegisterBits};

/// The redirect bits off, as `pci=disable_acs_redir=` does it.
pub(super) const NO_REDIRECT: RegisterBits = RegisterBits { mask: AcsBits::REDIRECT.0, value: 0 };
/// Every bit off.
pub(super) const ALL_OFF: RegisterBits = RegisterBits { mask: AcsBits::ALL.0, value: 0 };
/// No bit counts.
const NONE: RegisterBits = RegisterBits { mask: 0, value: 0 };

/// The flags of a row, which are constants.
const fn bits(flags: &str) -> RegisterBits {
    match RegisterBits::from_flags(flags) {
        Some(bits) => bits,
        None => panic!("flags are 1, 0 or x"),
    }
}

/// How the two ends of a pair are to stand in IOMMU groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Groups {
    /// In the same one, or in none.
    Together,
    /// In different ones.
    Apart,
}

/// A shape of fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shape {
    /// A ConnectX-8 reaches the GPU by a DMA function of its own.
    DataDirect,
    /// GPU and NIC below one switch, for guests: the NIC translates, and the switch lets what is translated pass.
    SwitchForGuests,
    /// GPU and NIC below one switch, on bare metal.
    Switch,
    /// Each GPU and each NIC on a root port of its own.
    RootPortEach,
}

/// By what a fabric is recognised.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FabricTraits {
    /// Something meets in a switch.
    pub meets: bool,
    /// The GPU is reached through a DMA function of the NIC.
    pub data_direct: bool,
    /// Its ports are to serve guests.
    pub for_guests: bool,
}

/// What a shape wants.
pub(crate) struct Row {
    /// Which.
    pub shape: Shape,
    /// How it is recognised; the first row that is decides.
    pub is: fn(FabricTraits) -> bool,
    /// Ports between the switch's inside and the NIC (or its DMA function).
    pub nic: RegisterBits,
    /// Ports between the switch's inside and the GPU.
    pub gpu: RegisterBits,
    /// The root port above.
    pub root: RegisterBits,
    /// The upstream ports of the switches passed, the common one among them: Linux counts their redirect bits as well
    /// (drivers/pci/p2pdma.c, `calc_map_type_and_dist` tests each bridge before it compares).
    pub upstream: RegisterBits,
    /// What must then be true of IOMMU groups,
    pub groups: Groups,
    /// and of ATS in the NIC: whether it has it; `None`: either.
    pub ats: Option<bool>,
    /// Why the ports on the way are to be so.
    pub because: &'static str,
    /// Why the root port is to be so.
    pub root_because: &'static str,
}

/// One row a shape.
pub(crate) const SHAPES: [Row; 4] = [
    // Nothing meets in a switch: Linux's own bits are right (`xx111x1`; Vera's root ports have no CR).
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
        because: "requests of the DMA function (RR) and completions of the GPU (CR) are to pass the switch directly, all \
                  else stays redirected",
        root_because: "root port above a Data Direct path: isolation stays on, but for source validation",
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
        because: "for guests: requests that the NIC has translated (ATS) pass the switch directly (DT), all others stay \
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
        because: "with redirect on, their traffic leaves the switch for the root complex",
        root_because: "root port above a switch with open ports: opened too, so that at boot Linux puts everything below \
                       it into one IOMMU group, which is the real isolation",
    },
];
