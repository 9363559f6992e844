//! Published state of the reboot: one value for the status, the metrics, the journal and the commands. It follows from the
//! persisted [`Record`](bedplate_core::reboot_record::Record) and the facts of a moment; [`step`](super::step) decides it.
//! docs/reboot.md is generated from the tables here.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::state::NOT_OBSERVED;
use bedplate_base::format_utc;

/// State of the reboot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum RebootState {
    /// It is unknown whether a reboot is due.
    Unknown {
        /// The reason.
        why: String,
    },
    /// No change is pending.
    Idle,
    /// A reboot is due; the policy `never` leaves it to an operator.
    Manual,
    /// A reboot is due; the policy leaves it to an external tool that reads /run/reboot-required.
    External,
    /// Reboots did not bring the change into effect; no further attempt.
    AttemptsExhausted {
        /// The reason.
        why: String,
    },
    /// Scheduled in this boot and cancelled; scheduled again only on an operator's request.
    Cancelled {
        /// Further obstacles.
        why: Vec<Veto>,
    },
    /// Changes for the boot must still be written.
    WaitingForChanges,
    /// An obstacle prevents the reboot.
    Waiting {
        /// The obstacles; never empty.
        why: Vec<Veto>,
        /// When the next window opens, if a closed window is an obstacle.
        until: Option<Timestamp>,
        /// Whether it deserves an alert: an inhibitor exceeds its allowed time.
        overdue: bool,
    },
    /// A slot of the lock server is being requested.
    TakingLock,
    /// logind is being asked to schedule the reboot.
    Scheduling {
        /// Due time.
        at: Timestamp,
    },
    /// Scheduled; `bedplate reboot cancel` can still cancel it.
    Scheduled {
        /// Due time.
        at: Timestamp,
    },
    /// Due: the machine is going down.
    UnderWay {
        /// Due time.
        at: Timestamp,
    },
    /// bedplate cancels its own scheduled reboot.
    Cancelling {
        /// The reasons.
        why: Vec<String>,
    },
}

/// An obstacle to the reboot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Veto {
    /// Condition that removes the obstacle.
    pub waits_for: WaitsFor,
    /// Human-readable reason.
    pub text: String,
}

bedplate_base::named! {
    /// Condition that a reboot waits for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub enum WaitsFor {
        /// An open window of the profile that is long enough for the delay.
        Window = "window",
        /// A slot of the lock server.
        Lock = "lock",
        /// The end of a block inhibitor.
        Inhibitor = "inhibitor",
        /// The end of an operator's hold on reboots.
        Hold = "hold",
        /// The end of an operator's pause of enforcement.
        Pause = "pause",
        /// The end of a shutdown that bedplate did not schedule.
        OtherShutdown = "other-shutdown",
        /// The end of processes that have a GPU or an RDMA device open.
        Devices = "devices",
        /// Success of the profile's `busy_command`.
        BusyCommand = "busy-command",
        /// No loaded kexec kernel.
        Kexec = "kexec",
        /// The power cycle by the profile's command.
        PowerCommand = "power-command",
        /// A reboot method that works on this host.
        Method = "method",
        /// systemd-logind, or the system bus.
        Logind = "logind",
        /// A record of reboots that can be read and written.
        Record = "record",
        /// The end of `dry_run`.
        DryRun = "dry-run",
        /// A next boot entry that was read and found sound.
        BootEntry = "boot-entry",
    }
}

impl WaitsFor {
    /// Returns the condition that ends the wait.
    pub fn meaning(self) -> &'static str {
        match self {
            WaitsFor::Window => "an open window that is long enough for the delay",
            WaitsFor::Lock => "a slot of the lock server",
            WaitsFor::Inhibitor => "the end of a block inhibitor",
            WaitsFor::Hold => "the end of an operator's hold on reboots",
            WaitsFor::Pause => "the end of an operator's pause of enforcement",
            WaitsFor::OtherShutdown => "the end of a shutdown that bedplate did not schedule",
            WaitsFor::Devices => "the end of processes that use a GPU or RDMA device",
            WaitsFor::BusyCommand => "a `busy_command` that succeeds",
            WaitsFor::Kexec => "no kernel loaded for kexec",
            WaitsFor::PowerCommand => "the power cycle by the profile's command",
            WaitsFor::Method => "a method that works, after an earlier one is disarmed",
            WaitsFor::Logind => "an answer of systemd-logind",
            WaitsFor::Record => "a readable and writable record",
            WaitsFor::DryRun => "the end of `dry_run`",
            WaitsFor::BootEntry => "a next boot entry that was read and found sound",
        }
    }
}

