//! Records of settings of the running machine. Only the boot that saw them can give them back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Ledger;
use crate::kind_id::KindId;
use crate::setting::{
    SetConfigBits, SetEswitch, SetVf, SettingChange, SettingValue, VfKey, WriteAttribute,
};

/// A setting that bedplate has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[serde(bound(
    serialize = "C: Serialize, C::Value: Serialize",
    deserialize = "C: Deserialize<'de>, C::Value: Deserialize<'de>"
))]
pub struct SettingRecord<C: SettingChange> {
    /// The kind whose change was the first.
    pub kind: KindId,
    /// `/proc/sys/kernel/random/boot_id` at the time.
    pub boot: String,
    /// What bedplate did, all in all: from the value found to the one that it set last.
    pub action: C,
    /// Values that are bedplate's work.
    pub ours: Vec<C::Value>,
}

impl<C: SettingChange> SettingRecord<C> {
    /// The action that puts back what was found, where the setting is `now`; `None`: it is as it was found.
    pub fn reversed(&self, now: &C::Value) -> Option<C> {
        let found = self.action.before().differing(now)?;
        Some(self.action.with(now.limited_to(&found), found))
    }

    /// Whether a value of the setting is bedplate's work in all its parts.
    pub fn is_ours(&self, value: &C::Value) -> bool {
        let others = |left: C::Value, ours: &C::Value| left.differing(ours);
        self.ours.iter().try_fold(value.clone(), others).is_none()
    }
}

/// A setting of which the ledger keeps records.
pub trait Recorded: SettingChange {
    /// The records of such settings, by their names.
    fn records(ledger: &mut Ledger) -> &mut BTreeMap<String, SettingRecord<Self>>;
}

impl Recorded for WriteAttribute {
    fn records(ledger: &mut Ledger) -> &mut BTreeMap<String, SettingRecord<Self>> {
        &mut ledger.attributes
    }
}

impl Recorded for SetConfigBits {
    fn records(ledger: &mut Ledger) -> &mut BTreeMap<String, SettingRecord<Self>> {
        &mut ledger.registers
    }
}

impl Recorded for SetVf {
    fn records(ledger: &mut Ledger) -> &mut BTreeMap<String, SettingRecord<Self>> {
        &mut ledger.vfs
    }
}

impl Recorded for SetEswitch {
    fn records(ledger: &mut Ledger) -> &mut BTreeMap<String, SettingRecord<Self>> {
        &mut ledger.eswitches
    }
}

/// A VF that has no driver because of bedplate: it was taken away, or the VF was made without one, until its attributes are
/// set. If the run ends before the driver starts, the next one starts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartRecord {
    /// `/proc/sys/kernel/random/boot_id` at the time.
    pub boot: String,
    /// The VF.
    pub key: VfKey,
    /// Seconds the start may take.
    pub limit_s: u32,
}

impl Ledger {
    /// A setting is about to be changed; `now` is its value.
    pub fn begin_setting<C: Recorded>(
        &mut self,
        action: &C,
        kind: KindId,
        boot: &str,
        now: &C::Value,
    ) {
        let records = C::records(self);
        let name = action.name();
        let (mut found, mut after) = (now.limited_to(&action.after()), action.after());
        let (mut kind, mut ours) = (kind, Vec::new());
        let is_same = |earlier: &SettingRecord<C>| {
            earlier.boot == boot && earlier.action.is_same_setting(action)
        };
        if let Some(earlier) = records.remove(&name).filter(is_same) {
            // Parts that are new here are as they were found until they are written.
            ours = earlier.ours.iter().map(|ours| ours.or(&found)).collect();
            // What was found first counts, part by part.
            found = earlier.action.before().or(&found);
            after = after.or(&earlier.action.after());
            kind = earlier.kind;
        }
        if !ours.contains(&after) {
            ours.push(after.clone());
        }
        let action = action.with(found, after);
        records.insert(name, SettingRecord { kind, boot: boot.to_owned(), action, ours });
    }

