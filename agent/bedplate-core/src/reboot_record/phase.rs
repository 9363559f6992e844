//! The reboot that bedplate has arranged: the persisted state, with the data of each state in its variant. It is on the disk
//! before the action that it describes is taken, so that after a crash the next daemon finds what may have been done.
//! The daemon's `reboot::step` makes every transition.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::RebootRequest;
use super::preparation::{Next, Preparation};
use crate::profile::model::RebootMethod;

/// Time after its due time within which a reboot may still be on its way: services may take 90 seconds each to stop, some
/// longer. After that it is so only while logind or PID 1 says so.
pub const GOING_DOWN_US: i64 = 15 * 60 * 1_000_000;

bedplate_base::named! {
    /// Kind of shutdown that logind is asked for (man org.freedesktop.login1, `ScheduleShutdown`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub enum Shutdown {
        /// Reboot.
        Reboot = "reboot",
        /// Switch off: the clock's alarm wakes the machine.
        Poweroff = "poweroff",
        /// Announce a reboot, and do nothing when its time has come.
        DryReboot = "dry-reboot",
    }
}

impl Shutdown {
    /// The kind for a method that is armed; `None`: a rehearsal, for which nothing is armed. The operator's command runs when
    /// its time has come; until then logind announces it.
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
    /// The boot that it ends.
    pub boot_id: String,
    /// Kind that logind is asked for.
    pub kind: Shutdown,
    /// Microseconds since 1970, as given to logind.
    pub usec: u64,
    /// Hash of what it is for.
    pub plan: String,
    /// Method.
    pub method: RebootMethod,
    /// Identity of the operator's request that it is for; `None`: the profile's policy asks for it.
    pub request: Option<Timestamp>,
    /// Start of the userspace that it was scheduled in, by PID 1; `None`: not known.
    pub userspace: Option<u64>,
    /// The method's preparation with the steps that undo it; `None`: nothing was prepared.
    pub prepared: Option<Preparation>,
}

impl ArrangedReboot {
    /// Its due time.
    pub fn at(&self) -> Timestamp {
        time(self.usec)
    }

    /// Whether this is what logind has scheduled.
    pub fn is(&self, kind: &str, usec: u64) -> bool {
        self.kind.name() == kind && self.usec == usec
    }

    /// Microseconds since its due time.
    pub fn late(&self, now: Timestamp) -> i64 {
        let signed = |usec: u64| i64::try_from(usec).unwrap_or(i64::MAX);
        signed(usec(now)).saturating_sub(signed(self.usec))
    }

    /// Whether the operator's command runs at its due time.
    pub fn runs_command(&self) -> bool {
        self.prepared.as_ref().is_some_and(|prepared| prepared.next == Next::RunCommand)
    }

    /// Whether logind only announces it.
    pub fn is_dry(&self) -> bool {
        self.kind == Shutdown::DryReboot
    }

    /// Whether something has to be undone if it does not come.
    pub fn is_armed(&self) -> bool {
        self.prepared.as_ref().is_some_and(|prepared| !prepared.undo.is_empty())
    }
}

/// How a reboot ended that did not come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ending", rename_all = "kebab-case")]
pub enum Ending {
    /// By bedplate itself: it may be scheduled again.
    #[serde(rename = "taken-back")]
    CancelledByAgent {
        /// Reason.
        why: String,
    },
    /// By an operator or another program: scheduled again in this boot only if an operator asks.
    #[serde(rename = "called-off")]
    Cancelled {
        /// By whom or what, and when.
        by: String,
    },
    /// Its time has passed, and the machine did not go down: scheduled again in this boot only if an operator asks.
    DidNotCome,
}

/// State of the reboot that bedplate has arranged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "kebab-case")]
pub enum Phase {
    /// Nothing is arranged.
    #[default]
    Rest,
    /// The method is being armed: any part of it may be done.
    Arming {
        /// The reboot.
        arranged: ArrangedReboot,
    },
    /// logind is being asked: it may have it.
    Scheduling {
        /// The reboot.
        arranged: ArrangedReboot,
    },
    /// logind has it.
    Scheduled {
        /// The reboot.
        arranged: ArrangedReboot,
    },
    /// The operator's command was started.
    CommandRun {
        /// The reboot.
        arranged: ArrangedReboot,
        /// The operator's request for it.
        asked: Option<RebootRequest>,
    },
    /// The machine goes down.
    GoingDown {
        /// The reboot.
        arranged: ArrangedReboot,
    },
    /// logind is being asked to forget it: it may still have it.
    Cancelling {
        /// The reboot.
        arranged: ArrangedReboot,
        /// How it ends.
        ending: Ending,
    },
    /// logind does not have it; what was armed may still be.
    Disarming {
        /// The reboot.
        arranged: ArrangedReboot,
        /// How it ended.
        ending: Ending,
    },
    /// It did not come, and nothing of it is left.
    Ended {
        /// The boot in which that was.
        boot_id: String,
        /// How it ended.
        ending: Ending,
    },
}

impl Phase {
    /// The arranged reboot.
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

    /// Whether something is arranged that has not ended.
    pub fn is_open(&self) -> bool {
        !matches!(self, Phase::Rest | Phase::Ended { .. })
    }

    /// The boot that it is about; `None`: any.
    pub fn boot_id(&self) -> Option<&str> {
        match self {
            Phase::Ended { boot_id, .. } => Some(boot_id),
            _ => self.arranged().map(|arranged| arranged.boot_id.as_str()),
        }
    }

    /// How the last reboot ended that did not come.
    pub fn ending(&self) -> Option<&Ending> {
        match self {
            Phase::Cancelling { ending, .. }
            | Phase::Disarming { ending, .. }
            | Phase::Ended { ending, .. } => Some(ending),
            _ => None,
        }
    }

    /// The reboot that logind has, or may have.
    pub fn at_logind(&self) -> Option<&ArrangedReboot> {
        match self {
            Phase::Scheduling { arranged }
            | Phase::Scheduled { arranged }
            | Phase::GoingDown { arranged }
            | Phase::Cancelling { arranged, .. } => Some(arranged),
            _ => None,
        }
    }

    /// Whether another reboot is arranged in this boot only if an operator asks.
    pub fn needs_operator(&self) -> bool {
        let ended = !matches!(self.ending(), None | Some(Ending::CancelledByAgent { .. }));
        ended || matches!(self, Phase::CommandRun { .. })
    }
}

/// Microseconds, as logind counts.
pub fn usec(at: Timestamp) -> u64 {
    u64::try_from(at.as_microsecond()).unwrap_or_default()
}

/// The inverse of [`usec`].
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
    fn kinds_have_the_names_of_logind() {
        for kind in [Shutdown::Reboot, Shutdown::Poweroff, Shutdown::DryReboot] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }

    #[test]
    fn microseconds() {
        let at: Timestamp = "2026-03-03T03:00:00.123456Z".parse().unwrap();
        assert_eq!(time(usec(at)), at);
        assert_eq!(time(u64::MAX), Timestamp::MAX);
    }
}
