//! The change for the VFs of one PF: its actions and its items.

use super::disruption::{RouteReading, cut_off};
use super::unstarted_vfs::probing_again;
use super::{NAME, Need, Pf, VfDifference};
use crate::desired::VfDriver;
use crate::kind::some_of;
use crate::plan::{Action, Change, Deferred, Effect, Item};
use crate::setting::WriteAttribute;

impl Pf<'_> {
    pub(super) fn change(
        &self,
        present: u16,
        need: Need,
        image: bool,
        differing: &[VfDifference],
        route: &RouteReading,
    ) -> Change {
        let count = (need != Need::Nothing).then(|| self.item(present, need));
        let probing = self.forgot_probing(need, differing).then(probing_again);
        let items = count.into_iter().chain(probing).chain(self.attribute_items(differing));
        let (id, items) = (self.wanted.pf.to_string(), items.collect());
        let actions = self.actions(present, need, differing);
        Change {
            disrupts: self.disrupts(present, need, differing, route),
            deferred: image.then(Deferred::to_first_boot),
            ..NAME.change(&id, self.subject(), items, Effect::EveryBoot, actions)
        }
    }

    fn item(&self, present: u16, need: Need) -> Item {
        let (before, after) = match need {
            Need::StopProbing => ("driver probing on".to_owned(), "driver probing off".to_owned()),
            Need::Bind => (format!("{} without driver", vfs(present)), self.goal()),
            Need::Nothing | Need::Create | Need::Destroy => (vfs(present), self.goal()),
        };
        let after = if before == after { format!("{after}, re-created") } else { after };
        Item::new("SR-IOV", Some(&before), Some(&after), &self.wanted.why)
    }

    fn goal(&self) -> String {
        match (&self.wanted.rule.vf_driver, self.wanted.count) {
            (VfDriver::Auto, count) | (_, count @ 0) => vfs(count),
            (_, count) => format!("{} with {}", vfs(count), self.driver_wanted()),
        }
    }

    fn disrupts(
        &self,
        present: u16,
        need: Need,
        differing: &[VfDifference],
        route: &RouteReading,
    ) -> Vec<String> {
        let of_count = match need {
            Need::Nothing | Need::Bind | Need::StopProbing => Vec::new(),
            Need::Create => self.disturbs(),
            Need::Destroy => [self.what_vanishes(present), self.disturbs()].concat(),
        };
        let cut_off = cut_off(route).into_iter().collect();
        [of_count, cut_off, self.attribute_disruptions(differing)].concat()
    }

    fn what_vanishes(&self, present: u16) -> Vec<String> {
        let of = |vf: &&bedplate_base::value::PciAddress| {
            self.tree.get(**vf).map_or(&[][..], |vf| &vf.net)
        };
        let names: Vec<String> =
            self.sriov.vfs.iter().flat_map(|vf| of(&vf).iter().cloned()).collect();
        let interfaces = match names.len() {
            0 => String::new(),
            _ => format!(" with {}", some_of(names.into_iter(), 8, "interfaces")),
        };
        let again = if self.wanted.count > 0 { ", then creates new devices" } else { "" };
        vec![format!("removes {}{interfaces}{again}", vfs(present))]
    }

    fn actions(&self, present: u16, need: Need, differing: &[VfDifference]) -> Vec<Action> {
        let count = self.wanted.count;
        let numvfs = |before: u16, after: u16| {
            self.write(
                "sriov_numvfs",
                before.to_string(),
                after.to_string(),
                limit_s(before.max(after)),
            )
        };
        let autoprobe = |on: bool| {
            self.write(
                "sriov_drivers_autoprobe",
                u8::from(!on).to_string(),
                u8::from(on).to_string(),
                10,
            )
        };
        let mut actions = self.load_driver(need);
        if need == Need::Destroy {
            actions.push(numvfs(present, 0));
        }
        actions.extend(self.switch_action());
        let fresh = matches!(need, Need::Create | Need::Destroy);
        let auto = self.wanted.rule.vf_driver == VfDriver::Auto;
        // A driver reads a VF's addresses and trust when it starts, so attributes must be set before.
        let quiet = match auto {
            true => fresh && !differing.is_empty(),
            false => count > 0 && !matches!(need, Need::Bind | Need::Nothing),
        };
        let probed = if auto { self.is_to_probe() } else { self.probes() };
        if quiet && probed {
            actions.push(autoprobe(false));
        }
        if self.forgot_probing(need, differing) {
            actions.push(autoprobe(true));
        }
        if fresh && count > 0 {
            actions.push(numvfs(0, count));
        }
        let resumes = !fresh && !self.probes() && differing.iter().any(|vf| vf.owed);
        if resumes || (quiet && probed && auto) {
            actions.push(autoprobe(true));
        }
        actions.extend(self.vf_actions(differing));
        let binds = count > 0 && need != Need::Nothing;
        if let (VfDriver::Named(driver), true) = (&self.wanted.rule.vf_driver, binds) {
            let driver = driver.clone();
            actions.push(Action::BindVfs {
                pf: self.wanted.pf,
                count,
                driver,
                limit_s: limit_s(count),
            });
            // VFs without a driver would be bound by the next driver that is loaded, so probing stays off for them.
            if quiet && probed {
                actions.push(autoprobe(true));
            }
        }
        actions
    }

    /// Loads the named driver, which must exist before VFs can be bound to it.
    fn load_driver(&self, need: Need) -> Vec<Action> {
        match &self.wanted.rule.vf_driver {
            VfDriver::Named(driver) if self.wanted.count > 0 && need != Need::Nothing => {
                let there = self.context.reader.exists(&format!("/sys/bus/pci/drivers/{driver}"));
                // modprobe of a loaded module does nothing.
                let load = || Action::LoadModule { module: driver.replace('-', "_") };
                (there != Ok(true)).then(load).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn write(&self, attribute: &str, before: String, after: String, limit_s: u32) -> Action {
        let path = format!("/sys/bus/pci/devices/{}/{attribute}", self.wanted.pf);
        Action::WriteAttribute(WriteAttribute { path, before, after, limit_s })
    }
}

/// Formats a count: `1 VF`, `8 VFs`.
pub(super) fn vfs(count: u16) -> String {
    format!("{count} {}", if count == 1 { "VF" } else { "VFs" })
}

/// Returns the time limit in seconds for creating, destroying or binding VFs: the PF's driver handles them one by one, in
/// some drivers with a firmware query for each (handbook §5.1: allow minutes for large counts).
fn limit_s(count: u16) -> u32 {
    60 + 5 * u32::from(count)
}
