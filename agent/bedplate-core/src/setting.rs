//! Settings of a running machine that bedplate changes, as data: an attribute of sysfs or sysctl, bits of a register, attributes
//! of a VF, the mode of an eswitch. What writes them is in `apply`, what was found before is in the ledger, and `revert` runs the
//! reversed action.

use std::fmt;

use serde::{Deserialize, Serialize};

use bedplate_base::value::vf::{EswitchMode, VfAttributes};
use bedplate_base::value::{PciAddress, RegisterBits};

/// A value of a setting. It may say only a part of what the setting holds: some bits, some attributes.
pub trait SettingValue: Clone + PartialEq {
    /// The parts that `now` has otherwise; `None`: there are none.
    fn differing(&self, now: &Self) -> Option<Self>;

    /// The parts that `other` names, too.
    fn limited_to(&self, _other: &Self) -> Self {
        self.clone()
    }

    /// These parts, and those of `earlier` that are not among them.
    fn or(&self, _earlier: &Self) -> Self {
        self.clone()
    }

    /// For people.
    fn format(&self) -> String;
}

/// A change of a setting: which one, from what to what.
///
/// The ledger keeps it, and does not refuse fields that it does not know: with a new field its format gets a new version.
pub trait SettingChange: Clone {
    /// What the setting holds.
    type Value: SettingValue + Serialize + for<'de> Deserialize<'de>;

    /// The setting's name in the ledger and in reports. A later change of the same setting has the same name.
    fn name(&self) -> String;

    /// Its value when the change was planned.
    fn before(&self) -> Self::Value;

    /// Its value to be.
    fn after(&self) -> Self::Value;

    /// A change of the same setting between other values.
    fn with(&self, before: Self::Value, after: Self::Value) -> Self;

    /// Whether another change of this name is of the very same setting.
    fn is_same_setting(&self, _other: &Self) -> bool {
        true
    }

    /// Why the setting is not put back: others have set it to `now`.
    fn changed_by_others(&self, now: &Self::Value) -> String {
        format!("it was set to {} since, not by bedplate", now.format())
    }
}

/// Write a sysfs attribute, and read it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct WriteAttribute {
    /// Absolute path inside the host.
    pub path: String,
    /// Value when planned.
    pub before: String,
    /// Value to write.
    pub after: String,
    /// Seconds the write may take (VF creation blocks in the driver; handbook §5.1).
    pub limit_s: u32,
}

/// Set bits of a 16-bit register in PCI config space, and read them back. Other bits keep their present value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct SetConfigBits {
    /// The function.
    pub address: PciAddress,
    /// Byte offset in config space.
    pub offset: u16,
    /// Which bits, and their new value.
    #[serde(flatten)]
    pub bits: RegisterBits,
    /// Register value when planned.
    pub before: u16,
    /// What the register is, for people (`ACS control`).
    pub register: String,
}

/// Set attributes of one VF through its PF's network interface, and read them back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct SetVf {
    /// The VF.
    #[serde(flatten)]
    pub key: VfKey,
    /// Those attributes when planned; none of a VF that is to come.
    pub before: VfAttributes,
    /// What they are to be; no others are touched.
    pub after: VfAttributes,
    /// The VF's driver reads them when it starts: take it from the VF before, and let the kernel find it again.
    pub start: bool,
    /// Seconds each step may take.
    pub limit_s: u32,
}

/// Change the mode of a PF's eswitch by devlink, and read it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct SetEswitch {
    /// The PF.
    pub pf: PciAddress,
    /// Mode when planned.
    pub before: EswitchMode,
    /// Mode to be.
    pub after: EswitchMode,
    /// Seconds it may take.
    pub limit_s: u32,
}

/// Which VF.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
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

impl WriteAttribute {
    /// The PF whose number of VFs this is.
    pub fn counts_vfs_of(&self) -> Option<PciAddress> {
        self.path.strip_prefix("/sys/bus/pci/devices/")?.strip_suffix("/sriov_numvfs")?.parse().ok()
    }
}

