//! Runtime settings that bedplate changes, as data: an attribute of sysfs or sysctl, bits of a register, attributes of
//! a VF, the mode of an eswitch. `apply` writes them, the ledger stores their original values, and `revert` runs the
//! inverse action.

use std::fmt;

use serde::{Deserialize, Serialize};

use bedplate_base::ReadError;
use bedplate_base::value::vf::{EswitchMode, VfAttributes};
use bedplate_base::value::{PciAddress, RegisterBits};
use bedplate_facts::limits::{self, SHM};
use bedplate_host::Reader;

/// A value of a setting. It may be partial: some bits, some attributes.
pub trait SettingValue: Clone + PartialEq {
    /// Returns the parts that differ from `now`; `None` if none does.
    fn differing(&self, now: &Self) -> Option<Self>;

    /// Returns the parts that `other` also has.
    fn limited_to(&self, _other: &Self) -> Self {
        self.clone()
    }

    /// Returns these parts, and those of `earlier` that are missing here.
    fn or(&self, _earlier: &Self) -> Self {
        self.clone()
    }

    /// Formats the value for operators.
    fn format(&self) -> String;
}

/// A change of a setting: its identity, old value, and new value.
///
/// Stored in the ledger, whose parser does not reject unknown fields here: a new field requires a new ledger version.
pub trait SettingChange: Clone {
    /// Type of the value.
    type Value: SettingValue + Serialize + for<'de> Deserialize<'de>;

    /// Returns the setting's name in the ledger and in reports. A later change of the same setting has the same name.
    fn name(&self) -> String;

    /// Returns the value when the change was planned.
    fn before(&self) -> Self::Value;

    /// Returns the desired value.
    fn after(&self) -> Self::Value;

    /// Returns a change of the same setting between other values.
    fn with(&self, before: Self::Value, after: Self::Value) -> Self;

    /// Whether another change of this name is of the very same setting.
    fn is_same_setting(&self, _other: &Self) -> bool {
        true
    }

    /// Returns why the setting is not reverted: another tool has set it to `now`.
    fn changed_by_others(&self, now: &Self::Value) -> String {
        format!("set to {} by another tool since", now.format())
    }
}

/// Reads an attribute that [`WriteAttribute`] may name.
///
/// # Errors
/// The attribute cannot be read.
pub(crate) fn read_attribute(reader: &dyn Reader, path: &str) -> Result<String, ReadError> {
    match path {
        SHM => limits::shm_size(reader),
        _ => reader.attribute(path),
    }
}

/// Writes a sysfs attribute, and reads it back. /dev/shm stands for the size of the file system mounted there, in the form
/// of its mount option: `67108864k`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct WriteAttribute {
    /// Absolute path inside the host.
    pub path: String,
    /// Value when planned.
    pub before: String,
    /// Value to write.
    pub after: String,
    /// Time limit of the write in seconds (VF creation blocks in the driver; handbook §5.1).
    pub limit_s: u32,
}

/// Sets bits of a 16-bit register in PCI config space, and reads them back. Other bits keep their value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct SetConfigBits {
    /// Address of the function.
    pub address: PciAddress,
    /// Byte offset in config space.
    pub offset: u16,
    /// Affected bits, and their new value.
    #[serde(flatten)]
    pub bits: RegisterBits,
    /// Register value when planned.
    pub before: u16,
    /// Display name of the register (`ACS control`).
    pub register: String,
}

/// Sets attributes of one VF through its PF's network interface, and reads them back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct SetVf {
    /// Identity of the VF.
    #[serde(flatten)]
    pub key: VfKey,
    /// Those attributes when planned; empty for a VF that does not exist yet.
    pub before: VfAttributes,
    /// Desired attributes; all others stay unchanged.
    pub after: VfAttributes,
    /// Whether the VF's driver reads them at its start: it is unbound before, and the kernel binds it again afterwards.
    pub start: bool,
    /// Time limit of each step in seconds.
    pub limit_s: u32,
}

/// Changes the mode of a PF's eswitch through devlink, and reads it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct SetEswitch {
    /// Address of the PF.
    pub pf: PciAddress,
    /// Mode when planned.
    pub before: EswitchMode,
    /// Desired mode.
    pub after: EswitchMode,
    /// Time limit in seconds.
    pub limit_s: u32,
}

/// Identity of a VF.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct VfKey {
    /// Address of its PF.
    pub pf: PciAddress,
    /// Name of the PF's network interface.
    pub interface: String,
    /// Number, from 0.
    pub vf: u16,
}

impl VfKey {
    /// Returns its name in the ledger, independent of the interface's name: `VF 3 of 0000:08:00.0`.
    pub fn name(&self) -> String {
        Self::name_of(self.pf, self.vf)
    }

    /// Returns the name of a VF with this PF and number.
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
    /// Returns the PF if this attribute is its number of VFs.
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

    /// Returns `false` for the register of a replaced port, which has another offset.
    fn is_same_setting(&self, other: &Self) -> bool {
        self.offset == other.offset
    }

    fn changed_by_others(&self, now: &RegisterBits) -> String {
        format!("bits under {:#06x} changed to {:#06x} since", now.mask, now.value)
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

/// Returns the text to write so that an attribute reads `value`: the display of an empty value must not be written.
/// `driver_override` reads `(null)` if it is empty (drivers/pci/pci-sysfs.c, driver_override_show).
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
