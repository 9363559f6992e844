//! VFs without a driver because a run was interrupted: their driver was unbound, or they were created without one, until
//! their attributes are set. The ledger records them, and the next run starts their drivers.

use std::collections::BTreeSet;

use super::vf_diff::{VfDifference, ranges};
use super::{Context, Need, Pf, VfDriver};
use crate::desired::{SriovRule, WantedVfs};
use crate::plan::{Change, Item, Rationale};
use crate::setting::VfKey;
use bedplate_base::Reading;
use bedplate_base::value::PciAddress;
use bedplate_base::value::vf::VfAttributes;
use bedplate_facts::pci::PciTree;
use bedplate_host::boot_id;

impl Pf<'_> {
    /// Whether this VF has no driver although the ledger records a pending start.
    pub(super) fn is_owed_start(&self, number: u16) -> bool {
        let vf = self.sriov.vfs.get(usize::from(number)).and_then(|vf| self.tree.get(*vf));
        self.wanted.rule.vf_driver == VfDriver::Auto
            && self.is_to_probe()
            && vf.is_some_and(|vf| vf.driver.is_none() && !self.driver_is_unread(vf.address))
            && boot_id::read(self.context.reader)
                .is_ok_and(|boot| self.context.ledger.owes_start(&self.name_of(number), &boot))
    }

    /// Whether bedplate created this VF: the ledger has earlier values only for VFs that already existed.
    pub(super) fn is_made_by_bedplate(&self, number: u16) -> bool {
        !self.context.ledger.vfs.contains_key(&self.name_of(number))
    }

    /// Returns the pending starts of a PF without attributes in the profile.
    pub(super) fn pending_starts(&self) -> Vec<VfDifference> {
        let none = VfAttributes::default();
        let owed = (0..self.wanted.count).filter(|number| self.is_owed_start(*number));
        owed.map(|number| VfDifference {
            number,
            before: none,
            after: none,
            start: true,
            owed: true,
        })
        .collect()
    }

    /// Whether VFs are about to be created while probing is still off after an interrupted run.
    pub(super) fn forgot_probing(&self, need: Need, differing: &[VfDifference]) -> bool {
        let fresh = matches!(need, Need::Create | Need::Destroy) && self.wanted.count > 0;
        // With attributes to set, probing is switched off and on again anyway.
        let stays = fresh && differing.is_empty() && self.wanted.rule.vf_driver == VfDriver::Auto;
        stays && !self.probes() && self.is_to_probe()
    }

    fn name_of(&self, number: u16) -> String {
        VfKey::name_of(self.wanted.pf, number)
    }
}

/// Returns changes for pending starts on PFs that no rule selects any more or that another tool now manages: only bedplate
/// starts these drivers.
pub(super) fn left_behind(context: &Context, tree: &PciTree) -> Vec<Change> {
    let selected = |pf: &PciAddress| context.desired.sriov.iter().any(|wanted| wanted.pf == *pf);
    let pfs: BTreeSet<PciAddress> =
        context.ledger.starts.values().map(|record| record.key.pf).collect();
    let change = |pf: PciAddress| {
        let function = tree.get(pf)?;
        let Reading::Known(sriov) = &function.sriov else { return None };
        let count = *sriov.enabled.known()?;
        let wanted = WantedVfs { pf, count, rule: SriovRule::default(), why: Vec::new() };
        let pf = Pf { context, tree, wanted: &wanted, function, sriov, switch: None };
        let owed = pf.pending_starts();
        (!owed.is_empty()).then(|| pf.change(count, Need::Nothing, false, &owed, &Ok(None)))
    };
    pfs.into_iter().filter(|pf| !selected(pf)).filter_map(change).collect()
}

/// Returns the item for switching driver probing on again.
pub(super) fn probing_again() -> Item {
    let why = "an earlier run was interrupted before it could enable probing again";
    Item::new("driver probing", Some("off"), Some("on"), &[Rationale::because(why)])
}

/// Returns the item for starting pending drivers.
pub(super) fn starting(differing: &[VfDifference]) -> Option<Item> {
    let owed: Vec<u16> = differing.iter().filter(|vf| vf.owed).map(|vf| vf.number).collect();
    let why = "an earlier run was interrupted before it could start the driver";
    let (subject, after) = (format!("driver of {}", ranges(&owed)), "the kernel's default driver");
    (!owed.is_empty())
        .then(|| Item::new(subject, Some("none"), Some(after), &[Rationale::because(why)]))
}
