//! Drivers of existing VFs, compared with the profile's.

use super::attributes::Stop;
use super::change::vfs;
use super::{Need, Pf, VfDriver};
use bedplate_base::value::PciAddress;

impl Pf<'_> {
    /// Whether the driver of a function could not be read, so that it may have one.
    pub(super) fn driver_is_unread(&self, function: PciAddress) -> bool {
        self.tree.unread_drivers.contains_key(&function)
    }

    /// Returns the driver work for VFs of the right count. One wrong driver is decisive; a match requires that all drivers
    /// are known.
    pub(super) fn driver_need(&self, present: u16) -> Result<Need, Stop> {
        let named = match &self.wanted.rule.vf_driver {
            VfDriver::Auto => return Ok(Need::Nothing),
            VfDriver::None => None,
            VfDriver::Named(name) => Some(name.as_str()),
        };
        let unread = &self.tree.unread_drivers;
        let seen = self.sriov.vfs.iter().filter(|vf| !unread.contains_key(vf));
        let drivers: Vec<Option<&str>> =
            seen.filter_map(|vf| Some(self.tree.get(*vf)?.driver.as_deref())).collect();
        if drivers.iter().flatten().any(|driver| Some(*driver) != named) {
            return Ok(Need::Destroy);
        }
        let hidden = usize::from(present).saturating_sub(drivers.len());
        if hidden > 0 {
            let reason = self.sriov.vfs.iter().find_map(|vf| unread.get(vf));
            let reason = reason.map_or("not visible", |reason| &**reason);
            return Err(Stop::Unknown(format!(
                "the driver of {hidden} of {} is unknown: {reason}",
                vfs(present)
            )));
        }
        Ok(match named {
            None if self.probes() => Need::StopProbing,
            Some(_) if drivers.iter().any(Option::is_none) => Need::Bind,
            _ => Need::Nothing,
        })
    }
}
