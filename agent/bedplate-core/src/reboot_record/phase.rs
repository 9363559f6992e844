//! Phases of the arranged reboot: the persisted state, with each state's data in its variant. It is stored before the
//! action that it describes, so that after a crash the next daemon knows of possible effects. The daemon's
//! `reboot::step` makes every transition.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::RebootRequest;
use super::preparation::{Next, Preparation};
use crate::profile::model::RebootMethod;

/// Time after the due time within which a reboot may still be in progress: services may take 90 seconds each to stop,
/// some longer. Later it is in progress only while logind or PID 1 reports it.
pub const GOING_DOWN_US: i64 = 15 * 60 * 1_000_000;

bedplate_base::named! {
    /// Type of shutdown requested from logind (man org.freedesktop.login1, `ScheduleShutdown`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub enum Shutdown {
        /// Reboot.
        Reboot = "reboot",
        /// Power-off: the clock's alarm wakes the machine.
        Poweroff = "poweroff",
        /// Announcement of a reboot without any action at its time.
        DryReboot = "dry-reboot",
    }
}

impl Shutdown {
    /// Returns the type for an armed method; `None`: a dry run, for which nothing is armed. An operator's command runs
    /// at the due time; until then logind announces the reboot.
    pub fn for_preparation(prepared: Option<&Preparation>) -> Self {
        match prepared.map(|prepared| prepared.next) {
            Some(Next::LogindReboot) => Shutdown::Reboot,
            Some(Next::LogindPoweroff) => Shutdown::Poweroff,
            Some(Next::RunCommand) | None => Shutdown::DryReboot,
        }
    }
}

/// One reboot, from its arrangement to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrangedReboot {
    /// Boot that it ends.
    pub boot_id: String,
    /// Type requested from logind.
    pub kind: Shutdown,
    /// Due time in microseconds since 1970, as passed to logind.
    pub usec: u64,
    /// Hash of the pending changes.
    pub plan: String,
    /// Method of the reboot.
    pub method: RebootMethod,
    /// Identity of the operator's request; `None`: requested by the profile's policy.
    pub request: Option<Timestamp>,
    /// Start time of the userspace in which it was scheduled, from PID 1; `None`: unknown.
    pub userspace: Option<u64>,
    /// Preparation of the method with its undo steps; `None`: not armed.
    pub prepared: Option<Preparation>,
}

impl ArrangedReboot {
    /// Returns the due time.
    pub fn at(&self) -> Timestamp {
        time(self.usec)
    }

    /// Whether this is the shutdown that logind has scheduled.
    pub fn is(&self, kind: &str, usec: u64) -> bool {
        self.kind.name() == kind && self.usec == usec
    }

    /// Returns the microseconds since the due time.
    pub fn late(&self, now: Timestamp) -> i64 {
        let signed = |usec: u64| i64::try_from(usec).unwrap_or(i64::MAX);
        signed(usec(now)).saturating_sub(signed(self.usec))
    }

    /// Whether the operator's command runs at the due time.
    pub fn runs_command(&self) -> bool {
        self.prepared.as_ref().is_some_and(|prepared| prepared.next == Next::RunCommand)
    }

    /// Whether logind only announces it.
    pub fn is_dry(&self) -> bool {
        self.kind == Shutdown::DryReboot
    }

    /// Whether a cancellation must undo steps.
    pub fn is_armed(&self) -> bool {
        self.prepared.as_ref().is_some_and(|prepared| !prepared.undo.is_empty())
    }
}

/// End of a reboot that did not happen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ending", rename_all = "kebab-case")]
pub enum Ending {
    /// Cancelled by bedplate: it may be scheduled again.
    #[serde(rename = "taken-back")]
    CancelledByAgent {
        /// Reason.
        why: String,
    },
    /// Cancelled by an operator or another program: scheduled again in this boot only on an operator's request.
    #[serde(rename = "called-off")]
    Cancelled {
        /// Party that cancelled it, and time.
        by: String,
    },
    /// Its time passed without a shutdown: scheduled again in this boot only on an operator's request.
    DidNotCome,
}

