//! `[reboot]`: whether, when and how the machine is restarted.

use serde::{Deserialize, Serialize};

use super::fleetlock::{FleetLock, FleetLockFile, FleetLockKeys};
use crate::profile::reboot_window::{NEVER, RebootWindow};
use crate::section::{
    Check, Checked, Checker, DAY, Each, Fault, Length, Printer, Section, section,
};

/// A job that blocks a reboot for longer is one that an operator should hear of.
const WEEK: u32 = 7 * DAY;

/// What to do about a needed reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RebootPolicy {
    /// Nothing.
    Never,
    /// Leave a marker file for others (kured, needs-restarting).
    Mark,
    /// Schedule through logind in the window.
    Schedule,
}

bedplate_base::named! {
    /// How the machine is restarted (handbook §2, §13.8).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
    pub enum RebootMethod {
        /// An ordinary reboot through firmware: enough for kernel parameters.
        Ordinary = "ordinary",
        /// The same, with the kernel's reset mode and type set to the coldest that firmware offers.
        Firmware = "firmware",
        /// An orderly shutdown whose last step is a power cycle by the BMC.
        Bmc = "bmc",
        /// A power-off with a wake-up alarm.
        Rtc = "rtc",
        /// The operator's own command (Redfish, MAAS).
        Command = "command",
    }
}

impl RebootMethod {
    /// Text of a report about a boot that followed a reboot by this method, as bedplate had announced it.
    pub fn announced(self) -> &'static str {
        match self {
            RebootMethod::Ordinary => "the one bedplate announced",
            RebootMethod::Firmware => "the one bedplate announced, a reset by the firmware",
            RebootMethod::Bmc => "the one bedplate announced, a power cycle by the BMC",
            RebootMethod::Rtc => "the one bedplate announced, a power-off with a wake-up alarm",
            RebootMethod::Command => "the one bedplate announced, by the operator's command",
        }
    }
}

section! {
    /// `[reboot]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    "reboot" Reboot, RebootFile {
        /// What to do when a change counts only after a reboot.
        #[schemars(extend("x-source" = "org.freedesktop.login1(5); handbook §13.8"))]
        policy: RebootPolicy = RebootPolicy::Never;

        /// How the machine is restarted when a change asks for a cold reboot, in the order in which methods are tried. A
        /// method that cannot work here is passed over; behind the last one nothing is done. An ordinary reboot through
        /// firmware is enough for kernel parameters: the others are policy. A later file replaces the whole list.
        #[schemars(
            example = vec!["bmc", "firmware"],
            extend("x-source" = "kernel/reboot.c; handbook §2.1")
        )]
        methods: Vec<RebootMethod> as Checked<Methods> = vec![RebootMethod::Ordinary];

        /// When bedplate may reboot: days (optional), from-to, and a time zone by name. A window whose end is not after its
        /// start runs into the next day. No windows: at any time. `never` holds the place of a window that is still to be
        /// chosen: it does not open. A later file replaces the whole list.
        #[schemars(
            example = vec!["Sat,Sun 02:00-05:00 Europe/Amsterdam"],
            example = vec!["Mon-Fri 23:30-01:00 UTC"],
            extend("x-source" = "IANA time zone database")
        )]
        windows: Vec<String> as Each<Window> = Vec::new();

        /// Reboots allowed for one plan; after that bedplate says that it is stuck and stays still.
        #[schemars(range(min = 1, max = 10))]
        attempts: u8 = 1;

        /// Time between the announcement to everybody logged in and the reboot, up to one day.
        #[schemars(example = &"15m", extend("x-source" = "org.freedesktop.login1(5)"))]
        delay_s ("delay"): u32 as Length<0, DAY> = 5 * 60;

        /// Up to so much more, different on each host, so that a fleet does not reboot at once; up to one day.
        #[schemars(example = &"30m")]
        jitter_s ("jitter"): u32 as Length<0, DAY> = 0;

        /// How long block inhibitors (`systemd-inhibit`) are waited for; then that is reported, and nothing is forced. Up to
        /// seven days.
        #[schemars(example = &"12h", extend("x-source" = "org.freedesktop.login1(5)"))]
        inhibitor_wait_s ("inhibitor_wait"): u32 as Length<0, WEEK> = 60 * 60;

        /// Whether a process that holds a GPU or an RDMA device open keeps the machine from rebooting.
        busy_devices: bool = true;

        /// Names of processes (`ps -o comm`) that hold such devices all the time and are no work: storage clients over RDMA
        /// (`mmfsd` of GPFS, `wekanode`), of which only the operator can say whether they count. Daemons that come with
        /// drivers, monitoring and Kubernetes are known and need not be named. A later file replaces the whole list.
        #[schemars(example = vec!["mmfsd"], extend("x-source" = "handbook §14.7"))]
        idle_holders: Vec<String> as Each<ProcessName> = Vec::new();

        /// A command that says whether the machine is busy: exit status 0 = free, 1 = busy (its first line of output is the
        /// reason), anything else = cannot tell, and then nothing is rebooted.
        #[schemars(example = vec!["/usr/local/sbin/node-is-drained"])]
        busy_command: Vec<String> as Checked<Program> = Vec::new();

        /// The command of the method `command`: it has the machine power-cycled from outside.
        #[schemars(example = vec!["/usr/local/sbin/redfish-cycle"])]
        command: Vec<String> as Checked<Program> = Vec::new();

        /// Say that this machine's firmware wakes it by its clock; without, the method `rtc` is not used.
        #[schemars(extend("x-source" = "kernel Documentation/admin-guide/rtc.rst"))]
        rtc_wakes: bool = false;

        /// Do everything but the reboot itself: announce, lock, then a `dry-reboot`.
        #[schemars(extend("x-source" = "org.freedesktop.login1(5)"))]
        rehearse: bool = false;
    }
    special read_fleetlock {
        /// A FleetLock server, which lets only so many hosts reboot at a time.
        fleetlock: FleetLockFile;
    }
    after {
        /// Where the slots are.
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

/// Ways to restart the machine, at least one.
pub(crate) struct Methods;

impl Check for Methods {
    type Value = Vec<RebootMethod>;
    const ID: &'static str = "no-method";

    fn fault(_: &str, methods: &Vec<RebootMethod>) -> Option<Fault> {
        let message = "a list without methods leaves no way to reboot".to_owned();
        let help = "to be left alone, write policy = \"never\"".to_owned();
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
        let message = format!("`{text}` is not the name of a process");
        let help = "write what `ps -o comm` shows: `mmfsd`, no path and no arguments";
        let is_bad = text.trim().is_empty() || text.contains('/');
        is_bad.then(|| (message, "expected a name".to_owned(), Some(help.to_owned())))
    }
}

/// Program and arguments. The daemon has no working directory and no shell: the program is named in full.
pub(crate) struct Program;

impl Check for Program {
    type Value = Vec<String>;
    const ID: &'static str = "bad-command";

    fn fault(_: &str, words: &Vec<String>) -> Option<Fault> {
        let first = words.first().filter(|first| !first.starts_with('/'))?;
        let message = format!("`{first}` is not the full path of a program");
        let help =
            "write program and arguments as a list: [\"/usr/local/sbin/check\", \"--quick\"]";
        Some((message, "expected a path from `/`".to_owned(), Some(help.to_owned())))
    }
}

impl Reboot {
    /// The setting by which bedplate reboots nothing, and leaves no request for another tool; `None`: it does either.
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
