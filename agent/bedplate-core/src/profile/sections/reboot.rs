//! `[reboot]`: whether, when and how the machine is restarted.

use serde::{Deserialize, Serialize};

use super::fleetlock::{FleetLock, FleetLockFragment, FleetLockKeys, FleetLockLayer};
use crate::profile::reboot_window::{NEVER, RebootWindow};
use crate::section::{
    Checker, DAY, Finisher, Leaf, Length, Lint, LintMatch, Printer, Rule, Section, SectionLint,
    Severity, Spanned, section,
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

/// How the machine is restarted (handbook §2, §13.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RebootMethod {
    /// An ordinary reboot through firmware: enough for kernel parameters.
    Ordinary,
    /// The same, with the kernel's reset mode and type set to the coldest that firmware offers.
    Firmware,
    /// An orderly shutdown whose last step is a power cycle by the BMC.
    Bmc,
    /// A power-off with a wake-up alarm.
    Rtc,
    /// The operator's own command (Redfish, MAAS).
    Command,
}

impl std::fmt::Display for RebootMethod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            RebootMethod::Ordinary => "ordinary",
            RebootMethod::Firmware => "firmware",
            RebootMethod::Bmc => "bmc",
            RebootMethod::Rtc => "rtc",
            RebootMethod::Command => "command",
        })
    }
}

section! {
    /// `[reboot]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    "reboot" Reboot, RebootFragment, RebootLayer {
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
        methods: Vec<RebootMethod> as Methods = vec![RebootMethod::Ordinary];

        /// When bedplate may reboot: days (optional), from-to, and a time zone by name. A window whose end is not after its
        /// start runs into the next day. No windows: at any time. `never` holds the place of a window that is still to be
        /// chosen: it does not open. A later file replaces the whole list.
        #[schemars(
            example = vec!["Sat,Sun 02:00-05:00 Europe/Amsterdam"],
            example = vec!["Mon-Fri 23:30-01:00 UTC"],
            extend("x-source" = "IANA time zone database")
        )]
        windows: Vec<String> as Windows = Vec::new();

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
        idle_holders: Vec<String> as Names = Vec::new();

        /// A command that says whether the machine is busy: exit status 0 = free, 1 = busy (its first line of output is the
        /// reason), anything else = cannot tell, and then nothing is rebooted.
        #[schemars(example = vec!["/usr/local/sbin/node-is-drained"])]
        busy_command: Vec<String> as Program = Vec::new();

        /// The command of the method `command`: it has the machine power-cycled from outside.
        #[schemars(example = vec!["/usr/local/sbin/redfish-cycle"])]
        command: Vec<String> as Program = Vec::new();

        /// Say that this machine's firmware wakes it by its clock; without, the method `rtc` is not used.
        #[schemars(extend("x-source" = "kernel Documentation/admin-guide/rtc.rst"))]
        rtc_wakes: bool = false;

        /// Do everything but the reboot itself: announce, lock, then a `dry-reboot`.
        #[schemars(extend("x-source" = "org.freedesktop.login1(5)"))]
        rehearse: bool = false;
    }
    special fleetlock: FleetLockLayer = read_fleetlock {
        /// A FleetLock server, which lets only so many hosts reboot at a time.
        fleetlock: FleetLockFragment;
    }
    after {
        /// Where the slots are.
        fleetlock: Option<FleetLock> = finish_fleetlock;
    }
    show show_fleetlock;
    lints LINTS;
}

fn read_fleetlock(checker: &mut Checker<'_>, table: Option<FleetLockFragment>) -> FleetLockLayer {
    table.map(|table| FleetLockLayer::read(table, checker)).unwrap_or_default()
}

fn finish_fleetlock(section: &RebootLayer, finisher: &mut Finisher<'_>) -> Option<FleetLock> {
    let keys = section.fleetlock.finish(finisher);
    keys.url.map(|url| FleetLock { url, group: keys.group })
}

fn show_fleetlock(section: &RebootLayer, model: &Reboot, out: &mut Printer<'_>) {
    if let Some(FleetLock { url, group }) = model.fleetlock.clone() {
        section.fleetlock.show(&FleetLockKeys { url: Some(url), group }, out);
    }
}

/// Ways to restart the machine, at least one.
pub(crate) struct Methods;

impl Rule for Methods {
    type File = Vec<Spanned<RebootMethod>>;
    type Value = Vec<RebootMethod>;

    fn read(
        checker: &mut Checker<'_>,
        _: &str,
        list: Spanned<Self::File>,
    ) -> Option<Leaf<Self::Value>> {
        let place = checker.place(list.span);
        if list.value.is_empty() {
            let message = "a list without methods leaves no way to reboot";
            let help = "to be left alone, write policy = \"never\"".to_owned();
            checker.error(place, "no-method", message, "expected at least one method", Some(help));
            return None;
        }
        Some(Leaf::bare(list.value.into_iter().map(|method| method.value).collect(), place))
    }

