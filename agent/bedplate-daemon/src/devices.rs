//! Detection of missing GPUs and NICs. A device that is gone causes no difference: no rule selects it any more, and an
//! observation alone would find the host converged. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::observation::{Device, Observation};
use bedplate_core::plan::{Blocker, KindId};

/// File of the known devices. It survives reboots, because most devices are lost at a boot.
pub(crate) const FILE: &str = bedplate_core::seal::DEVICES;
const VERSION: u32 = 1;

/// GPUs and NICs of the host when it was last complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownDevices {
    version: u32,
    /// Devices that the profile's rules select: address → model.
    devices: BTreeMap<String, String>,
    /// Devices that no rule selects. Without them, an unselected NIC of the same model would hide the loss of a selected one.
    #[serde(default)]
    others: BTreeMap<String, String>,
}

impl Default for KnownDevices {
    fn default() -> Self {
        KnownDevices { version: VERSION, devices: BTreeMap::new(), others: BTreeMap::new() }
    }
}

impl KnownDevices {
    /// Parses the text form. Returns `None` if it is invalid; the next observation then starts a new list.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().filter(|known: &KnownDevices| known.version == VERSION)
    }

    /// Renders the text form.
    pub fn render(&self) -> String {
        // A map of strings always has a JSON form.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Records the devices present, and returns the missing ones (address, model). A present device that no rule selects is
    /// no longer expected. Once the count of a model is complete, its current devices replace the recorded ones.
    pub fn update(&mut self, seen: &[Device]) -> Vec<(String, String)> {
        let kinds: BTreeSet<&String> = self.devices.values().collect();
        let gone: BTreeMap<String, String> =
            kinds.iter().flat_map(|what| self.missing(what, seen)).collect();
        let of = |selected: bool| {
            let those = seen.iter().filter(move |device| device.selected == selected);
            those.map(|device| (device.address.clone(), device.what.clone()))
        };
        self.others = of(false).collect();
        self.devices = of(true).chain(gone.clone()).collect();
        gone.into_iter().collect()
    }

    /// Like [`KnownDevices::update`], and adds missing devices as blockers. If the PCI devices cannot be read, adds an unknown.
    pub fn report_missing(&mut self, observation: &mut Observation) {
        let Some(seen) = &observation.devices else {
            if !self.devices.is_empty() {
                observation.unknowns.push(KindId::Host.unknown(
                    "PCI devices",
                    "cannot determine whether all GPUs and NICs of this host are present",
                ));
            }
            return;
        };
        observation.blockers.extend(self.update(seen).iter().map(blocker));
    }

    /// Returns the missing devices of one model. Addresses change when a bridge gets another bus number, so one lost
    /// device may give several new addresses. The count never exceeds the drop in the model's total. The choice among
    /// candidates is then a guess.
    fn missing(&self, what: &str, seen: &[Device]) -> Vec<(String, String)> {
        let is = |kind: &String| kind == what;
        let there: BTreeMap<&str, bool> = seen
            .iter()
            .filter(|device| is(&device.what))
            .map(|device| (device.address.as_str(), device.selected))
            .collect();
        let known = self.devices.iter().chain(&self.others).filter(|(_, kind)| is(kind));
        let known: BTreeSet<&str> = known.map(|(address, _)| address.as_str()).collect();
        let fewer = known.len().saturating_sub(there.len());
        let expected = self.devices.iter().filter(|(_, kind)| is(kind));
        let lost: Vec<_> =
            expected.filter(|(address, _)| !there.contains_key(address.as_str())).collect();
        // A selected device at a new address is a lost one that moved; then an unselected one is gone.
        let moved = there
            .iter()
            .filter(|(address, selected)| **selected && !known.contains(**address))
            .count();
        let count = fewer.min(lost.len().saturating_sub(moved));
        lost.into_iter()
            .take(count)
            .map(|(address, what)| (address.clone(), what.clone()))
            .collect()
    }

    /// Removes the missing devices from the record.
    pub fn forget(&mut self, gone: &[(String, String)]) {
        self.devices.retain(|address, _| !gone.iter().any(|(other, _)| other == address));
    }
}

