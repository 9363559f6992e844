//! The subject of a change, blocker or unknown: a text, and the PCI function where it is one.

use std::fmt;

use serde::{Deserialize, Serialize};

use bedplate_base::value::PciAddress;

/// Subject of findings about the default boot entry, by which they are found again.
pub const BOOT_ENTRY: &str = "boot entry";
/// Subject of what is not known of the next boot's command line, by which it is found again.
pub const NEXT_COMMAND_LINE: &str = "next boot's command line";

/// The subject of a change, a blocker or an unknown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Subject {
    /// Its text: `/etc/default/grub.d/zz-bedplate.cfg`, `port 0000:17:00.0`.
    #[serde(rename = "subject")]
    pub text: String,
    /// Its PCI function, where it is exactly one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Box<Device>>,
}

/// A PCI function and its role.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Device {
    /// Its role.
    pub role: DeviceRole,
    /// Its address.
    pub address: PciAddress,
    /// Its network interface, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
}

/// The role of a PCI function in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DeviceRole {
    /// A port of a switch or of the root complex.
    Port,
    /// A physical function of a network adapter that has virtual ones.
    Pf,
}

impl fmt::Display for DeviceRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeviceRole::Port => "port",
            DeviceRole::Pf => "PF",
        })
    }
}

impl Device {
    /// A function without an interface.
    pub fn new(role: DeviceRole, address: PciAddress) -> Self {
        Device { role, address, interface: None }
    }

    /// Without its role: `0000:19:00.0 (ibp25s0)`.
    pub fn name(&self) -> String {
        match &self.interface {
            Some(interface) => format!("{} ({interface})", self.address),
            None => self.address.to_string(),
        }
    }
}

impl Subject {
    /// A text, and the function that it is about, where it is exactly one.
    pub fn about(text: String, device: Option<Device>) -> Self {
        Subject { text, device: device.map(Box::new) }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl From<Device> for Subject {
    fn from(device: Device) -> Self {
        Subject::about(format!("{} {}", device.role, device.name()), Some(device))
    }
}

impl From<String> for Subject {
    fn from(text: String) -> Self {
        Subject::about(text, None)
    }
}

impl From<&str> for Subject {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}
