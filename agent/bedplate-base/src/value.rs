//! Newtypes that cannot hold invalid values. No I/O, no knowledge of profiles or hosts.

pub mod flow_control;
mod kernel_version;
mod register;
pub mod vf;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use kernel_version::KernelVersion;
pub use register::RegisterBits;
use vf::{Guid, Mac};

/// Error for a text that is not a value of the required type. `Display` is a sentence fit for a profile error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {expected}")]
pub struct NotAValue {
    /// The offending text.
    pub text: String,
    /// Description of valid text, with an example.
    pub expected: &'static str,
}

/// Address of a PCI function: `domain:bus:device.function` (a "BDF").
///
/// Domains may be wider than 16 bits: Intel VMD makes `10000:e1:00.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// PCI domain (segment), up to 32 bits on Linux.
    pub domain: u32,
    /// Bus number.
    pub bus: u8,
    /// Device number, 0..=31.
    pub device: u8,
    /// Function number, 0..=7.
    pub function: u8,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

impl FromStr for PciAddress {
    type Err = NotAValue;

    /// Accepts `dddd:bb:dd.f`, and `bb:dd.f` for domain 0.
    fn from_str(text: &str) -> Result<Self, NotAValue> {
        let parse = || {
            let (rest, function) = text.rsplit_once('.')?;
            let (rest, device) = rest.rsplit_once(':')?;
            let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0000", rest));
            let hex = |part: &str, longest: usize| {
                let plain = !part.is_empty()
                    && part.len() <= longest
                    && part.bytes().all(|b| b.is_ascii_hexdigit());
                plain.then(|| u32::from_str_radix(part, 16).ok()).flatten()
            };
            let address = PciAddress {
                domain: hex(domain, 8)?,
                bus: u8::try_from(hex(bus, 2)?).ok()?,
                device: u8::try_from(hex(device, 2)?).ok()?,
                function: u8::try_from(hex(function, 1)?).ok()?,
            };
            (address.device < 32 && address.function < 8).then_some(address)
        };
        parse().ok_or_else(|| NotAValue {
            text: text.to_owned(),
            expected: "a PCI address such as 0000:17:00.0",
        })
    }
}

/// A kernel module's name, normalized: `-` is replaced by `_`, as `/sys/module` and `/proc/modules` spell it (handbook
/// §9).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleName(String);

impl ModuleName {
    /// Returns the normalized name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ModuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ModuleName {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        let good = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        // 56 = MODULE_NAME_LEN on 64-bit kernels (include/linux/moduleparam.h, 64 - sizeof(unsigned long)).
        if text.is_empty() || text.len() >= 56 || text.starts_with('-') || !text.bytes().all(good) {
            return Err(NotAValue {
                text: text.to_owned(),
                expected: "a kernel module name such as nvidia_peermem",
            });
        }
        Ok(ModuleName(text.replace('-', "_")))
    }
}

/// A 16-bit PCI vendor or device id, shown as four hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciId(pub u16);

impl fmt::Display for PciId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}", self.0)
    }
}

impl FromStr for PciId {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let good = !digits.is_empty()
            && digits.len() <= 4
            && digits.bytes().all(|b| b.is_ascii_hexdigit());
        good.then(|| u16::from_str_radix(digits, 16).ok()).flatten().map(PciId).ok_or_else(|| {
            NotAValue {
                text: text.to_owned(),
                expected: "a 16-bit hexadecimal PCI id such as 10de",
            }
        })
    }
}

/// Bits of the ACS capability and control registers (include/uapi/linux/pci_regs.h, handbook §3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AcsBits(pub u16);

