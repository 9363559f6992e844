//! VFs that the profile itself reserves for VMs: the same plan must not disable redirect above them. Pure.

use crate::desired::{VfDriver, WantedVfs};
use crate::kind::sriov;
use crate::profile::model::Profile;
use bedplate_base::value::PciAddress;
use bedplate_facts::Facts;
use bedplate_facts::pci::serves_guests;

/// Returns the PFs with VFs that the profile binds to a driver for VMs.
pub(crate) fn planned_guests(profile: &Profile, facts: &Facts) -> Vec<PciAddress> {
    let for_guests = |wanted: &WantedVfs| {
        wanted.count > 0
            && matches!(&wanted.rule.vf_driver, VfDriver::Named(driver) if serves_guests(driver))
    };
    let wanted = sriov::resolve(&profile.sriov, facts).vfs;
    wanted.iter().filter(|wanted| for_guests(wanted)).map(|wanted| wanted.pf).collect()
}