impl SettingChange for WriteAttribute {
    type Value = String;

    fn name(&self) -> String {
        self.path.clone()
    }

    fn before(&self) -> String {
        self.before.clone()
    }

    fn after(&self) -> String {
        self.after.clone()
    }

    fn with(&self, before: String, after: String) -> Self {
        WriteAttribute { before, after, ..self.clone() }
    }
}

impl SettingChange for SetConfigBits {
    type Value = RegisterBits;

    fn name(&self) -> String {
        format!("{} of {}", self.register, self.address)
    }

    fn before(&self) -> RegisterBits {
        RegisterBits::of(self.before, self.bits.mask)
    }

    fn after(&self) -> RegisterBits {
        self.bits
    }

    fn with(&self, before: RegisterBits, after: RegisterBits) -> Self {
        SetConfigBits { bits: after, before: before.value, ..self.clone() }
    }

    /// A port that was put in the place of another has the register elsewhere.
    fn is_same_setting(&self, other: &Self) -> bool {
        self.offset == other.offset
    }

    fn changed_by_others(&self, now: &RegisterBits) -> String {
        format!("its bits under {:#06x} have changed to {:#06x} since", now.mask, now.value)
    }
}

impl SettingChange for SetVf {
    type Value = VfAttributes;

    fn name(&self) -> String {
        self.key.name()
    }

    fn before(&self) -> VfAttributes {
        self.before
    }

    fn after(&self) -> VfAttributes {
        self.after
    }

    fn with(&self, before: VfAttributes, after: VfAttributes) -> Self {
        SetVf { before, after, ..self.clone() }
    }
}

impl SettingChange for SetEswitch {
    type Value = EswitchMode;

    fn name(&self) -> String {
        format!("eswitch of {}", self.pf)
    }

    fn before(&self) -> EswitchMode {
        self.before
    }

    fn after(&self) -> EswitchMode {
        self.after
    }

    fn with(&self, before: EswitchMode, after: EswitchMode) -> Self {
        SetEswitch { before, after, ..self.clone() }
    }
}

/// What to write for an attribute to read `value` again: what shows emptiness is not written as such. `driver_override` reads
/// `(null)` when it is empty (drivers/pci/pci-sysfs.c, driver_override_show).
pub(crate) fn to_write(value: &str) -> &str {
    if value.trim() == "(null)" { "" } else { value }
}

impl SettingValue for String {
    fn differing(&self, now: &Self) -> Option<Self> {
        (to_write(self).trim() != to_write(now).trim()).then(|| self.clone())
    }

    fn format(&self) -> String {
        format!("{self:?}")
    }
}

impl SettingValue for EswitchMode {
    fn differing(&self, now: &Self) -> Option<Self> {
        (self != now).then_some(*self)
    }

    fn format(&self) -> String {
        self.to_string()
    }
}

/// Bits of one register are set together.
impl SettingValue for RegisterBits {
    fn differing(&self, now: &Self) -> Option<Self> {
        let is_known = self.mask & !now.mask == 0;
        (!is_known || !self.are_in(now.value)).then_some(*self)
    }

    fn limited_to(&self, other: &Self) -> Self {
        RegisterBits::limited_to(*self, other.mask)
    }

    fn or(&self, earlier: &Self) -> Self {
        RegisterBits::or(*self, *earlier)
    }

    fn format(&self) -> String {
        format!("{:#06x}", self.value)
    }
}

impl SettingValue for VfAttributes {
    fn differing(&self, now: &Self) -> Option<Self> {
        Some(self.without(now)).filter(|left| !left.is_empty())
    }

    fn limited_to(&self, other: &Self) -> Self {
        self.intersect(other)
    }

    fn or(&self, earlier: &Self) -> Self {
        VfAttributes::or(self, earlier)
    }

    fn format(&self) -> String {
        self.to_string()
    }
}
