//! GPUs and NICs of the host, which of them the profile is about, and whether those are still there. A device that is gone
//! differs from nothing: no rule selects it any more, and an observation of the host alone would find everything right. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::observation::{Device, Observation};
use bedplate_core::plan::{Blocker, KindId};

/// Where it is kept: across boots, since a device is lost at a boot more often than not.
pub(crate) const FILE: &str = bedplate_core::seal::DEVICES;
const VERSION: u32 = 1;

/// The GPUs and NICs of the host when it was last complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownDevices {
    version: u32,
    /// What the profile's rules select: address → what it is.
    devices: BTreeMap<String, String>,
    /// What they do not select. Without these a lost NIC would hide behind one of the same model that no rule is about.
    #[serde(default)]
    others: BTreeMap<String, String>,
}

impl Default for KnownDevices {
    fn default() -> Self {
        KnownDevices { version: VERSION, devices: BTreeMap::new(), others: BTreeMap::new() }
    }
}

impl KnownDevices {
    /// From its text form; `None`: it cannot be understood, and the next observation makes a new one.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().filter(|known: &KnownDevices| known.version == VERSION)
    }

    /// Its text form.
    pub fn render(&self) -> String {
        // Strings by strings have a JSON form.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Takes note of what is there, and returns what is gone (address, what it is). A device that is there and that no
    /// rule is about any more is no longer expected. A kind whose count is complete is taken as it is there now.
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

    /// As [`KnownDevices::update`]; what is gone is for people. Where the PCI devices cannot be read nothing is known.
    pub fn report_missing(&mut self, observation: &mut Observation) {
        let Some(seen) = &observation.devices else {
            if !self.devices.is_empty() {
                observation.unknowns.push(KindId::Host.unknown(
                    "PCI devices",
                    "bedplate cannot tell whether all GPUs and NICs of this host are present",
                ));
            }
            return;
        };
        observation.blockers.extend(self.update(seen).iter().map(blocker));
    }

    /// What is gone of one kind. Addresses change when a bridge gets another bus number, so that several may be new after
    /// one device was lost: never more are gone than the kind has fewer of. Which of them it was is not known then.
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
        // A selected one at a new address is a lost one that has moved; then it is an unselected one that is gone.
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

    /// Forgets what is gone.
    pub fn forget(&mut self, gone: &[(String, String)]) {
        self.devices.retain(|address, _| !gone.iter().any(|(other, _)| other == address));
    }
}

/// What people have to know of it.
pub(crate) fn blocker((address, what): &(String, String)) -> Blocker {
    KindId::Host.blocker(
        format!("{what} at {address}"),
        "it was present when this host was last complete, and is missing now",
        format!(
            "find out why (`dmesg | grep {address}`, the BMC's event log, cables and power); if it was taken out for \
             good: bedplate reconcile --forget-missing"
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
    fn what_was_there_is_missed_until_it_is_back_or_forgotten() {
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
    fn other_rules_and_other_bus_numbers_are_no_loss() {
        let mut known = KnownDevices::default();
        for seen in [
            nics(&["a", "b"]),
            nics(&["c", "d"]),
            vec![device("c", "NIC", false), device("d", "NIC", true)],
            // Nothing was about c.
            nics(&["d"]),
        ] {
            assert_eq!(lost(&mut known, &seen), [""; 0], "{seen:?}");
        }
        assert_eq!(KnownDevices::parse("{}"), None);
        let missing = blocker(&("0000:18:00.0".into(), "NIC 15b3:1021".into()));
        assert!(missing.remedy.contains("--forget-missing"));
    }

    #[test]
    fn a_lost_device_does_not_hide_behind_one_that_no_rule_is_about() {
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
    fn an_unselected_device_that_is_lost_takes_no_selected_one_with_it() {
        let mut known = KnownDevices::default();
        known.update(&[device("a", "NIC", true), device("b", "NIC", false)]);
        assert_eq!(lost(&mut known, &nics(&["c"])), [""; 0], "a has moved to c");
        assert_eq!(lost(&mut known, &[]), ["c"]);
    }

    #[test]
    fn one_lost_and_the_rest_renumbered_is_one_lost_until_all_are_back() {
        let mut known = KnownDevices::default();
        known.update(&nics(&["a", "b", "c", "d"]));
        for _ in 0..2 {
            assert_eq!(lost(&mut known, &nics(&["a", "b2", "c2"])).len(), 1);
        }
        assert_eq!(lost(&mut known, &nics(&["a", "b", "c", "d"])), [""; 0], "all are back");
        assert_eq!(lost(&mut known, &nics(&["a", "b", "c"])), ["d"]);
    }
}
