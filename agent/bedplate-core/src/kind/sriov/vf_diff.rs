//! What of one VF differs from the profile, and how VFs are named together. Pure.

use bedplate_base::value::vf::VfAttributes;

/// One VF whose attributes differ.
pub(super) struct VfDifference {
    pub(super) number: u16,
    /// As they are; empty for a VF that is to come.
    pub(super) before: VfAttributes,
    pub(super) after: VfAttributes,
    /// Its driver has to start afterwards, for it reads them only then.
    pub(super) start: bool,
    /// It has no driver because a run was cut short.
    pub(super) owed: bool,
}

/// `VF 3`, `VFs 0-7`, `VFs 0-2, 5`.
pub(super) fn ranges(numbers: &[u16]) -> String {
    let texts = bedplate_base::ranges(numbers.iter().copied().map(u32::from));
    format!("{} {}", if numbers.len() == 1 { "VF" } else { "VFs" }, texts.join(", "))
}