    fn to_toml(value: &Self::Value) -> impl Serialize {
        value
    }
}

/// Times at which the machine may be rebooted.
pub(crate) struct Windows;

impl Rule for Windows {
    type File = Vec<Spanned<String>>;
    type Value = Vec<String>;

    fn read(
        checker: &mut Checker<'_>,
        _: &str,
        list: Spanned<Self::File>,
    ) -> Option<Leaf<Self::Value>> {
        let place = checker.place(list.span);
        let good = list.value.into_iter().filter_map(|text| window(checker, text)).collect();
        Some(Leaf::bare(good, place))
    }

    fn to_toml(value: &Self::Value) -> impl Serialize {
        value
    }
}

fn window(checker: &mut Checker<'_>, text: Spanned<String>) -> Option<String> {
    if text.value == NEVER {
        return Some(text.value);
    }
    match text.value.parse::<RebootWindow>() {
        Ok(_) => Some(text.value),
        Err(error) => {
            let place = checker.place(text.span);
            let message = format!("`{}` is not a reboot window: {error}", text.value);
            let help = "write days, hours and a time zone: `Sat,Sun 02:00-05:00 Europe/Amsterdam`";
            checker.error(place, "bad-window", message, error.label(), Some(help.to_owned()));
            None
        }
    }
}

/// Names of processes.
pub(crate) struct Names;

impl Rule for Names {
    type File = Vec<Spanned<String>>;
    type Value = Vec<String>;

    fn read(
        checker: &mut Checker<'_>,
        _: &str,
        list: Spanned<Self::File>,
    ) -> Option<Leaf<Self::Value>> {
        let place = checker.place(list.span);
        let mut names = Vec::new();
        for name in list.value {
            if name.value.trim().is_empty() || name.value.contains('/') {
                let message = format!("`{}` is not the name of a process", name.value);
                let help = "write what `ps -o comm` shows: `mmfsd`, no path and no arguments";
                let label = "expected a name";
                let place = checker.place(name.span);
                checker.error(place, "bad-process-name", message, label, Some(help.to_owned()));
            } else {
                names.push(name.value);
            }
        }
        Some(Leaf::bare(names, place))
    }

    fn to_toml(value: &Self::Value) -> impl Serialize {
        value
    }
}

/// Program and arguments. The daemon has no working directory and no shell: the program is named in full.
pub(crate) struct Program;

impl Rule for Program {
    type File = Vec<Spanned<String>>;
    type Value = Vec<String>;

    fn read(
        checker: &mut Checker<'_>,
        _: &str,
        list: Spanned<Self::File>,
    ) -> Option<Leaf<Self::Value>> {
        let place = checker.place(list.span);
        let words: Vec<String> = list.value.into_iter().map(|word| word.value).collect();
        if let Some(first) = words.first().filter(|first| !first.starts_with('/')) {
            let message = format!("`{first}` is not the full path of a program");
            let help =
                "write program and arguments as a list: [\"/usr/local/sbin/check\", \"--quick\"]";
            let label = "expected a path from `/`";
            checker.error(place, "bad-command", message, label, Some(help.to_owned()));
            return None;
        }
        Some(Leaf::bare(words, place))
    }

    fn to_toml(value: &Self::Value) -> impl Serialize {
        value
    }
}

const LINTS: &[SectionLint<RebootLayer, Reboot>] = &[
    Lint {
        id: "no-window-yet",
        severity: Severity::Warning,
        find: no_window_yet,
        reason: "never opens: whatever waits for a boot, bedplate does not reboot this host by itself",
        source: "bedplate profile explain reboot.windows",
        remedy: "write when it may be rebooted, such as `windows = [\"Sat,Sun 02:00-05:00 Europe/Amsterdam\"]`, or \
                 `policy = \"never\"` to leave it to people",
    },
    Lint {
        id: "windows-unused",
        severity: Severity::Warning,
        find: windows_unused,
        reason: "is not used: only `policy = \"schedule\"` reboots by itself",
        source: "bedplate profile explain reboot.policy",
        remedy: "drop the windows, or set `policy` to `schedule`",
    },
];

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
fn is_open(windows: &[String]) -> bool {
    !windows.is_empty() && windows.iter().all(|window| window == NEVER)
}

/// A reboot is asked for, and when is left open.
fn no_window_yet(section: &RebootLayer, model: &Reboot) -> Vec<LintMatch> {
    let asked = model.policy == RebootPolicy::Schedule;
    let windows = section.windows.as_ref().filter(|leaf| asked && is_open(&leaf.value));
    windows.map(|leaf| LintMatch::new(leaf.place, "windows = [\"never\"]")).into_iter().collect()
}

fn windows_unused(section: &RebootLayer, model: &Reboot) -> Vec<LintMatch> {
    let unused = model.policy != RebootPolicy::Schedule;
    let windows = section.windows.as_ref().filter(|leaf| unused && !leaf.value.is_empty());
    windows.map(|leaf| LintMatch::new(leaf.place, "windows")).into_iter().collect()
}
