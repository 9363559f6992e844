//! Bits that a kernel with the parsing bug leaves on after booting with `pci=disable_acs_redir=`: TB and DT, without an
//! IOMMU also SV and UF. From 47c8846a49ba until its fix, 9cf8a952d57b, the kernel sets the complement of RR, CR and EC
//! (drivers/pci/pci.c, `__pci_config_acs`; handbook §1.4). TB blocks translated requests and DT lets them bypass the IOMMU;
//! the argument requests neither. Pure.

use std::borrow::Cow;

use super::{BootArguments, support, token};
use crate::desired::WantedAcs;
use crate::plan::Rationale;
use bedplate_base::value::AcsBits;
use bedplate_facts::Facts;
use bedplate_facts::pci::Acs;

/// Returns the desired port, with the bits that the bug left on added to those to clear.
pub(crate) fn cleared_too<'a>(
    wanted: &'a WantedAcs,
    acs: &Acs,
    arguments: &BootArguments,
    facts: &Facts,
) -> Cow<'a, WantedAcs> {
    let left = bits_left_on(wanted, acs, arguments, facts);
    if left.is_empty() {
        return Cow::Borrowed(wanted);
    }
    let mut more = wanted.clone();
    more.bits.mask |= left.0;
    more.why.push(Rationale::new(
        format!(
            "{left} left on by a kernel that misreads pci=disable_acs_redir= (fixed by Linux commit 9cf8a952d57b)"
        ),
        "Linux drivers/pci/pci.c; handbook §1.4, §14.2",
    ));
    Cow::Owned(more)
}

fn bits_left_on(
    wanted: &WantedAcs,
    acs: &Acs,
    arguments: &BootArguments,
    facts: &Facts,
) -> AcsBits {
    let redir_only = token::of_port(None, arguments.disable_redir.as_deref(), wanted.port)
        .is_some()
        && token::of_port(arguments.config_acs.as_deref(), None, wanted.port).is_none();
    if !redir_only || !support::may_misread(&facts.os) {
        return AcsBits::default();
    }
    let without_iommu = facts.iommu.active.known().is_some_and(Vec::is_empty);
    let set = AcsBits::TB.or(AcsBits::DT);
    let set = if without_iommu { set.or(AcsBits::SV).or(AcsBits::UF) } else { set };
    acs.control.and(set).without(AcsBits(wanted.bits.mask))
}