impl Veto {
    /// Creates a veto with a human-readable reason.
    pub fn new(waits_for: WaitsFor, text: impl Into<String>) -> Self {
        Veto { waits_for, text: text.into() }
    }
}

impl fmt::Display for Veto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Joins reasons into one line.
pub(crate) fn joined(why: &[Veto]) -> String {
    why.iter().map(|reason| reason.text.as_str()).collect::<Vec<_>>().join("; ")
}

/// States without a request to lock server or logind: any of them may follow any other.
const AT_REST: [&str; 8] = [
    "unknown",
    "idle",
    "manual",
    "external",
    "attempts-exhausted",
    "cancelled",
    "waiting-for-changes",
    "waiting",
];

/// Allowed transitions, except staying in a state. A table instead of a rule: a transition that is not listed must not happen.
pub(crate) const TRANSITIONS: [(&[&str], &[&str]); 9] = [
    (&AT_REST, &AT_REST),
    // A new daemon finds the reboot that an earlier one has scheduled.
    (&["unknown"], &["scheduled", "under-way", "cancelling"]),
    (&AT_REST, &["taking-lock", "scheduling"]),
    // At rest if the server refuses, or an obstacle has appeared.
    (&["taking-lock"], &["scheduling"]),
    (&["taking-lock"], &AT_REST),
    // logind may refuse, too.
    (&["scheduling"], &["scheduled", "waiting"]),
    // At rest after a cancellation through logind or by `bedplate reboot cancel`, or after a dry run.
    (&["scheduled", "under-way", "cancelling"], &AT_REST),
    (&["scheduled"], &["under-way", "cancelling"]),
    // Another shutdown was aborted before the reboot's own time.
    (&["under-way"], &["scheduled", "cancelling"]),
];

/// Name and meaning of every state, in order.
pub(crate) const STATES: [(&str, &str); 13] = [
    (
        "unknown",
        "unknown whether a reboot is due: not observed yet, no profile, an error, or being decided",
    ),
    ("idle", "no change needs a reboot"),
    ("manual", "due; policy `never` leaves it to an operator"),
    ("external", "due; policy `mark` leaves it to an external tool"),
    ("attempts-exhausted", "reboots did not bring the change into effect; no further attempt"),
    (
        "cancelled",
        "cancelled in this boot, or did not happen; scheduled again only on an operator's request",
    ),
    ("waiting-for-changes", "changes for the boot must still be written"),
    ("waiting", "due but blocked: `why` lists each obstacle with `waits_for` and a `text`"),
    ("taking-lock", "the lock server is asked for a slot; takes seconds"),
    ("scheduling", "the method is armed and logind is asked; takes seconds"),
    ("scheduled", "scheduled with logind; `bedplate reboot cancel` cancels it"),
    ("under-way", "due, or another reboot started first: the machine is going down"),
    ("cancelling", "being cancelled at logind, or being disarmed; takes seconds"),
];

/// Returns the names of all states in order, for metrics.
pub(crate) fn names() -> [&'static str; 13] {
    STATES.map(|(name, _)| name)
}

/// Whether the state `next` may follow `now`.
pub(crate) fn may_follow(now: &str, next: &str) -> bool {
    let allows = |(from, to): &(&[&str], &[&str])| from.contains(&now) && to.contains(&next);
    now == next || TRANSITIONS.iter().any(allows)
}

impl Default for RebootState {
    /// Returns the state before the first observation.
    fn default() -> Self {
        RebootState::Unknown { why: NOT_OBSERVED.into() }
    }
}

impl RebootState {
    /// Creates a waiting state with one obstacle.
    pub fn waiting(waits_for: WaitsFor, text: impl Into<String>) -> Self {
        let why = vec![Veto::new(waits_for, text)];
        RebootState::Waiting { why, until: None, overdue: false }
    }

