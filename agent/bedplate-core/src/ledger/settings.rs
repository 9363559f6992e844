//! Records of runtime settings. They can be reverted only within the boot in which they were made.

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
    /// Resource type of the first change.
    pub kind: KindId,
    /// `/proc/sys/kernel/random/boot_id` at the time.
    pub boot: String,
    /// Net change by bedplate: from the original value to the last one that it set.
    pub action: C,
    /// Values that bedplate set.
    pub ours: Vec<C::Value>,
}

impl<C: SettingChange> SettingRecord<C> {
    /// Returns the action that restores the original value where the setting is `now`; `None` if it has that value.
    pub fn reversed(&self, now: &C::Value) -> Option<C> {
        let found = self.action.before().differing(now)?;
        Some(self.action.with(now.limited_to(&found), found))
    }

    /// Whether bedplate set all parts of a value.
    pub fn is_ours(&self, value: &C::Value) -> bool {
        let others = |left: C::Value, ours: &C::Value| left.differing(ours);
        self.ours.iter().try_fold(value.clone(), others).is_none()
    }
}

/// A setting with records in the ledger.
pub trait Recorded: SettingChange {
    /// Returns the ledger's records of this setting type, by name.
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

/// A VF without a driver because of bedplate: it was unbound, or created without one, until its attributes are set. If
/// the run ends before the driver starts, the next run starts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartRecord {
    /// `/proc/sys/kernel/random/boot_id` at the time.
    pub boot: String,
    /// Identity of the VF.
    pub key: VfKey,
    /// Time limit of the start in seconds.
    pub limit_s: u32,
}

impl Ledger {
    /// Records that a setting is about to be changed; `now` is its value.
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
            // Parts that are new here keep their original value until they are written.
            ours = earlier.ours.iter().map(|ours| ours.or(&found)).collect();
            // The first recorded value of each part is the original one.
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

    /// Records that the change of a setting is finished; `now` is its value.
    pub fn settle_setting<C: Recorded>(&mut self, action: &C, now: &C::Value) {
        let records = C::records(self);
        let name = action.name();
        let Some(record) = records.get_mut(&name) else { return };
        // Parts with their original value are no longer bedplate's.
        let Some(found) = record.action.before().differing(now) else {
            records.remove(&name);
            return;
        };
        let after = now.limited_to(&found);
        record.ours = vec![after.clone()];
        record.action = record.action.with(found, after);
    }

    /// Records that a VF is about to be without a driver, which must start afterwards.
    pub fn owe_start(&mut self, key: &VfKey, boot: &str, limit_s: u32) {
        let record = StartRecord { boot: boot.to_owned(), key: key.clone(), limit_s };
        self.starts.insert(key.name(), record);
    }

    /// Whether the driver of the VF called `name` still has to start.
    pub fn owes_start(&self, name: &str, boot: &str) -> bool {
        self.starts.get(name).is_some_and(|record| record.boot == boot)
    }

    /// Records that the kernel has looked for the VF's driver.
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
    fn original_value_is_restored() {
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
        // Two other programs have each set a bit.
        assert!(!kept.is_ours(&kept.reversed(&now(0x04)).unwrap().before()));
        assert_eq!(kept.reversed(&now(0x1d)), None);
        ledger.settle_setting(&second, &now(0x1d));
        assert_eq!(record::<SetConfigBits>(&mut ledger), None);
    }

    /// A run that was interrupted before it wrote further bits has left the bits of the previous run.
    #[test]
    fn earlier_bits_stay_ours_when_bits_are_added() {
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

    /// Values set by other tools in between are not attributed to bedplate.
    #[test]
    fn external_vf_attribute_is_not_ours() {
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
        // An operator resets trust, and the next change, of the VLAN, is interrupted.
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
    fn register_of_replaced_port_gets_new_record() {
        let mut ledger = Ledger::default();
        ledger.begin_setting(&bits(0x0c, 0), KindId::Acs, BOOT, &RegisterBits::whole(0x1d));
        let other = SetConfigBits { offset: 0x20a, ..bits(0x0c, 0) };
        ledger.begin_setting(&other, KindId::Acs, BOOT, &RegisterBits::whole(0x04));
        let kept = record::<SetConfigBits>(&mut ledger).unwrap();
        assert_eq!((kept.action.offset, kept.action.before, kept.ours.len()), (0x20a, 0x04, 1));
    }

    #[test]
    fn every_value_of_an_interrupted_change_is_ours() {
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
        // Records of an earlier boot are dropped.
        ledger.begin_setting(&count("0", "2"), KindId::Sriov, "next boot", &"0".to_owned());
        let kept = record::<WriteAttribute>(&mut ledger).unwrap();
        assert_eq!((kept.action.before.as_str(), kept.ours.len()), ("0", 1));
    }
}
