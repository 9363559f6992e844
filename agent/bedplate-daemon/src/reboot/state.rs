//! The state of the reboot as it is shown: one value for the status, the metrics, the journal and the commands. It follows from
//! the persisted [`Record`](bedplate_core::reboot_record::Record) and the facts of a moment; [`step`](super::step) decides it. docs/reboot.md
//! is generated from the tables here.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::state::NOT_OBSERVED;
use bedplate_base::format_utc;

/// Where the reboot stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum RebootState {
    /// Whether a reboot is due is not known.
    Unknown {
        /// Why, in words.
        why: String,
    },
    /// Nothing waits for a boot.
    Idle,
    /// A reboot is due, and the policy leaves it to people.
    LeftToPeople,
    /// A reboot is due, and the policy leaves it to what reads /run/reboot-required.
    LeftToOthers,
    /// The boots that were given did not help: no more of them.
    Stuck {
        /// In words.
        why: String,
    },
    /// Announced in this boot and cancelled; announced again only when an operator asks.
    #[serde(rename = "called-off")]
    Cancelled {
        /// What else is in the way.
        why: Vec<Veto>,
    },
    /// Changes that the boot is for are still to be written.
    Converging,
    /// Something is in the way.
    Waiting {
        /// What; never empty.
        why: Vec<Veto>,
        /// When the next window opens, if it is that.
        until: Option<Timestamp>,
        /// Whether it is worth an alarm: an inhibitor has been there for longer than allowed.
        overdue: bool,
    },
    /// A slot of the lock server is asked for.
    TakingLock,
    /// logind is asked for a reboot at this time.
    Announcing {
        /// When.
        at: Timestamp,
    },
    /// It is announced; `bedplate reboot cancel` still takes it back.
    Announced {
        /// For when.
        at: Timestamp,
    },
    /// Its time has come: the machine is going down.
    UnderWay {
        /// Since when.
        at: Timestamp,
    },
    /// bedplate cancels its own announcement.
    #[serde(rename = "calling-off")]
    Cancelling {
        /// Why, in words.
        why: Vec<String>,
    },
}

/// One thing that is in the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Veto {
    /// What kind of thing.
    pub waits_for: WaitsFor,
    /// In words.
    pub text: String,
}

bedplate_base::named! {
    /// What a reboot waits for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub enum WaitsFor {
        /// A window of the profile, or room in it for the delay.
        Window = "window",
        /// A slot of the lock server.
        Lock = "lock",
        /// The end of a block inhibitor.
        Inhibitor = "inhibitor",
        /// The end of an operator's hold on reboots.
        Hold = "hold",
        /// The end of an operator's hold on enforcement.
        EnforceHold = "enforce-hold",
        /// The end of a shutdown that bedplate did not schedule.
        OtherShutdown = "other-shutdown",
        /// Processes that have a GPU or an RDMA device open.
        Devices = "devices",
        /// The profile's `busy_command`.
        BusyCommand = "busy-command",
        /// A kexec kernel that is loaded.
        Kexec = "kexec",
        /// The power, which the profile's command is about to cycle.
        PowerCommand = "power-command",
        /// A reboot method that works on this host.
        Method = "method",
        /// systemd-logind, or the system bus.
        Logind = "logind",
        /// A record of reboots that can be read and written.
        Record = "record",
        /// The end of `rehearse`.
        Rehearsal = "rehearsal",
        /// A next boot entry that was read and found sound.
        BootEntry = "boot-entry",
    }
}

impl WaitsFor {
    /// The condition that ends the wait.
    pub fn meaning(self) -> &'static str {
        match self {
            WaitsFor::Window => "an open window with room for the delay",
            WaitsFor::Lock => "a slot of the lock server",
            WaitsFor::Inhibitor => "the end of a block inhibitor",
            WaitsFor::Hold => "the end of an operator's hold on reboots",
            WaitsFor::EnforceHold => "the end of an operator's hold on enforcement",
            WaitsFor::OtherShutdown => "the end of a shutdown that bedplate did not schedule",
            WaitsFor::Devices => "the end of processes that use a GPU or RDMA device",
            WaitsFor::BusyCommand => "a `busy_command` that succeeds",
            WaitsFor::Kexec => "no kernel loaded for kexec",
            WaitsFor::PowerCommand => "the power, which the profile's command is about to cycle",
            WaitsFor::Method => "a method that works, and the end of what an earlier one has armed",
            WaitsFor::Logind => "an answer of systemd-logind",
            WaitsFor::Record => "a record that can be read and written",
            WaitsFor::Rehearsal => "the end of `rehearse`",
            WaitsFor::BootEntry => "a next boot entry that was read and found sound",
        }
    }
}