/// Returns the blocker for a missing device.
pub(crate) fn blocker((address, what): &(String, String)) -> Blocker {
    KindId::Host.blocker(
        format!("{what} at {address}"),
        "present when this host was last complete, missing now",
        format!(
            "check `dmesg | grep {address}`, the BMC's event log, cables and power. Removed for good? Run `bedplate \
             reconcile --forget-missing`"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(address: &str, what: &str, selected: bool) -> Device {
        Device { address: address.into(), what: what.into(), selected }
    }

    fn nics(names: &[&str]) -> Vec<Device> {
        names.iter().map(|name| device(name, "NIC", true)).collect()
    }

    fn lost(known: &mut KnownDevices, seen: &[Device]) -> Vec<String> {
        known.update(seen).into_iter().map(|(address, _)| address).collect()
    }

    #[test]
    fn missing_device_is_reported_until_back_or_forgotten() {
        let gpu = device("g", "GPU", true);
        let with_gpu = |names: &[&str]| [nics(names), vec![gpu.clone()]].concat();
        let mut known = KnownDevices::default();
        assert_eq!(lost(&mut known, &with_gpu(&["a", "b"])), [""; 0]);
        for _ in 0..2 {
            assert_eq!(lost(&mut known, &with_gpu(&["a"])), ["b"]);
            known = KnownDevices::parse(&known.render()).unwrap();
        }
        assert_eq!(lost(&mut known, &with_gpu(&["a", "b"])), [""; 0]);
        assert_eq!(lost(&mut known, &nics(&["a"])), ["b", "g"]);
        let missing = known.update(&nics(&["a"]));
        known.forget(&missing);
        assert_eq!(lost(&mut known, &nics(&["a"])), [""; 0]);
    }

    #[test]
    fn changed_rules_or_bus_numbers_are_not_a_loss() {
        let mut known = KnownDevices::default();
        for seen in [
            nics(&["a", "b"]),
            nics(&["c", "d"]),
            vec![device("c", "NIC", false), device("d", "NIC", true)],
            // No rule selected c.
            nics(&["d"]),
        ] {
            assert_eq!(lost(&mut known, &seen), [""; 0], "{seen:?}");
        }
        assert_eq!(KnownDevices::parse("{}"), None);
        let missing = blocker(&("0000:18:00.0".into(), "NIC 15b3:1021".into()));
        assert!(missing.fix.contains("--forget-missing"));
    }

    #[test]
    fn unselected_device_does_not_hide_a_lost_one() {
        let mut known = KnownDevices::default();
        let mut all = nics(&["0", "1", "2", "3", "4", "5", "6", "7"]);
        all.push(device("storage", "NIC", false));
        known.update(&all);
        all.remove(3);
        for _ in 0..2 {
            assert_eq!(lost(&mut known, &all), ["3"]);
            known = KnownDevices::parse(&known.render()).unwrap();
        }
        all.extend(nics(&["3"]));
        assert_eq!(lost(&mut known, &all), [""; 0]);
        all.retain(|device| device.address != "storage");
        assert_eq!(lost(&mut known, &all), [""; 0], "no rule is about it");
        all[0].selected = false;
        assert_eq!(lost(&mut known, &all), [""; 0]);
        let rules = "the rules were changed before it was lost";
        assert_eq!(lost(&mut known, &all[1..]), [""; 0], "{rules}");
    }

    #[test]
    fn lost_unselected_device_leaves_selected_ones() {
        let mut known = KnownDevices::default();
        known.update(&[device("a", "NIC", true), device("b", "NIC", false)]);
        assert_eq!(lost(&mut known, &nics(&["c"])), [""; 0], "a has moved to c");
        assert_eq!(lost(&mut known, &[]), ["c"]);
    }

    #[test]
    fn one_loss_with_renumbering_is_reported_once() {
        let mut known = KnownDevices::default();
        known.update(&nics(&["a", "b", "c", "d"]));
        for _ in 0..2 {
            assert_eq!(lost(&mut known, &nics(&["a", "b2", "c2"])).len(), 1);
        }
        assert_eq!(lost(&mut known, &nics(&["a", "b", "c", "d"])), [""; 0], "all are back");
        assert_eq!(lost(&mut known, &nics(&["a", "b", "c"])), ["d"]);
    }
}
