//! Functions that links name and the directory of devices does not list.

use super::Scan;
use super::identity::Place;
use crate::pci::{Function, UnlistedGuest};
use bedplate_base::value::PciAddress;

impl Scan<'_> {
    pub(super) fn note_missing_bridges(&mut self) {
        let listed = &self.tree.functions;
        self.tree.hidden.retain(|bridge, _| !listed.contains_key(bridge));
        let hidden: Vec<PciAddress> = self.tree.hidden.keys().copied().collect();
        for bridge in hidden {
            // A bridge that is listed but unreadable already has its gap.
            if !self.tree.gaps.iter().any(|gap| gap.address == bridge) {
                let reason = "unlisted bridge above listed functions";
                self.gap(bridge, reason);
            }
        }
    }

    /// Records functions reserved for VMs that are unlisted or not understood; their isolation matters too.
    pub(super) fn note_unlisted_guests(&mut self) {
        let (listed, hidden) = (&self.tree.functions, &self.tree.hidden);
        self.tree.unread_drivers.retain(|address, _| {
            let is_bridge = hidden.contains_key(address)
                || listed.get(address).is_some_and(Function::is_bridge);
            !is_bridge && !self.vfio.contains_key(address)
        });
        let known = self.vfio.iter().map(|(address, place)| (address, place.as_ref()));
        let perhaps = self.undriven.iter().map(|(address, place)| (address, Some(place)));
        let perhaps = perhaps.filter(|(address, _)| self.tree.unread_drivers.contains_key(address));
        let unlisted = known.chain(perhaps).filter(|(address, _)| !listed.contains_key(address));
        let guest = |(address, place): (&PciAddress, Option<&Place>)| UnlistedGuest {
            address: *address,
            root: place.map(|place| place.root.clone()).unwrap_or_default(),
            above: place.into_iter().flat_map(|place| place.above.iter().rev().copied()).collect(),
        };
        self.tree.unlisted_guests = unlisted.map(guest).collect();
    }
}
