//! `[reboot]`: whether, when, and how the machine is rebooted.

use serde::{Deserialize, Serialize};

use super::fleetlock::{FleetLock, FleetLockFile, FleetLockKeys};
use crate::profile::reboot_window::{NEVER, RebootWindow};
use crate::section::{
    Check, Checked, Checker, DAY, Each, Fault, Length, Printer, Section, section,
};

/// Longest wait for inhibitors: an operator should hear of a job that blocks a reboot for longer.
const WEEK: u32 = 7 * DAY;

/// Handling of a required reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RebootPolicy {
    /// No action.
    Never,
    /// Writes a marker file for other tools (kured, needs-restarting).
    Mark,
    /// Schedules the reboot through logind in the window.
    Schedule,
}

bedplate_base::named! {
    /// Method of restarting the machine (handbook §2, §13.8).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
    pub enum RebootMethod {
        /// An ordinary reboot through firmware: enough for kernel parameters.
        Ordinary = "ordinary",
        /// An ordinary reboot with the kernel's reset mode and type set to the coldest that firmware offers.
        Firmware = "firmware",
        /// An orderly shutdown that ends with a power cycle by the BMC.
        Bmc = "bmc",
        /// A power-off with a wake-up alarm.
        Rtc = "rtc",
        /// The operator's own command (Redfish, MAAS).
        Command = "command",
    }
}

impl RebootMethod {
    /// Returns the report text for a boot that followed a reboot scheduled by bedplate with this method.
    pub fn origin(self) -> &'static str {
        match self {
            RebootMethod::Ordinary => "scheduled by bedplate",
            RebootMethod::Firmware => "scheduled by bedplate, a reset by the firmware",
            RebootMethod::Bmc => "scheduled by bedplate, a power cycle by the BMC",
            RebootMethod::Rtc => "scheduled by bedplate, a power-off with a wake-up alarm",
            RebootMethod::Command => "scheduled by bedplate, by the operator's command",
        }
    }
}

section! {
    /// `[reboot]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    "reboot" Reboot, RebootFile {
        /// Action when a change takes effect only after a reboot.
        #[schemars(extend("x-source" = "org.freedesktop.login1(5); handbook §13.8"))]
        policy: RebootPolicy = RebootPolicy::Never;

        /// How the machine is restarted when a change needs a cold reboot, in the order of attempts. A method that
        /// cannot work here is skipped; if all fail, there is no reboot. An ordinary reboot through firmware is enough
        /// for kernel parameters: the other methods are a matter of policy. A later file replaces the whole list.
        #[schemars(
            example = vec!["bmc", "firmware"],
            extend("x-source" = "kernel/reboot.c; handbook §2.1")
        )]
        methods: Vec<RebootMethod> as Checked<Methods> = vec![RebootMethod::Ordinary];

        /// When bedplate may reboot: days (optional), from-to, and a time zone by name. A window whose end is not after
        /// its start extends into the next day. No windows: at any time. `never` is a placeholder for a window still to
        /// be chosen: it does not open. A later file replaces the whole list.
        #[schemars(
            example = vec!["Sat,Sun 02:00-05:00 Europe/Amsterdam"],
            example = vec!["Mon-Fri 23:30-01:00 UTC"],
            extend("x-source" = "IANA time zone database")
        )]
        windows: Vec<String> as Each<Window> = Vec::new();

        /// Reboots allowed for one plan; after that bedplate reports exhausted attempts and does not reboot again.
        #[schemars(range(min = 1, max = 10))]
        attempts: u8 = 1;

        /// Time between the announcement to all logged-in users and the reboot, up to one day.
        #[schemars(example = &"15m", extend("x-source" = "org.freedesktop.login1(5)"))]
        delay_s ("delay"): u32 as Length<0, DAY> = 5 * 60;

        /// Maximum additional delay, different on each host, so that a fleet does not reboot at once; up to one day.
        #[schemars(example = &"30m")]
        jitter_s ("jitter"): u32 as Length<0, DAY> = 0;

        /// How long to wait for block inhibitors (`systemd-inhibit`); then the wait is reported, and nothing is forced.
        /// Up to seven days.
        #[schemars(example = &"12h", extend("x-source" = "org.freedesktop.login1(5)"))]
        inhibitor_wait_s ("inhibitor_wait"): u32 as Length<0, WEEK> = 60 * 60;

        /// Whether a process that has a GPU or an RDMA device open blocks a reboot.
        busy_devices: bool = true;

        /// Names of processes (`ps -o comm`) that have GPU or RDMA devices open all the time without doing work:
        /// storage clients over RDMA (`mmfsd` of GPFS, `wekanode`), which only the operator can judge. Daemons of
        /// drivers, monitoring, and Kubernetes are known and need not be named. A later file replaces the whole list.
        #[schemars(example = vec!["mmfsd"], extend("x-source" = "handbook §14.7"))]
        idle_holders: Vec<String> as Each<ProcessName> = Vec::new();

        /// A command that reports whether the machine is busy: exit status 0 = free, 1 = busy (its first line of output
        /// is the reason), anything else = unknown, and then there is no reboot.
        #[schemars(example = vec!["/usr/local/sbin/node-is-drained"])]
        busy_command: Vec<String> as Checked<Program> = Vec::new();

        /// The command of the method `command`: it has the machine power-cycled from outside.
        #[schemars(example = vec!["/usr/local/sbin/redfish-cycle"])]
        command: Vec<String> as Checked<Program> = Vec::new();

        /// Whether this machine's firmware wakes it by its clock; if not, the method `rtc` is not used.
        #[schemars(extend("x-source" = "kernel Documentation/admin-guide/rtc.rst"))]
        rtc_wakes: bool = false;

        /// Dry run: everything but the reboot itself (schedule, lock, then a `dry-reboot`).
        #[schemars(extend("x-source" = "org.freedesktop.login1(5)"))]
        dry_run: bool = false;
    }
    special read_fleetlock {
        /// A FleetLock server, which limits the number of hosts that reboot at a time.
        fleetlock: FleetLockFile;
    }
    after {
        /// Server that manages the slots.
        fleetlock: Option<FleetLock>;
    }
    show show_fleetlock;
}

