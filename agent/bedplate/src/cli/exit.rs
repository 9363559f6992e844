//! Exit statuses.

use std::process::ExitCode;

/// How a command ended, as its exit status (design §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done, or nothing to do.
    Done = 0,
    /// All or part of it failed; the report or the error has said what.
    Failed = 1,
    /// `plan --exit-code` found changes; `topology --import` or `render --check` found a disagreement.
    Changes = 2,
    /// A reboot is pending.
    RebootPending = 3,
    /// Blocked, or not ready; refused because a daemon enforces the profile, for a lint of level error, or by
    /// `render --strict`.
    Blocked = 4,
    /// Something could not be read, or whether a reboot is due is not known yet.
    CannotTell = 5,
    /// Done, and the image build still has to run tools.
    Owed = 6,
    /// The command line means nothing here (EX_USAGE of sysexits.h).
    Usage = 64,
    #[cfg(feature = "daemon")]
    /// Of the daemon only: it was replaced by another build and has to be started again (EX_TEMPFAIL of sysexits.h).
    Replaced = 75,
    #[cfg(feature = "daemon")]
    /// Of the daemon's worker only: the operator has put no profile on this host (EX_CONFIG of sysexits.h).
    NoProfile = 78,
}

impl Exit {
    /// That of several hosts: the one of these two that counts.
    pub(crate) fn worst(self, other: Exit) -> Exit {
        use Exit::{Blocked, CannotTell, Changes, Done, Failed, Owed, RebootPending};
        let order = [Done, RebootPending, CannotTell, Owed, Changes, Blocked, Failed];
        // A host has no other status: one that it got some day would be the worst.
        let rank = |exit| order.iter().position(|one| *one == exit).unwrap_or(order.len());
        if rank(other) > rank(self) { other } else { self }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}