impl Veto {
    /// In words, what it is.
    pub fn new(waits_for: WaitsFor, text: impl Into<String>) -> Self {
        Veto { waits_for, text: text.into() }
    }
}

impl fmt::Display for Veto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Reasons in one line.
pub(crate) fn joined(why: &[Veto]) -> String {
    why.iter().map(|reason| reason.text.as_str()).collect::<Vec<_>>().join("; ")
}

/// States in which bedplate has asked neither a lock server nor logind for anything: any of them may follow any other.
const AT_REST: [&str; 8] = [
    "unknown",
    "idle",
    "left-to-people",
    "left-to-others",
    "stuck",
    "called-off",
    "converging",
    "waiting",
];

/// Which states may follow which, besides staying. A table and not a rule: what is missing here must not happen.
pub(crate) const TRANSITIONS: [(&[&str], &[&str]); 9] = [
    (&AT_REST, &AT_REST),
    // A daemon that starts finds what an earlier one has announced.
    (&["unknown"], &["announced", "under-way", "calling-off"]),
    (&AT_REST, &["taking-lock", "announcing"]),
    // At rest where the server refuses, or something has come in the way meanwhile.
    (&["taking-lock"], &["announcing"]),
    (&["taking-lock"], &AT_REST),
    // logind may refuse, too.
    (&["announcing"], &["announced", "waiting"]),
    // At rest: called off through logind, by `bedplate reboot cancel`, or rehearsed.
    (&["announced", "under-way", "calling-off"], &AT_REST),
    (&["announced"], &["under-way", "calling-off"]),
    // Another shutdown has come to nothing before the reboot's own time.
    (&["under-way"], &["announced", "calling-off"]),
];

/// Every state by name, in order, and its meaning.
pub(crate) const STATES: [(&str, &str); 13] = [
    (
        "unknown",
        "not observed yet, no profile, an error, or being decided: whether a reboot is due is not known",
    ),
    ("idle", "nothing waits for a boot"),
    ("left-to-people", "due, and the policy is `never`"),
    ("left-to-others", "due, and the policy is `mark`"),
    ("stuck", "the boots that were given did not help: no more of them"),
    (
        "called-off",
        "called off in this boot, or it did not come: announced again only when an operator asks",
    ),
    ("converging", "changes that the boot is for are still to be written"),
    (
        "waiting",
        "due, and something forbids it: `why` lists each thing with `waits_for` and a `text`",
    ),
    ("taking-lock", "the lock server is asked for a slot; over in seconds"),
    ("announcing", "the method is armed and logind is asked; over in seconds"),
    ("announced", "logind has it; `bedplate reboot cancel` cancels it"),
    ("under-way", "its time has come, or another reboot has come first: the machine goes down"),
    ("calling-off", "logind is asked to forget it, or what was armed is undone; over in seconds"),
];

/// Every state by name, in order: what metrics count.
pub(crate) fn names() -> [&'static str; 13] {
    STATES.map(|(name, _)| name)
}

/// Whether the state `next` may follow `now`.
pub(crate) fn may_follow(now: &str, next: &str) -> bool {
    let allows = |(from, to): &(&[&str], &[&str])| from.contains(&now) && to.contains(&next);
    now == next || TRANSITIONS.iter().any(allows)
}

impl Default for RebootState {
    /// Before the first observation.
    fn default() -> Self {
        RebootState::Unknown { why: NOT_OBSERVED.into() }
    }
}

impl RebootState {
    /// Waits for one thing.
    pub fn waiting(waits_for: WaitsFor, text: impl Into<String>) -> Self {
        let why = vec![Veto::new(waits_for, text)];
        RebootState::Waiting { why, until: None, overdue: false }
    }