fn read_fleetlock(section: &mut Reboot, files: Vec<RebootFile>, checker: &mut Checker<'_>) {
    let keys =
        FleetLockKeys::read(files.into_iter().filter_map(|file| file.fleetlock).collect(), checker);
    section.fleetlock = keys.url.map(|url| FleetLock { url, group: keys.group });
}

fn show_fleetlock(section: &Reboot, out: &mut Printer<'_>) {
    if let Some(FleetLock { url, group }) = section.fleetlock.clone() {
        FleetLockKeys { url: Some(url), group }.show(out);
    }
}

/// Methods of restarting the machine, at least one.
pub(crate) struct Methods;

impl Check for Methods {
    type Value = Vec<RebootMethod>;
    const ID: &'static str = "no-method";

    fn fault(_: &str, methods: &Vec<RebootMethod>) -> Option<Fault> {
        let message = "the list of reboot methods is empty".to_owned();
        let help = "for no reboots, set policy = \"never\"".to_owned();
        methods.is_empty().then(|| (message, "expected at least one method".to_owned(), Some(help)))
    }
}

/// A time at which the machine may be rebooted.
pub(crate) struct Window;

impl Check for Window {
    type Value = String;
    const ID: &'static str = "bad-window";

    fn fault(_: &str, text: &String) -> Option<Fault> {
        let error = text.parse::<RebootWindow>().err().filter(|_| text != NEVER)?;
        let message = format!("`{text}` is not a reboot window: {error}");
        let help = "write days, hours and a time zone: `Sat,Sun 02:00-05:00 Europe/Amsterdam`";
        Some((message, error.label().to_owned(), Some(help.to_owned())))
    }
}

/// Name of a process.
pub(crate) struct ProcessName;

impl Check for ProcessName {
    type Value = String;
    const ID: &'static str = "bad-process-name";

    fn fault(_: &str, text: &String) -> Option<Fault> {
        let message = format!("`{text}` is not a process name");
        let help = "use the output of `ps -o comm`: `mmfsd`, without path and arguments";
        let is_bad = text.trim().is_empty() || text.contains('/');
        is_bad.then(|| (message, "expected a name".to_owned(), Some(help.to_owned())))
    }
}

/// Program and arguments. The daemon has no working directory and no shell, so the program needs its full path.
pub(crate) struct Program;

impl Check for Program {
    type Value = Vec<String>;
    const ID: &'static str = "bad-command";

    fn fault(_: &str, words: &Vec<String>) -> Option<Fault> {
        let first = words.first().filter(|first| !first.starts_with('/'))?;
        let message = format!("`{first}` is not an absolute path");
        let help =
            "write program and arguments as a list: [\"/usr/local/sbin/check\", \"--quick\"]";
        Some((message, "expected a path that starts with `/`".to_owned(), Some(help.to_owned())))
    }
}

impl Reboot {
    /// Returns the setting that prevents reboots by bedplate and requests to other tools; `None` if nothing prevents
    /// both.
    pub fn forbidding(&self) -> Option<&'static str> {
        match self.policy {
            RebootPolicy::Never => Some("policy = \"never\""),
            RebootPolicy::Schedule if is_open(&self.windows) => Some("windows = [\"never\"]"),
            RebootPolicy::Schedule | RebootPolicy::Mark => None,
        }
    }
}

/// Whether no window was chosen yet.
pub(crate) fn is_open(windows: &[String]) -> bool {
    !windows.is_empty() && windows.iter().all(|window| window == NEVER)
}
