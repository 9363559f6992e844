//! The sections that say which hosts a profile is for and how bedplate behaves on them.

use schemars::JsonSchema;
use serde::Deserialize;

use super::at::At;
use super::entry::OneOrMany;
use crate::facts::{Arch, CpuVendor};
use crate::profile::model::{RebootMethod, RebootPolicy};

/// `[match]`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::profile) struct MatchFragment {
    /// Maker of the CPU.
    #[schemars(example = &"intel", extend("x-source" = "/proc/cpuinfo vendor_id; CPU implementer on Arm"))]
    pub cpu_vendor: Option<At<CpuVendor>>,

    /// Processor architecture.
    #[schemars(example = &"aarch64", extend("x-source" = "uname(2) machine"))]
    pub arch: Option<At<Arch>>,

    /// Shell pattern on the DMI system vendor; case does not count.
    #[schemars(example = &"Supermicro*", extend("x-source" = "/sys/class/dmi/id/sys_vendor"))]
    pub sys_vendor: Option<At<String>>,

    /// Shell pattern on the DMI product name; case does not count.
    #[schemars(example = &"DGXH100*", extend("x-source" = "/sys/class/dmi/id/product_name"))]
    pub product_name: Option<At<String>>,

    /// PCI functions that must be there. A later file replaces the whole list.
    pub pci: Option<At<Vec<At<MatchPciFragment>>>>,
}

/// One `[[match.pci]]`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::profile) struct MatchPciFragment {
    /// `vendor:device` in hexadecimal, `vendor:*` for any device; several in a list count together. Virtual functions
    /// are not counted.
    #[schemars(example = &"10de:2330", extend("x-source" = "/sys/bus/pci/devices/*/{vendor,device}; pci.ids"))]
    pub id: OneOrMany<PciIdText>,

    /// At least this many functions.
    #[schemars(range(min = 1), extend("default" = 1), example = 8)]
    pub at_least: Option<At<u32>>,

    /// At most this many functions. Default: no limit.
    #[schemars(example = 8)]
    pub at_most: Option<At<u32>>,
}

/// A pair of PCI ids.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(in crate::profile) struct PciIdText(
    /// `vendor:device` in hexadecimal, `vendor:*` for any device.
    #[schemars(regex(pattern = r"^(0x)?[0-9A-Fa-f]{1,4}:((0x)?[0-9A-Fa-f]{1,4}|\*)$"))]
    pub String,
);

/// `[reboot]`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::profile) struct RebootFragment {
    /// What to do when a change counts only after a reboot.
    #[schemars(extend("default" = "never"), extend("x-source" = "org.freedesktop.login1(5); handbook §13.8"))]
    pub policy: Option<At<RebootPolicy>>,

    /// How the machine is restarted. An ordinary reboot is enough for kernel parameters.
    #[schemars(extend("default" = "firmware"), extend("x-source" = "kernel/reboot.c; handbook §2.1"))]
    pub method: Option<At<RebootMethod>>,

    /// When bedplate may reboot: days (optional), from-to, and a time zone by name. A window whose end is not after its
    /// start runs into the next day. No windows: at any time. A later file replaces the whole list.
    #[schemars(
        extend("default" = [] as [&str; 0]),
        example = ["Sat,Sun 02:00-05:00 Europe/Amsterdam"],
        example = ["Mon-Fri 23:30-01:00 UTC"],
        extend("x-source" = "IANA time zone database")
    )]
    pub windows: Option<At<Vec<At<String>>>>,

    /// Reboots allowed for one plan; after that bedplate says that it is stuck and stays still.
    #[schemars(range(min = 1, max = 10), extend("default" = 1))]
    pub attempts: Option<At<u8>>,
}

/// `[agent]`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::profile) struct AgentFragment {
    /// Time between two full comparisons with the profile, from 10 seconds to one day. Events (a device appears, an
    /// attribute changes) are looked at in between.
    #[schemars(extend("default" = "10m"), example = &"10m", example = &"1h 30m")]
    pub interval: Option<At<String>>,

    /// Whether the daemon makes changes, or only reports them.
    #[schemars(extend("default" = true))]
    pub apply: Option<At<bool>>,
}