    /// As it is written.
    pub fn name(&self) -> &'static str {
        match self {
            RebootState::Unknown { .. } => "unknown",
            RebootState::Idle => "idle",
            RebootState::LeftToPeople => "left-to-people",
            RebootState::LeftToOthers => "left-to-others",
            RebootState::Stuck { .. } => "stuck",
            RebootState::Cancelled { .. } => "called-off",
            RebootState::Converging => "converging",
            RebootState::Waiting { .. } => "waiting",
            RebootState::TakingLock => "taking-lock",
            RebootState::Announcing { .. } => "announcing",
            RebootState::Announced { .. } => "announced",
            RebootState::UnderWay { .. } => "under-way",
            RebootState::Cancelling { .. } => "calling-off",
        }
    }

    /// Whether logind has a reboot of bedplate's, or is about to: the host is going to restart.
    pub fn is_coming(&self) -> bool {
        matches!(
            self,
            RebootState::Announcing { .. }
                | RebootState::Announced { .. }
                | RebootState::UnderWay { .. }
        )
    }
}

/// Text for an announcement that was cancelled.
pub const CANCELLED: &str =
    "the announced reboot was called off; `bedplate reboot schedule` asks for it again";
/// What is said while the boot would bring only a part.
pub(crate) const UNFINISHED: &str = "not all changes that need this boot are written yet";

impl fmt::Display for RebootState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RebootState::Unknown { why } => write!(f, "cannot tell yet: {why}"),
            RebootState::Idle => f.write_str("no reboot is needed"),
            RebootState::LeftToPeople => f.write_str(
                "left to an operator (policy `never`): `bedplate reboot schedule` reboots this host",
            ),
            RebootState::LeftToOthers => f.write_str(
                "left to what reads /run/reboot-required: the profile's policy is `mark`",
            ),
            RebootState::Stuck { why } => write!(f, "stuck: {why}"),
            RebootState::Cancelled { why } if why.is_empty() => f.write_str(CANCELLED),
            RebootState::Cancelled { why } => write!(f, "{CANCELLED}; also {}", joined(why)),
            RebootState::Converging => write!(f, "waits: {UNFINISHED}"),
            RebootState::Waiting { why, until: Some(until), .. } => {
                write!(f, "waits until {}: {}", format_utc(*until), joined(why))
            }
            RebootState::Waiting { why, until: None, .. } => write!(f, "waits: {}", joined(why)),
            RebootState::TakingLock => f.write_str("asks the lock server for a slot"),
            RebootState::Announcing { at } | RebootState::Announced { at } => {
                write!(f, "announced for {}", format_utc(*at))
            }
            RebootState::UnderWay { at } => write!(f, "going down since {}", format_utc(*at)),
            RebootState::Cancelling { why } => write!(f, "taken back: {}", why.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names are what JSON says, and each has its place in the table.
    #[test]
    fn names_are_those_of_the_json() {
        let at = Timestamp::UNIX_EPOCH;
        let text = || "w".to_owned();
        let all = [
            RebootState::Unknown { why: text() },
            RebootState::Idle,
            RebootState::LeftToPeople,
            RebootState::LeftToOthers,
            RebootState::Stuck { why: text() },
            RebootState::Cancelled { why: Vec::new() },
            RebootState::Converging,
            RebootState::waiting(WaitsFor::Lock, "w"),
            RebootState::TakingLock,
            RebootState::Announcing { at },
            RebootState::Announced { at },
            RebootState::UnderWay { at },
            RebootState::Cancelling { why: vec![text()] },
        ];
        assert_eq!(all.each_ref().map(RebootState::name), names());
        for state in all {
            let json = serde_json::to_value(&state).unwrap();
            assert_eq!(json["state"], state.name());
            assert_eq!(serde_json::from_value::<RebootState>(json).unwrap(), state);
        }
    }

    #[test]
    fn what_must_not_follow_does_not() {
        for (now, next) in [
            ("announced", "announcing"),
            ("announced", "taking-lock"),
            ("under-way", "announcing"),
            ("idle", "announced"),
            ("stuck", "under-way"),
            ("waiting", "calling-off"),
            ("announcing", "under-way"),
        ] {
            assert!(!may_follow(now, next), "{now} → {next}");
        }
        for name in names() {
            assert!(names().iter().any(|now| *now != name && may_follow(now, name)), "→ {name}");
            assert!(names().iter().any(|next| *next != name && may_follow(name, next)), "{name} →");
        }
    }
}
