//! What numbers of NVIDIA's Xid and SXid messages mean for a host (NVIDIA's "Xid Errors" and "Fabric Manager User Guide"; the names
//! of the codes in open-gpu-kernel-modules, src/common/sdk/nvidia/inc/nverror.h). Pure.

use crate::recovery::Recovery;

/// A number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Xid {
    /// The number.
    pub number: u32,
    /// Meaning, in a few words.
    pub means: &'static str,
    /// What brings the GPU back.
    pub recovery: Recovery,
}

const fn xid(number: u32, means: &'static str, recovery: Recovery) -> Xid {
    Xid { number, means, recovery }
}

/// Those of programs: a fault or the end of one process, after which the GPU works on.
pub const OF_PROGRAMS: [u32; 8] = [13, 31, 32, 43, 45, 68, 69, 137];

/// Those of the GPU, by number. Where NVIDIA asks for a reset of the GPU it is a reboot here: jobs have to leave the node for either.
pub const OF_GPUS: &[Xid] = &[
    xid(38, "driver firmware error", Recovery::Reboot),
    xid(46, "the GPU stopped processing", Recovery::Reboot),
    xid(48, "double-bit memory error", Recovery::Reboot),
    xid(54, "power cable not connected", Recovery::ReplacePart),
    xid(56, "display engine error", Recovery::None),
    xid(57, "error while programming the video memory interface", Recovery::Reboot),
    xid(58, "unstable video memory interface", Recovery::Reboot),
    xid(61, "internal microcontroller breakpoint", Recovery::Reboot),
    xid(62, "internal microcontroller halt", Recovery::Reboot),
    xid(63, "memory row or page set aside", Recovery::None),
    xid(64, "a memory row or page could not be set aside", Recovery::Reboot),
    xid(74, "NVLink error", Recovery::Reboot),
    xid(78, "vGPU start error", Recovery::None),
    xid(79, "the GPU has fallen off the bus", Recovery::PowerCycle),
    xid(81, "VGA subsystem error", Recovery::None),
    xid(92, "many single-bit memory errors", Recovery::None),
    xid(94, "contained memory error: the programs that it hit have ended", Recovery::None),
    xid(95, "uncontained memory error", Recovery::Reboot),
    xid(109, "context switch timed out", Recovery::Reboot),
    xid(110, "security fault", Recovery::Reboot),
    xid(116, "SM global exception", Recovery::None),
    xid(119, "the GPU system processor (GSP) does not answer", Recovery::Reboot),
    xid(120, "GPU system processor (GSP) error", Recovery::Reboot),
    xid(121, "corrected error on the link between CPU and GPU (C2C)", Recovery::None),
    xid(122, "SPI remote procedure call failed", Recovery::Drain),
    xid(123, "power management unit error", Recovery::Reboot),
    xid(136, "link training failed", Recovery::Reboot),
    xid(140, "uncorrected memory error", Recovery::Reboot),
    xid(143, "GPU initialisation error", Recovery::Reboot),
    xid(144, "NVLink error", Recovery::Reboot),
    xid(145, "NVLink error", Recovery::Reboot),
    xid(146, "NVLink error", Recovery::Reboot),
    xid(147, "NVLink error", Recovery::Reboot),
    xid(148, "NVLink error", Recovery::Reboot),
    xid(149, "NVLink error", Recovery::Reboot),
    xid(150, "NVLink error", Recovery::Reboot),
    xid(151, "key rotation error", Recovery::Reboot),
    xid(155, "NVLink is not up", Recovery::Reboot),
    xid(156, "memory set aside", Recovery::None),
    xid(158, "the GPU timed out", Recovery::Reboot),
    xid(167, "PCIe timeout", Recovery::Reboot),
];

/// The Xid of a GPU that no longer answers.
pub const OFF_THE_BUS: u32 = 79;
/// The Xid that says which recovery the GPU asks for, in words.
pub const ACTION: u32 = 154;

/// What a number means; `None`: it is not in the table.
pub fn find(number: u32) -> Option<&'static Xid> {
    OF_GPUS.binary_search_by_key(&number, |xid| xid.number).ok().map(|at| &OF_GPUS[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_sorted_and_of_one_kind() {
        assert!(OF_GPUS.windows(2).all(|pair| pair[0].number < pair[1].number));
        assert!(OF_PROGRAMS.iter().all(|number| find(*number).is_none()));
        assert_eq!(find(OFF_THE_BUS).map(|xid| xid.recovery), Some(Recovery::PowerCycle));
    }
}
