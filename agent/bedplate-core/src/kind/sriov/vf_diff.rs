//! Difference of one VF from the profile, and names of VF ranges. Pure.

use bedplate_base::value::vf::VfAttributes;

/// One VF whose attributes differ.
pub(super) struct VfDifference {
    pub(super) number: u16,
    /// Current attributes; empty for a VF not yet created.
    pub(super) before: VfAttributes,
    pub(super) after: VfAttributes,
    /// Whether its driver must start afterwards, because it reads the attributes only then.
    pub(super) start: bool,
    /// Whether it has no driver because a run was interrupted.
    pub(super) owed: bool,
}

/// Formats numbers of VFs: `VF 3`, `VFs 0-7`, `VFs 0-2, 5`.
pub(super) fn ranges(numbers: &[u16]) -> String {
    let texts = bedplate_base::ranges(numbers.iter().copied().map(u32::from));
    format!("{} {}", if numbers.len() == 1 { "VF" } else { "VFs" }, texts.join(", "))
}