/// Phase of the arranged reboot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "kebab-case")]
pub enum Phase {
    /// No reboot is arranged.
    #[default]
    Rest,
    /// The method is being armed: any part of it may be done.
    Arming {
        /// The reboot.
        arranged: ArrangedReboot,
    },
    /// The request to logind is in progress: logind may have it.
    Scheduling {
        /// The reboot.
        arranged: ArrangedReboot,
    },
    /// logind has scheduled it.
    Scheduled {
        /// The reboot.
        arranged: ArrangedReboot,
    },
    /// The operator's command was started.
    CommandRun {
        /// The reboot.
        arranged: ArrangedReboot,
        /// Operator's request for it.
        asked: Option<RebootRequest>,
    },
    /// The machine is shutting down.
    GoingDown {
        /// The reboot.
        arranged: ArrangedReboot,
    },
    /// The cancellation at logind is in progress: logind may still have it.
    Cancelling {
        /// The reboot.
        arranged: ArrangedReboot,
        /// Reason for its end.
        ending: Ending,
    },
    /// logind does not have it; the method may still be armed.
    Disarming {
        /// The reboot.
        arranged: ArrangedReboot,
        /// Reason for its end.
        ending: Ending,
    },
    /// It did not happen, and nothing of it is left.
    Ended {
        /// Boot in which it ended.
        boot_id: String,
        /// Reason for its end.
        ending: Ending,
    },
}

impl Phase {
    /// Returns the arranged reboot.
    pub fn arranged(&self) -> Option<&ArrangedReboot> {
        match self {
            Phase::Rest | Phase::Ended { .. } => None,
            Phase::Arming { arranged }
            | Phase::Scheduling { arranged }
            | Phase::Scheduled { arranged }
            | Phase::CommandRun { arranged, .. }
            | Phase::GoingDown { arranged }
            | Phase::Cancelling { arranged, .. }
            | Phase::Disarming { arranged, .. } => Some(arranged),
        }
    }

    /// Whether a reboot is arranged that has not ended.
    pub fn is_open(&self) -> bool {
        !matches!(self, Phase::Rest | Phase::Ended { .. })
    }

    /// Returns the boot of the phase; `None`: any boot.
    pub fn boot_id(&self) -> Option<&str> {
        match self {
            Phase::Ended { boot_id, .. } => Some(boot_id),
            _ => self.arranged().map(|arranged| arranged.boot_id.as_str()),
        }
    }

    /// Returns the end of the last reboot that did not happen.
    pub fn ending(&self) -> Option<&Ending> {
        match self {
            Phase::Cancelling { ending, .. }
            | Phase::Disarming { ending, .. }
            | Phase::Ended { ending, .. } => Some(ending),
            _ => None,
        }
    }

    /// Returns the reboot that logind has, or may have.
    pub fn at_logind(&self) -> Option<&ArrangedReboot> {
        match self {
            Phase::Scheduling { arranged }
            | Phase::Scheduled { arranged }
            | Phase::GoingDown { arranged }
            | Phase::Cancelling { arranged, .. } => Some(arranged),
            _ => None,
        }
    }

    /// Whether another reboot in this boot needs an operator's request.
    pub fn needs_operator(&self) -> bool {
        let ended = !matches!(self.ending(), None | Some(Ending::CancelledByAgent { .. }));
        ended || matches!(self, Phase::CommandRun { .. })
    }
}

/// Converts to microseconds since 1970, as used by logind.
pub fn usec(at: Timestamp) -> u64 {
    u64::try_from(at.as_microsecond()).unwrap_or_default()
}

/// Converts back: the inverse of [`usec`].
pub fn time(usec: u64) -> Timestamp {
    i64::try_from(usec)
        .ok()
        .and_then(|usec| Timestamp::from_microsecond(usec).ok())
        .unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shutdown_types_have_logind_names() {
        for kind in [Shutdown::Reboot, Shutdown::Poweroff, Shutdown::DryReboot] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }

    #[test]
    fn microseconds_convert_back() {
        let at: Timestamp = "2026-03-03T03:00:00.123456Z".parse().unwrap();
        assert_eq!(time(usec(at)), at);
        assert_eq!(time(u64::MAX), Timestamp::MAX);
    }
}
