//! Xid numbers of NVIDIA's driver with their meaning for a host (NVIDIA's Xid catalogue; handbook §6.2). From 162 on
//! only the names in open-gpu-kernel-modules 595.45.04, src/common/sdk/nvidia/inc/nverror.h are known; their recovery
//! is inferred. Pure.

use std::ops::RangeInclusive;

use bedplate_base::Recovery;

/// An Xid number and its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Xid {
    /// Xid number.
    pub number: u32,
    /// Meaning, in a few words.
    pub means: &'static str,
    /// Recovery action.
    pub recovery: Recovery,
}

const fn xid(number: u32, means: &'static str, recovery: Recovery) -> Xid {
    Xid { number, means, recovery }
}

/// Numbers that concern programs: remarks, and a fault or the end of one process, which the GPU survives.
const OF_PROGRAMS: &[RangeInclusive<u32>] = &[
    8..=8,
    11..=11,
    13..=13,
    25..=25,
    31..=32,
    37..=37,
    39..=41,
    43..=43,
    45..=45,
    60..=60,
    66..=72,
    75..=77,
    80..=80,
    82..=86,
    88..=89,
    93..=93,
    96..=108,
    126..=135,
    137..=137,
    139..=139,
    141..=142,
    152..=153,
    159..=165,
    174..=174,
];

/// Numbers that concern the GPU, in numerical order.
#[rustfmt::skip]
const OF_GPUS: &[Xid] = &[
    xid(38, "GPU firmware watchdog", Recovery::None),
    xid(44, "fault during a context switch", Recovery::None),
    xid(46, "the GPU stopped processing", Recovery::ResetGpu),
    xid(48, "uncorrectable memory error", Recovery::ResetGpu),
    xid(54, "auxiliary power is missing", Recovery::ReplacePart),
    xid(62, "the GPU's power management unit stopped", Recovery::ResetGpu),
    xid(63, "a memory row or page is retired at the next reset", Recovery::None),
    xid(64, "a memory row or page could not be retired", Recovery::ResetGpu),
    xid(74, "NVLink error", Recovery::ResetGpu),
    xid(78, "a vGPU could not start", Recovery::None),
    xid(79, "the GPU has fallen off the bus", Recovery::PowerCycle),
    xid(92, "many corrected memory errors", Recovery::None),
    xid(94, "memory error, contained to one job", Recovery::None),
    xid(95, "uncontained memory error", Recovery::ResetGpu),
    xid(109, "context switch timed out", Recovery::ResetGpu),
    xid(110, "security fault", Recovery::ResetGpu),
    xid(119, "the GPU's system processor (GSP) does not answer", Recovery::ResetGpu),
    xid(120, "error in the GPU's system processor (GSP)", Recovery::ResetGpu),
    xid(121, "corrected error on the link to the CPU (C2C)", Recovery::None),
    xid(136, "NVLink training failed", Recovery::ResetGpu),
    xid(140, "uncontained memory error", Recovery::ResetGpu),
    xid(143, "the GPU could not be initialised", Recovery::ResetGpu),
    xid(144, "NVLink error", Recovery::ResetGpu),
    xid(145, "NVLink error", Recovery::ResetGpu),
    xid(146, "NVLink error", Recovery::ResetGpu),
    xid(147, "NVLink error", Recovery::ResetGpu),
    xid(148, "NVLink error", Recovery::ResetGpu),
    xid(149, "NVLink error", Recovery::ResetGpu),
    xid(150, "NVLink error", Recovery::ResetGpu),
    xid(151, "key rotation failed (confidential computing)", Recovery::None),
    xid(155, "NVLink error", Recovery::ResetGpu),
    xid(156, "a resource is retired at the next reset", Recovery::None),
    xid(157, "a resource could not be retired", Recovery::None),
    xid(158, "the GPU timed out", Recovery::ResetGpu),
    xid(167, "PCIe timeout", Recovery::Reboot),
    xid(168, "memory capacity reduced because of faults", Recovery::None),
    xid(169, "the GPU's security processor stopped", Recovery::ResetGpu),
    xid(171, "uncorrectable error in DRAM", Recovery::ResetGpu),
    xid(172, "uncorrectable error in SRAM", Recovery::ResetGpu),
    xid(173, "the link to the CPU (C2C) failed", Recovery::Reboot),
    xid(176, "many corrected PCIe errors", Recovery::None),
];

/// Numbers with the severity in their line (NVLink of Blackwell).
pub(crate) const OF_NVLINK5: RangeInclusive<u32> = 144..=149;

/// Whether a number concerns a program or is a remark.
pub(crate) fn is_of_a_program(number: u32) -> bool {
    OF_PROGRAMS.iter().any(|range| range.contains(&number))
}

/// Xid of a GPU that no longer answers.
pub const OFF_THE_BUS: u32 = 79;
/// Xid that names the recovery action requested by the GPU.
pub(crate) const ACTION: u32 = 154;

/// Returns the entry of a number; `None`: not in the table.
pub fn find(number: u32) -> Option<&'static Xid> {
    OF_GPUS.binary_search_by_key(&number, |xid| xid.number).ok().map(|at| &OF_GPUS[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpu_numbers_are_sorted_and_not_of_programs() {
        assert!(OF_GPUS.windows(2).all(|pair| pair[0].number < pair[1].number));
        assert!(OF_GPUS.iter().all(|xid| !is_of_a_program(xid.number)));
        assert_eq!(find(OFF_THE_BUS).map(|xid| xid.recovery), Some(Recovery::PowerCycle));
    }
}
