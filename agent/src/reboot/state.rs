//! The state of the reboot: one value, which the status, the metrics, the journal and the commands show, and the steps
//! between its states. [`decide`](super::decide) says which state follows from the facts of a moment; nobody else does.
//!
//! ```text
//!            ┌───────────────── at rest: any of these may follow any other ─────────────────┐
//!            │ unknown   idle   left-to-people   left-to-others   converging   waiting       │
//!            │ called-off   stuck                                                            │
//!            └──┬────────────────────────────────────────────────────────────────▲──────────┘
//!   nothing in  │                                                                │ refused, or taken back
//!   the way     ▼                                                                │
//!          taking-lock ──────► announcing ──────► announced ───────► calling-off ┘
//!          (with a server)                            │ its time comes
//!                                                     ▼
//!                                                 under-way ───────► boot, or at rest when it did not come
//! ```
//!
//! What is kept in files is what a state rests on: the record counts boots and keeps requests and the slot of the lock
//! (`waiting`, `stuck`), /run/bedplate/announced.json what bedplate has announced in this boot and how that ended
//! (`announced`, `under-way`, `called-off`).

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::utc::shown;

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
    /// Announced in this boot and called off; announced again only when an operator asks.
    CalledOff {
        /// What else is in the way.
        why: Vec<Reason>,
    },
    /// Changes that the boot is for are still to be written.
    Converging,
    /// Something is in the way.
    Waiting {
        /// What; never empty.
        why: Vec<Reason>,
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
    /// bedplate takes its own announcement back.
    CallingOff {
        /// Why, in words.
        why: Vec<String>,
    },
}

/// One thing that is in the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// What kind of thing.
    pub waits_for: WaitsFor,
    /// In words.
    pub text: String,
}

/// What a reboot waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitsFor {
    /// A window of the profile, or room in it for the delay.
    Window,
    /// A slot of the lock server.
    Lock,
    /// The end of a block inhibitor.
    Inhibitor,
    /// The end of an operator's hold on reboots.
    Hold,
    /// The end of an operator's hold on enforcement.
    EnforceHold,
    /// The end of a shutdown that bedplate did not schedule.
    OtherShutdown,
    /// Processes that have a GPU or an RDMA device open.
    Devices,
    /// The profile's `busy_command`.
    BusyCommand,
    /// A kexec kernel that is loaded.
    Kexec,
    /// The power, which the profile's command is about to cycle.
    PowerCommand,
    /// A reboot method that works on this host.
    Method,
    /// systemd-logind, or the system bus.
    Logind,
    /// A record of reboots that can be read and written.
    Record,
    /// The end of `rehearse`.
    Rehearsal,
}

impl Reason {
    /// In words, what it is.
    pub fn new(waits_for: WaitsFor, text: impl Into<String>) -> Self {
        Reason { waits_for, text: text.into() }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Reasons in one line.
pub fn joined(why: &[Reason]) -> String {
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
pub const TRANSITIONS: [(&[&str], &[&str]); 8] = [
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
];

/// Every state by name, in order: what metrics count.
pub const NAMES: [&str; 13] = [
    "unknown",
    "idle",
    "left-to-people",
    "left-to-others",
    "stuck",
    "called-off",
    "converging",
    "waiting",
    "taking-lock",
    "announcing",
    "announced",
    "under-way",
    "calling-off",
];

/// Whether the state `next` may follow `now`.
pub fn may_follow(now: &str, next: &str) -> bool {
    let allows = |(from, to): &(&[&str], &[&str])| from.contains(&now) && to.contains(&next);
    now == next || TRANSITIONS.iter().any(allows)
}

impl RebootState {
    /// Waits for one thing.
    pub fn waiting(waits_for: WaitsFor, text: impl Into<String>) -> Self {
        let why = vec![Reason::new(waits_for, text)];
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
            RebootState::CalledOff { .. } => "called-off",
            RebootState::Converging => "converging",
            RebootState::Waiting { .. } => "waiting",
            RebootState::TakingLock => "taking-lock",
            RebootState::Announcing { .. } => "announcing",
            RebootState::Announced { .. } => "announced",
            RebootState::UnderWay { .. } => "under-way",
            RebootState::CallingOff { .. } => "calling-off",
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

/// What is said of an announcement that was called off.
pub const CALLED_OFF: &str =
    "the announced reboot was called off; `bedplate reboot schedule` asks for it again";
/// What is said while the boot would bring only a part.
pub const UNFINISHED: &str = "not all changes that need this boot are written yet";

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
            RebootState::CalledOff { why } if why.is_empty() => f.write_str(CALLED_OFF),
            RebootState::CalledOff { why } => write!(f, "{CALLED_OFF}; also {}", joined(why)),
            RebootState::Converging => write!(f, "waits: {UNFINISHED}"),
            RebootState::Waiting { why, until: Some(until), .. } => {
                write!(f, "waits until {}: {}", shown(*until), joined(why))
            }
            RebootState::Waiting { why, until: None, .. } => write!(f, "waits: {}", joined(why)),
            RebootState::TakingLock => f.write_str("asks the lock server for a slot"),
            RebootState::Announcing { at } | RebootState::Announced { at } => {
                write!(f, "announced for {}", shown(*at))
            }
            RebootState::UnderWay { at } => write!(f, "going down since {}", shown(*at)),
            RebootState::CallingOff { why } => write!(f, "taken back: {}", why.join("; ")),
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
            RebootState::CalledOff { why: Vec::new() },
            RebootState::Converging,
            RebootState::waiting(WaitsFor::Lock, "w"),
            RebootState::TakingLock,
            RebootState::Announcing { at },
            RebootState::Announced { at },
            RebootState::UnderWay { at },
            RebootState::CallingOff { why: vec![text()] },
        ];
        assert_eq!(all.each_ref().map(RebootState::name), NAMES);
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
            ("under-way", "announced"),
            ("under-way", "calling-off"),
            ("idle", "announced"),
            ("stuck", "under-way"),
            ("waiting", "calling-off"),
            ("announcing", "under-way"),
        ] {
            assert!(!may_follow(now, next), "{now} → {next}");
        }
        for name in NAMES {
            assert!(NAMES.iter().any(|now| *now != name && may_follow(now, name)), "→ {name}");
            assert!(NAMES.iter().any(|next| *next != name && may_follow(name, next)), "{name} →");
        }
    }
}
