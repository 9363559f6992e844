//! VFs that the profile itself gives to guests: a port above them is not opened by the same plan. Pure.

use crate::desired::{VfDriver, WantedVfs};
use crate::kind::sriov;
use crate::profile::model::Profile;
use bedplate_base::value::PciAddress;
use bedplate_facts::Facts;
use bedplate_facts::pci::serves_guests;

/// The PFs whose VFs are to have a driver for guests.
pub(crate) fn planned_guests(profile: &Profile, facts: &Facts) -> Vec<PciAddress> {
    let for_guests = |wanted: &WantedVfs| {
        wanted.count > 0
            && matches!(&wanted.rule.vf_driver, VfDriver::Named(driver) if serves_guests(driver))
    };
    let wanted = sriov::resolve(&profile.sriov, facts).vfs;
    wanted.iter().filter(|wanted| for_guests(wanted)).map(|wanted| wanted.pf).collect()
}