    /// Returns the name used in JSON and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            RebootState::Unknown { .. } => "unknown",
            RebootState::Idle => "idle",
            RebootState::Manual => "manual",
            RebootState::External => "external",
            RebootState::AttemptsExhausted { .. } => "attempts-exhausted",
            RebootState::Cancelled { .. } => "cancelled",
            RebootState::WaitingForChanges => "waiting-for-changes",
            RebootState::Waiting { .. } => "waiting",
            RebootState::TakingLock => "taking-lock",
            RebootState::Scheduling { .. } => "scheduling",
            RebootState::Scheduled { .. } => "scheduled",
            RebootState::UnderWay { .. } => "under-way",
            RebootState::Cancelling { .. } => "cancelling",
        }
    }

    /// Whether logind has a reboot of bedplate, or is about to: the host will restart.
    pub fn is_coming(&self) -> bool {
        matches!(
            self,
            RebootState::Scheduling { .. }
                | RebootState::Scheduled { .. }
                | RebootState::UnderWay { .. }
        )
    }
}

/// Text for a cancelled reboot.
pub const CANCELLED: &str =
    "the scheduled reboot was cancelled; `bedplate reboot schedule` requests it again";
/// Text while a boot would apply only a part of the changes.
pub(crate) const UNFINISHED: &str = "not all changes for this boot are written yet";

impl fmt::Display for RebootState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RebootState::Unknown { why } => write!(f, "unknown: {why}"),
            RebootState::Idle => f.write_str("no reboot needed"),
            RebootState::Manual => f.write_str(
                "manual (policy `never`): run `bedplate reboot schedule` to reboot this host",
            ),
            RebootState::External => f.write_str(
                "external (policy `mark`): left to a tool that reads /run/reboot-required",
            ),
            RebootState::AttemptsExhausted { why } => write!(f, "attempts exhausted: {why}"),
            RebootState::Cancelled { why } if why.is_empty() => f.write_str(CANCELLED),
            RebootState::Cancelled { why } => write!(f, "{CANCELLED}; also {}", joined(why)),
            RebootState::WaitingForChanges => write!(f, "waiting: {UNFINISHED}"),
            RebootState::Waiting { why, until: Some(until), .. } => {
                write!(f, "waiting until {}: {}", format_utc(*until), joined(why))
            }
            RebootState::Waiting { why, until: None, .. } => write!(f, "waiting: {}", joined(why)),
            RebootState::TakingLock => f.write_str("requesting a slot from the lock server"),
            RebootState::Scheduling { at } | RebootState::Scheduled { at } => {
                write!(f, "scheduled for {}", format_utc(*at))
            }
            RebootState::UnderWay { at } => write!(f, "going down since {}", format_utc(*at)),
            RebootState::Cancelling { why } => write!(f, "cancelling: {}", why.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names match the JSON, and each is in the table.
    #[test]
    fn state_names_match_the_json() {
        let at = Timestamp::UNIX_EPOCH;
        let text = || "w".to_owned();
        let all = [
            RebootState::Unknown { why: text() },
            RebootState::Idle,
            RebootState::Manual,
            RebootState::External,
            RebootState::AttemptsExhausted { why: text() },
            RebootState::Cancelled { why: Vec::new() },
            RebootState::WaitingForChanges,
            RebootState::waiting(WaitsFor::Lock, "w"),
            RebootState::TakingLock,
            RebootState::Scheduling { at },
            RebootState::Scheduled { at },
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
    fn forbidden_transitions_are_rejected() {
        for (now, next) in [
            ("scheduled", "scheduling"),
            ("scheduled", "taking-lock"),
            ("under-way", "scheduling"),
            ("idle", "scheduled"),
            ("attempts-exhausted", "under-way"),
            ("waiting", "cancelling"),
            ("scheduling", "under-way"),
        ] {
            assert!(!may_follow(now, next), "{now} → {next}");
        }
        for name in names() {
            assert!(names().iter().any(|now| *now != name && may_follow(now, name)), "→ {name}");
            assert!(names().iter().any(|next| *next != name && may_follow(name, next)), "{name} →");
        }
    }
}
