//! The shapes of fabrics in which a GPU meets a NIC, and the ACS bits that each wants: one row a shape. A new shape is a new
//! row. Bits and conditions are NVIDIA's (rdma-core kernel-boot/rdma_topo; handbook §14.1, pictures in `docs/fabrics.md`).
//! Pure.

use bedplate_base::value::AcsBits;

/// Bits of one port: which count, and what they are to be. The others are left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bits {
    /// Which count.
    pub mask: AcsBits,
    /// What they are to be.
    pub value: AcsBits,
}

impl Bits {
    /// Nothing counts.
    pub(super) const NONE: Bits = Bits { mask: AcsBits(0), value: AcsBits(0) };
    /// The redirect bits off, as `pci=disable_acs_redir=` does it.
    pub(super) const NO_REDIRECT: Bits = Bits { mask: AcsBits::REDIRECT, value: AcsBits(0) };
    /// Every bit off.
    pub(super) const ALL_OFF: Bits = Bits { mask: AcsBits::ALL, value: AcsBits(0) };

    /// As `pci=config_acs=` has them, DT first and SV last: `1`, `0`, or anything else for a bit that is left alone.
    pub(super) const fn from_flags(flags: &str) -> Bits {
        let flags = flags.as_bytes();
        let (mut mask, mut value, mut at) = (0, 0, 0);
        while at < flags.len() {
            mask <<= 1;
            value <<= 1;
            if flags[at] == b'0' || flags[at] == b'1' {
                mask |= 1;
                value |= (flags[at] == b'1') as u16;
            }
            at += 1;
        }
        Bits { mask: AcsBits(mask), value: AcsBits(value) }
    }

    /// The same without some of them.
    pub(super) fn without(self, bits: AcsBits) -> Bits {
        Bits { mask: self.mask.without(bits), value: self.value.without(bits) }
    }

    /// Both wishes; where they contradict each other the bit is to be on, which isolates.
    pub(super) fn and(self, other: Bits) -> Bits {
        Bits { mask: self.mask.or(other.mask), value: self.value.or(other.value) }
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
    pub nic: Bits,
    /// Ports between the switch's inside and the GPU.
    pub gpu: Bits,
    /// The root port above.
    pub root: Bits,
    /// The upstream ports of the switches passed, the common one among them: Linux counts their redirect bits as well
    /// (drivers/pci/p2pdma.c, `calc_map_type_and_dist` tests each bridge before it compares).
    pub upstream: Bits,
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
        nic: Bits::NONE,
        gpu: Bits::NONE,
        root: Bits::NONE,
        upstream: Bits::NONE,
        groups: Groups::Apart,
        ats: Some(false),
        because: "their traffic passes the root complex",
        root_because: "their traffic passes the root complex",
    },
    Row {
        shape: Shape::DataDirect,
        is: |fabric| fabric.data_direct,
        nic: Bits::from_flags("xx110x1"),
        gpu: Bits::from_flags("xx101x1"),
        root: Bits::from_flags("xx111x0"),
        upstream: Bits::NONE,
        groups: Groups::Together,
        ats: None,
        because: "requests of the DMA function (RR) and completions of the GPU (CR) are to pass the switch directly, all \
                  else stays redirected",
        root_because: "root port above a Data Direct path: isolation stays on, but for source validation",
    },
    Row {
        shape: Shape::SwitchForGuests,
        is: |fabric| fabric.for_guests,
        nic: Bits::from_flags("1x111x1"),
        gpu: Bits::from_flags("xx111x1"),
        root: Bits::from_flags("xx111x1"),
        upstream: Bits::NONE,
        groups: Groups::Apart,
        ats: Some(true),
        because: "for guests: requests that the NIC has translated (ATS) pass the switch directly (DT), all others stay \
                  redirected",
        root_because: "root port above a switch for guests: isolation stays on",
    },
    Row {
        shape: Shape::Switch,
        is: |_| true,
        nic: Bits::from_flags("xx000x0"),
        gpu: Bits::from_flags("xx000x0"),
        root: Bits::from_flags("xx000x0"),
        upstream: Bits::from_flags("xxx00xx"),
        groups: Groups::Together,
        ats: Some(false),
        because: "with redirect on, their traffic leaves the switch for the root complex",
        root_because: "root port above a switch with open ports: opened too, so that at boot Linux puts everything below \
                       it into one IOMMU group, which is the real isolation",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_as_the_kernel_reads_them() {
        for flags in ["xx000x0", "1x111x1", "xx101x1", "xxx00xx", "0000000", "xxxxxxx"] {
            let bits = Bits::from_flags(flags);
            assert_eq!(bits.value.config_acs_flags(bits.mask), flags);
        }
        assert_eq!(Bits::from_flags("xx110x1"), Bits { mask: AcsBits(0x1d), value: AcsBits(0x19) });
    }
}
