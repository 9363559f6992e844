//! VFs that the profile itself gives to guests: a port above them is not opened by the same plan. Pure.

use crate::desired::{VfDriver, WantedVfs};
use crate::facts::Facts;
use crate::facts::pci::serves_guests;
use crate::kind::sriov::{self, section::Sriov};
use crate::section::Declared;
use crate::value::PciAddress;

/// The PFs whose VFs are to have a driver for guests.
pub fn guests_to_come(profile: &dyn Declared, facts: &Facts) -> Vec<PciAddress> {
    let Some(section) = profile.get::<Sriov>() else { return Vec::new() };
    let for_guests = |wanted: &WantedVfs| {
        wanted.count > 0
            && matches!(&wanted.vf_driver, VfDriver::Named(driver) if serves_guests(driver))
    };
    let wanted = sriov::resolve(section, facts).vfs;
    wanted.iter().filter(|wanted| for_guests(wanted)).map(|wanted| wanted.pf).collect()
}
