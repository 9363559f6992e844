//! Records of what was set on NICs by netlink: attributes of VFs, modes of eswitches. Only the boot that saw them can give
//! them back.

use crate::kind_id::KindId;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::Ledger;
use bedplate_base::value::PciAddress;
use bedplate_base::value::vf::{EswitchMode, VfAttributes};

/// Attributes of a VF that bedplate has set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VfRecord {
    /// The kind whose change set them first.
    pub kind: KindId,
    /// `/proc/sys/kernel/random/boot_id` at the time.
    pub boot: String,
    /// The VF.
    pub key: VfKey,
    /// Values found.
    pub original: VfAttributes,
    /// Values that are bedplate's work.
    pub ours: VfAttributes,
    /// Whether the VF's driver reads one of them when it starts.
    #[serde(default)]
    pub start: bool,
    /// Seconds each step may take.
    pub limit_s: u32,
}

/// Which VF.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct VfKey {
    /// Its PF.
    pub pf: PciAddress,
    /// The PF's network interface.
    pub interface: String,
    /// Number, from 0.
    pub vf: u16,
}

impl VfKey {
    /// Its name in the ledger, which a new name of the interface leaves alone: `VF 3 of 0000:08:00.0`.
    pub fn name(&self) -> String {
        Self::name_of(self.pf, self.vf)
    }

    /// The same of a VF that is known by PF and number.
    pub fn name_of(pf: PciAddress, vf: u16) -> String {
        format!("VF {vf} of {pf}")
    }
}

impl fmt::Display for VfKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.interface)
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

/// The mode of an eswitch that bedplate has set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EswitchRecord {
    /// The kind whose change set it first.
    pub kind: KindId,
    /// `/proc/sys/kernel/random/boot_id` at the time.
    pub boot: String,
    /// Mode found.
    pub original: EswitchMode,
    /// The mode that is bedplate's work.
    pub ours: EswitchMode,
    /// Seconds a change may take.
    pub limit_s: u32,
}

impl Ledger {
    /// Attributes of a VF are about to become `to`; `now` is all it has.
    pub fn begin_vf(
        &mut self,
        key: &VfKey,
        kind: KindId,
        boot: &str,
        (now, to): (&VfAttributes, &VfAttributes),
        (start, limit_s): (bool, u32),
    ) {
        let name = key.name();
        if self.vfs.get(&name).is_some_and(|record| record.boot != boot) {
            self.vfs.remove(&name);
        }
        let record = self.vfs.entry(name).or_insert_with(|| VfRecord {
            kind,
            boot: boot.to_owned(),
            key: key.clone(),
            original: VfAttributes::default(),
            ours: VfAttributes::default(),
            start: false,
            limit_s,
        });
        record.key = key.clone();
        // What was found first counts, attribute by attribute.
        record.original = record.original.or(&now.intersect(to));
        record.ours = to.or(&record.ours);
        record.start |= start;
    }

    /// The change of a VF's attributes is over; `now` is all it has.
    pub fn settle_vf(&mut self, key: &VfKey, now: &VfAttributes) {
        let name = key.name();
        let Some(record) = self.vfs.get_mut(&name) else { return };
        // Back at what was found: nothing of that is bedplate's any more.
        record.original = record.original.without(now);
        record.ours = now.intersect(&record.original);
        if record.original.is_empty() {
            self.vfs.remove(&name);
        }
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

    /// The mode of an eswitch is about to become `to`; `now` is what it is.
    pub fn begin_eswitch(
        &mut self,
        pf: PciAddress,
        kind: KindId,
        boot: &str,
        (now, to): (EswitchMode, EswitchMode),
        limit_s: u32,
    ) {
        let name = pf.to_string();
        if self.eswitches.get(&name).is_some_and(|record| record.boot != boot) {
            self.eswitches.remove(&name);
        }
        let record = self.eswitches.entry(name).or_insert_with(|| EswitchRecord {
            kind,
            boot: boot.to_owned(),
            original: now,
            ours: to,
            limit_s,
        });
        record.ours = to;
    }

    /// The change of an eswitch is over; `now` is its mode.
    pub fn settle_eswitch(&mut self, pf: PciAddress, now: EswitchMode) {
        let name = pf.to_string();
        let back = self.eswitches.get(&name).is_some_and(|record| record.original == now);
        if back {
            self.eswitches.remove(&name);
        }
    }
}
