//! The sections that say which hosts a profile is for and how bedplate behaves on them.

use schemars::JsonSchema;
use serde::Deserialize;

use super::at::At;
use super::entry::OneOrMany;
use crate::facts::{Arch, CpuVendor};
use crate::profile::model::{AgentMode, RebootMethod, RebootPolicy};

/// What `match` may be instead of conditions.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::profile) enum MatchWord {
    /// The shipped profile that fits the hardware best, below this one.
    Auto,
}

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

    /// How the machine is restarted when a change asks for a cold reboot, in the order in which methods are tried. A
    /// method that cannot work here is passed over; behind the last one nothing is done. An ordinary reboot through
    /// firmware is enough for kernel parameters: the others are policy. A later file replaces the whole list.
    #[schemars(
        extend("default" = ["ordinary"]),
        example = ["bmc", "firmware"],
        extend("x-source" = "kernel/reboot.c; handbook §2.1")
    )]
    pub methods: Option<At<Vec<At<RebootMethod>>>>,

    /// When bedplate may reboot: days (optional), from-to, and a time zone by name. A window whose end is not after its
    /// start runs into the next day. No windows: at any time. `never` holds the place of a window that is still to be
    /// chosen: it does not open. A later file replaces the whole list.
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

    /// Time between the announcement to everybody logged in and the reboot, up to one day.
    #[schemars(extend("default" = "5m"), example = &"15m", extend("x-source" = "org.freedesktop.login1(5)"))]
    pub delay: Option<At<String>>,

    /// Up to so much more, different on each host, so that a fleet does not reboot at once; up to one day.
    #[schemars(extend("default" = "0s"), example = &"30m")]
    pub jitter: Option<At<String>>,

    /// How long block inhibitors (`systemd-inhibit`) are waited for; then that is reported, and nothing is forced. Up to
    /// seven days.
    #[schemars(extend("default" = "1h"), example = &"12h", extend("x-source" = "org.freedesktop.login1(5)"))]
    pub inhibitor_wait: Option<At<String>>,

    /// Whether a process that holds a GPU or an RDMA device open keeps the machine from rebooting.
    #[schemars(extend("default" = true))]
    pub busy_devices: Option<At<bool>>,

    /// A command that says whether the machine is busy: exit status 0 = free, 1 = busy (its first line of output is the
    /// reason), anything else = cannot tell, and then nothing is rebooted.
    #[schemars(extend("default" = [] as [&str; 0]), example = ["/usr/local/sbin/node-is-drained"])]
    pub busy_command: Option<At<Vec<At<String>>>>,

    /// The command of the method `command`: it has the machine power-cycled from outside.
    #[schemars(extend("default" = [] as [&str; 0]), example = ["/usr/local/sbin/redfish-cycle"])]
    pub command: Option<At<Vec<At<String>>>>,

    /// Say that this machine's firmware wakes it by its clock; without, the method `rtc` is not used.
    #[schemars(extend("default" = false), extend("x-source" = "kernel Documentation/admin-guide/rtc.rst"))]
    pub rtc_wakes: Option<At<bool>>,

    /// Do everything but the reboot itself: announce, lock, then a `dry-reboot`.
    #[schemars(extend("default" = false), extend("x-source" = "org.freedesktop.login1(5)"))]
    pub rehearse: Option<At<bool>>,

    /// A FleetLock server, which lets only so many hosts reboot at a time.
    pub fleetlock: Option<FleetLockFragment>,
}

/// `[reboot.fleetlock]`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::profile) struct FleetLockFragment {
    /// Base address. Without it no server is asked.
    #[schemars(example = &"http://fleetlock.example:9090/", extend("x-source" = "FleetLock protocol"))]
    pub url: Option<At<String>>,

    /// Group of hosts that share the slots: letters, digits, dots and dashes.
    #[schemars(extend("default" = "default"), regex(pattern = r"^[a-zA-Z0-9.-]+$"))]
    pub group: Option<At<String>>,
}

/// `[agent]`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::profile) struct AgentFragment {
    /// Whether the daemon makes the host what the profile says and keeps it so, or only reports.
    #[schemars(extend("default" = "enforce"))]
    pub mode: Option<At<AgentMode>>,

    /// Time between two re-checks that no event asked for, from 10 seconds to one day. Events (a device appears, an
    /// attribute is written) are looked at as they come.
    #[schemars(extend("default" = "15m"), example = &"10m", example = &"1h 30m")]
    pub interval: Option<At<String>>,

    /// How long `bedplate-boot.service` may hold up a boot to put back ACS bits, VFs and modules, from 5 seconds to 15
    /// minutes. Half of it is for drivers that are not ready. Then the boot goes on, and the daemon with what is left.
    #[schemars(extend("default" = "2m"), example = &"30s")]
    pub boot_timeout: Option<At<String>>,

    /// How long a boot waits for the host to converge, up to one day; then whatever is ordered after
    /// `bedplate-ready.target` starts all the same, and that is said.
    #[schemars(extend("default" = "10m"), example = &"3m")]
    pub ready_timeout: Option<At<String>>,
}