    /// The change of a setting is over; `now` is its value.
    pub fn settle_setting<C: Recorded>(&mut self, action: &C, now: &C::Value) {
        let records = C::records(self);
        let name = action.name();
        let Some(record) = records.get_mut(&name) else { return };
        // Parts that are as they were found are nobody's work any more.
        let Some(found) = record.action.before().differing(now) else {
            records.remove(&name);
            return;
        };
        let after = now.limited_to(&found);
        record.ours = vec![after.clone()];
        record.action = record.action.with(found, after);
    }

    /// A VF is about to be without a driver: it has to start afterwards, come what may.
    pub fn owe_start(&mut self, key: &VfKey, boot: &str, limit_s: u32) {
        let record = StartRecord { boot: boot.to_owned(), key: key.clone(), limit_s };
        self.starts.insert(key.name(), record);
    }

    /// Whether the driver of the VF called `name` has still to start.
    pub fn owes_start(&self, name: &str, boot: &str) -> bool {
        self.starts.get(name).is_some_and(|record| record.boot == boot)
    }

    /// The kernel has looked for the VF's driver.
    pub fn started(&mut self, key: &VfKey) {
        self.starts.remove(&key.name());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedplate_base::value::RegisterBits;
    use bedplate_base::value::vf::{VfAttributes, Vlan};

    const BOOT: &str = "this boot";

    fn bits(mask: u16, value: u16) -> SetConfigBits {
        SetConfigBits {
            address: "0000:15:01.0".parse().unwrap(),
            offset: 0x14e,
            bits: RegisterBits { mask, value },
            before: 0x1d,
            register: "ACS control".into(),
        }
    }

    fn count(before: &str, after: &str) -> WriteAttribute {
        let (before, after) = (before.to_owned(), after.to_owned());
        let path = "/sys/bus/pci/devices/0000:18:00.0/sriov_numvfs".to_owned();
        WriteAttribute { path, before, after, limit_s: 60 }
    }

    fn record<C: Recorded>(ledger: &mut Ledger) -> Option<SettingRecord<C>> {
        C::records(ledger).values().next().cloned()
    }

    #[test]
    fn value_found_first_comes_back() {
        let mut ledger = Ledger::default();
        let now = RegisterBits::whole;
        let first = bits(0x0c, 0);
        ledger.begin_setting(&first, KindId::Acs, BOOT, &now(0x1d));
        ledger.settle_setting(&first, &now(0x11));
        let second = bits(0x11, 0x40);
        ledger.begin_setting(&second, KindId::Acs, BOOT, &now(0x11));
        ledger.settle_setting(&second, &now(0x00));
        let kept = record::<SetConfigBits>(&mut ledger).unwrap();
        let back = kept.reversed(&now(0x00)).unwrap();
        assert_eq!((back.before, back.bits), (0, RegisterBits { mask: 0x1d, value: 0x1d }));
        assert!(kept.is_ours(&back.before()));
        // Another program has set one of the bits, and another its own.
        assert!(!kept.is_ours(&kept.reversed(&now(0x04)).unwrap().before()));
        assert_eq!(kept.reversed(&now(0x1d)), None);
        ledger.settle_setting(&second, &now(0x1d));
        assert_eq!(record::<SetConfigBits>(&mut ledger), None);
    }

    /// A run that was cut short before it wrote further bits has left those of the run before.
    #[test]
    fn bits_are_ours_before_others_are_added_to_them() {
        let mut ledger = Ledger::default();
        let now = RegisterBits::whole;
        let first = bits(0x0c, 0);
        ledger.begin_setting(&first, KindId::Acs, BOOT, &now(0x1d));
        ledger.settle_setting(&first, &now(0x11));
        ledger.begin_setting(&bits(0x40, 0x40), KindId::Acs, BOOT, &now(0x11));
        let kept = record::<SetConfigBits>(&mut ledger).unwrap();
        for (now, is_ours) in [(0x11, true), (0x51, true), (0x55, false)] {
            let back = kept.reversed(&RegisterBits::whole(now)).unwrap();
            assert_eq!(kept.is_ours(&back.before()), is_ours, "{now:#x}");
        }
    }

    /// What others set in the meantime is not counted as bedplate's.
    #[test]
    fn other_attribute_of_a_vf_stays_with_who_set_it() {
        let trust = |on: bool| VfAttributes { trust: Some(on), ..VfAttributes::default() };
        let vlan = |id: u16| VfAttributes {
            vlan: Some(Vlan { id, ..Vlan::default() }),
            ..VfAttributes::default()
        };
        let set = |before: VfAttributes, after: VfAttributes| {
            let pf = "0000:18:00.0".parse().unwrap();
            let key = VfKey { pf, interface: "ens1f0".into(), vf: 1 };
            SetVf { key, before, after, start: false, limit_s: 60 }
        };
        let mut ledger = Ledger::default();
        let first = set(trust(false), trust(true));
        ledger.begin_setting(&first, KindId::Sriov, BOOT, &trust(false).or(&vlan(0)));
        ledger.settle_setting(&first, &trust(true).or(&vlan(0)));
        // An operator takes the trust away, and the next change, of the VLAN, is cut short.
        let now = trust(false).or(&vlan(0));
        ledger.begin_setting(&set(vlan(0), vlan(7)), KindId::Sriov, BOOT, &now);
        let kept = record::<SetVf>(&mut ledger).unwrap();
        assert_eq!(kept.reversed(&now), None, "both are as they were found");
        let rate = VfAttributes { max_tx_rate: Some(5), ..VfAttributes::default() };
        let mut ledger = Ledger::default();
        let first = set(rate, VfAttributes { max_tx_rate: Some(10), ..rate });
        ledger.begin_setting(&first, KindId::Sriov, BOOT, &rate.or(&vlan(0)));
        let theirs = VfAttributes { max_tx_rate: Some(99), ..rate }.or(&vlan(0));
        ledger.begin_setting(&set(vlan(0), vlan(7)), KindId::Sriov, BOOT, &theirs);
        let kept = record::<SetVf>(&mut ledger).unwrap();
        assert!(!kept.is_ours(&kept.reversed(&theirs).unwrap().before()));
    }

    #[test]
    fn register_of_a_port_that_took_the_place_of_another_begins_anew() {
        let mut ledger = Ledger::default();
        ledger.begin_setting(&bits(0x0c, 0), KindId::Acs, BOOT, &RegisterBits::whole(0x1d));
        let other = SetConfigBits { offset: 0x20a, ..bits(0x0c, 0) };
        ledger.begin_setting(&other, KindId::Acs, BOOT, &RegisterBits::whole(0x04));
        let kept = record::<SetConfigBits>(&mut ledger).unwrap();
        assert_eq!((kept.action.offset, kept.action.before, kept.ours.len()), (0x20a, 0x04, 1));
    }

    #[test]
    fn every_value_of_a_change_that_was_cut_short_is_ours() {
        let mut ledger = Ledger::default();
        for (before, after) in [("4", "0"), ("0", "8")] {
            ledger.begin_setting(&count(before, after), KindId::Sriov, BOOT, &"4".to_owned());
        }
        let kept = record::<WriteAttribute>(&mut ledger).unwrap();
        let ours = ["0", "8", "4", "7"].map(|now| {
            let back = kept.reversed(&now.to_owned());
            back.is_none_or(|action| kept.is_ours(&action.before()))
        });
        assert_eq!(ours, [true, true, true, false]);
        // What an earlier boot had is gone.
        ledger.begin_setting(&count("0", "2"), KindId::Sriov, "next boot", &"0".to_owned());
        let kept = record::<WriteAttribute>(&mut ledger).unwrap();
        assert_eq!((kept.action.before.as_str(), kept.ours.len()), ("0", 1));
    }
}
