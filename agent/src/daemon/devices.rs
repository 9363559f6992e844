//! GPUs and NICs that the profile is about, and whether they are still there. A device that is gone differs from nothing:
//! no rule selects it any more, and a look at the host alone would find everything right. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::round::{Device, Obstacle};

/// Where it is kept: across boots, since a device is lost at a boot more often than not.
pub const FILE: &str = "/var/lib/bedplate/devices.json";
const VERSION: u32 = 1;

/// What the profile's rules selected when all of it was there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    version: u32,
    /// Address → what it is.
    devices: BTreeMap<String, String>,
}

impl Default for Known {
    fn default() -> Self {
        Known { version: VERSION, devices: BTreeMap::new() }
    }
}

impl Known {
    /// From its text form; `None`: it cannot be understood, and the next look makes a new one.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().filter(|known: &Known| known.version == VERSION)
    }

    /// Its text form.
    pub fn render(&self) -> String {
        // Strings by strings have a JSON form.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Takes note of what is there, and returns what is gone (address, what it is). A device that is there and that no
    /// rule is about any more is forgotten. Addresses change when a bridge gets another bus number: as long as there are
    /// as many devices of a kind as before, none of them is gone.
    pub fn update(&mut self, seen: &[Device]) -> Vec<(String, String)> {
        let mut there: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for device in seen {
            there.entry(&device.what).or_default().insert(&device.address);
        }
        let of_kind = |what: &str| there.get(what).map_or(0, BTreeSet::len);
        let mut known: BTreeMap<&str, usize> = BTreeMap::new();
        self.devices.values().for_each(|what| *known.entry(what).or_default() += 1);
        let short = |what: &str| of_kind(what) < known.get(what).copied().unwrap_or(0);
        let is_there = |address: &str, what: &str| there.get(what).is_some_and(|all| all.contains(address));
        let gone: BTreeMap<String, String> = self
            .devices
            .iter()
            .filter(|(address, what)| short(what) && !is_there(address, what))
            .map(|(address, what)| (address.clone(), what.clone()))
            .collect();
        let selected = seen.iter().filter(|device| device.selected);
        let now = selected.map(|device| (device.address.clone(), device.what.clone()));
        self.devices = now.chain(gone.clone()).collect();
        gone.into_iter().collect()
    }

    /// Forgets what is gone.
    pub fn forget(&mut self, gone: &[(String, String)]) {
        self.devices.retain(|address, _| !gone.iter().any(|(other, _)| other == address));
    }
}

/// What people have to know of it.
pub fn obstacle((address, what): &(String, String)) -> Obstacle {
    Obstacle {
        kind: "host".into(),
        subject: format!("{what} at {address}"),
        reason: "it was here when this host was last complete, and it is gone".into(),
        remedy: format!(
            "find out why (`dmesg | grep {address}`, the BMC's event log, cables and power); if it was taken out for \
             good: bedplate reconcile --forget-missing"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(address: &str, what: &str, selected: bool) -> Device {
        Device { address: address.into(), what: what.into(), selected }
    }

    fn gone(known: &mut Known, seen: &[Device]) -> Vec<String> {
        known.update(seen).into_iter().map(|(address, _)| address).collect()
    }

    #[test]
    fn what_was_there_is_missed_until_it_is_back_or_forgotten() {
        let (a, b, gpu) = (device("a", "NIC", true), device("b", "NIC", true), device("g", "GPU", true));
        let mut known = Known::default();
        assert_eq!(gone(&mut known, &[a.clone(), b.clone(), gpu.clone()]), [""; 0]);
        for _ in 0..2 {
            assert_eq!(gone(&mut known, &[a.clone(), gpu.clone()]), ["b"]);
            known = Known::parse(&known.render()).unwrap();
        }
        assert_eq!(gone(&mut known, &[a.clone(), b, gpu.clone()]), [""; 0]);
        assert_eq!(gone(&mut known, std::slice::from_ref(&a)), ["b", "g"]);
        let missing = known.update(std::slice::from_ref(&a));
        known.forget(&missing);
        assert_eq!(gone(&mut known, &[a]), [""; 0]);
    }

    #[test]
    fn other_rules_and_other_bus_numbers_are_no_loss() {
        let mut known = Known::default();
        known.update(&[device("a", "NIC", true), device("b", "NIC", true)]);
        assert_eq!(gone(&mut known, &[device("c", "NIC", true), device("d", "NIC", true)]), [""; 0]);
        assert_eq!(gone(&mut known, &[device("c", "NIC", false), device("d", "NIC", true)]), [""; 0]);
        assert_eq!(gone(&mut known, &[device("d", "NIC", true)]), [""; 0], "nothing was about c");
        assert_eq!(Known::parse("{}"), None);
        assert!(
            obstacle(&("0000:18:00.0".into(), "NIC 15b3:1021".into())).remedy.contains("--forget-missing")
        );
    }
}
