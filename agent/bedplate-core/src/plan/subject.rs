//! Subject of a change, blocker, or unknown: a text, and its PCI function if there is exactly one.

use std::fmt;

use serde::{Deserialize, Serialize};

use bedplate_base::value::PciAddress;

/// Subject of findings about the default boot entry; other code matches it.
pub const BOOT_ENTRY: &str = "boot entry";
/// Subject of unknowns about the next boot's command line; other code matches it.
pub const NEXT_COMMAND_LINE: &str = "next boot's command line";

/// Subject of a change, blocker, or unknown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Subject {
    /// Text: `/etc/default/grub.d/zz-bedplate.cfg`, `port 0000:17:00.0`.
    #[serde(rename = "subject")]
    pub text: String,
    /// PCI function, if there is exactly one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Box<Device>>,
}

/// A PCI function and its role.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Device {
    /// Role in the plan.
    pub role: DeviceRole,
    /// PCI address.
    pub address: PciAddress,
    /// Name of its network interface, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
}

/// Role of a PCI function in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DeviceRole {
    /// A port of a switch or of the root complex.
    Port,
    /// A physical function of a network adapter with virtual functions.
    Pf,
    /// A GPU.
    Gpu,
    /// A network adapter.
    Nic,
    /// Another PCI function.
    Function,
}

impl fmt::Display for DeviceRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeviceRole::Port => "port",
            DeviceRole::Pf => "PF",
            DeviceRole::Gpu => "GPU",
            DeviceRole::Nic => "NIC",
            DeviceRole::Function => "function",
        })
    }
}

impl Device {
    /// Creates a device without an interface.
    pub fn new(role: DeviceRole, address: PciAddress) -> Self {
        Device { role, address, interface: None }
    }

    /// Returns the name without the role: `0000:19:00.0 (ibp25s0)`.
    pub fn name(&self) -> String {
        match &self.interface {
            Some(interface) => format!("{} ({interface})", self.address),
            None => self.address.to_string(),
        }
    }
}

impl Subject {
    /// Creates a subject from a text and its function, if there is exactly one.
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