impl AcsBits {
    /// Source Validation.
    pub const SV: AcsBits = AcsBits(0x01);
    /// Translation Blocking.
    pub const TB: AcsBits = AcsBits(0x02);
    /// P2P Request Redirect.
    pub const RR: AcsBits = AcsBits(0x04);
    /// P2P Completion Redirect.
    pub const CR: AcsBits = AcsBits(0x08);
    /// Upstream Forwarding.
    pub const UF: AcsBits = AcsBits(0x10);
    /// P2P Egress Control.
    pub const EC: AcsBits = AcsBits(0x20);
    /// Direct Translated P2P.
    pub const DT: AcsBits = AcsBits(0x40);
    /// Bits that redirect peer-to-peer requests to the host bridge (handbook §3.2).
    pub const REDIRECT: AcsBits = AcsBits(0x04 | 0x08 | 0x20);
    /// Bits that Linux requires when it computes IOMMU groups (handbook §3.3).
    pub const ISOLATION: AcsBits = AcsBits(0x01 | 0x04 | 0x08 | 0x10);
    /// Every bit that the specification defines.
    pub const ALL: AcsBits = AcsBits(0x7f);

    const NAMES: [(u16, &'static str); 7] = [
        (0x01, "SV"),
        (0x02, "TB"),
        (0x04, "RR"),
        (0x08, "CR"),
        (0x10, "UF"),
        (0x20, "EC"),
        (0x40, "DT"),
    ];

    /// Returns the bits in both.
    pub fn and(self, other: AcsBits) -> AcsBits {
        AcsBits(self.0 & other.0)
    }

    /// Returns the bits in either.
    pub fn or(self, other: AcsBits) -> AcsBits {
        AcsBits(self.0 | other.0)
    }

    /// Returns these bits without `other`.
    pub fn without(self, other: AcsBits) -> AcsBits {
        AcsBits(self.0 & !other.0)
    }

    /// Whether no bit is set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for AcsBits {
    /// Formats as `SV RR CR UF`, or `none`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = Self::NAMES
            .iter()
            .filter(|(bit, _)| self.0 & bit != 0)
            .map(|(_, name)| *name)
            .collect();
        f.write_str(if names.is_empty() { "none" } else { "" })?;
        f.write_str(&names.join(" "))
    }
}

/// Implements `JsonSchema` for types that are text in JSON, with a pattern.
#[cfg(feature = "schemars")]
macro_rules! schema_as_text {
    ($($name:ty => $pattern:literal),*) => {$(
        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "pattern": $pattern })
            }
        }
    )*};
}
#[cfg(feature = "schemars")]
schema_as_text!(
    PciAddress => "^([0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[01][0-9a-fA-F]\\.[0-7]$",
    ModuleName => "^[A-Za-z0-9_][A-Za-z0-9_-]*$",
    PciId => "^(0x)?[0-9a-fA-F]{1,4}$",
    Mac => "^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$",
    Guid => "^([0-9a-fA-F]{2}:){7}[0-9a-fA-F]{2}$"
);

/// Implements serde through `Display` and `FromStr`, for types whose only form is text.
macro_rules! serde_as_text {
    ($($name:ty),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}
serde_as_text!(PciAddress, ModuleName, PciId, Mac, Guid);

impl Serialize for AcsBits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:04x}", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip_with_wide_domains() {
        for text in ["0000:17:00.0", "10000:e1:1f.7", "ffffffff:ff:00.0"] {
            assert_eq!(text.parse::<PciAddress>().unwrap().to_string(), text);
        }
        assert_eq!("17:00.1".parse::<PciAddress>().unwrap().to_string(), "0000:17:00.1");
        for bad in [
            "",
            "17:00",
            "0000:17:20.0",
            "0000:17:00.8",
            "0000:17:+1.0",
            "x:17:00.0",
            "aa:bb.c/dd:ee.f",
        ] {
            assert!(bad.parse::<PciAddress>().is_err(), "{bad}");
        }
    }

    #[test]
    fn module_names_are_normalized() {
        assert_eq!("nvidia-peermem".parse::<ModuleName>().unwrap().as_str(), "nvidia_peermem");
        assert!("a b".parse::<ModuleName>().is_err());
        assert!("../x".parse::<ModuleName>().is_err());
    }
}
