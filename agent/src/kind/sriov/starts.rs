//! VFs that have no driver because a run was cut short: taken from it, or made without one, until their attributes are set.
//! The ledger knows them, and the next run starts their drivers.

use super::differs::{Differs, ranges};
use super::{Pf, VfDriver};
use crate::host::boot_id;
use crate::ledger::VfKey;
use crate::plan::{Item, Why};
use crate::value::vf::VfAttributes;

impl Pf<'_> {
    /// Whether this VF has no driver, and the ledger says that it is to have one again.
    pub(super) fn is_owed_start(&self, number: u16) -> bool {
        let vf = self.sriov.vfs.get(usize::from(number)).and_then(|vf| self.tree.get(*vf));
        self.wanted.vf_driver == VfDriver::Auto
            && self.is_to_probe()
            && vf.is_some_and(|vf| vf.driver.is_none() && !self.driver_is_unread(vf.address))
            && boot_id::of(self.context.reader)
                .is_ok_and(|boot| self.context.ledger.owes_start(&self.name_of(number), &boot))
    }

    /// Whether bedplate made this VF: of one that was there, the ledger has what was found.
    pub(super) fn was_made_here(&self, number: u16) -> bool {
        !self.context.ledger.vfs.contains_key(&self.name_of(number))
    }

    /// The same of a PF without wanted attributes.
    pub(super) fn owed_starts(&self) -> Vec<Differs> {
        let none = VfAttributes::default();
        let owed = (0..self.wanted.count).filter(|number| self.is_owed_start(*number));
        owed.map(|number| Differs { number, before: none, after: none, start: true, owed: true })
            .collect()
    }

    fn name_of(&self, number: u16) -> String {
        VfKey::name_of(self.wanted.pf, number)
    }
}

/// For people: the drivers that are started.
pub(super) fn starting(differing: &[Differs]) -> Option<Item> {
    let owed: Vec<u16> = differing.iter().filter(|vf| vf.owed).map(|vf| vf.number).collect();
    (!owed.is_empty()).then(|| Item {
        subject: format!("driver of {}", ranges(&owed)),
        before: Some("none".to_owned()),
        after: Some("the one the kernel finds".to_owned()),
        why: vec![Why::because(
            "an earlier run of bedplate was stopped before it could start the driver",
        )],
    })
}
