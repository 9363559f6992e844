//! Exit statuses.

use std::process::ExitCode;

/// Exit status of a command (design §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done, or no changes.
    Done = 0,
    /// All or part of the command failed; the report or the error has the details.
    Failed = 1,
    /// `plan --exit-code` found changes; `topology --import` or `render --check` found a difference.
    Changes = 2,
    /// A reboot is pending.
    RebootPending = 3,
    /// Blocked, or not ready; refused because a daemon enforces the profile, because of an error-level lint, or by
    /// `render --strict`.
    Blocked = 4,
    /// Something could not be read, or it is not yet known whether a reboot is due.
    CannotTell = 5,
    /// Done, but the image build must still run tools.
    Owed = 6,
    /// Usage error (EX_USAGE of sysexits.h).
    Usage = 64,
    #[cfg(feature = "daemon")]
    /// Daemon only: another build replaced it, and it must be restarted (EX_TEMPFAIL of sysexits.h).
    Replaced = 75,
    #[cfg(feature = "daemon")]
    /// Daemon worker only: no profile is configured on this host (EX_CONFIG of sysexits.h).
    NoProfile = 78,
}

impl Exit {
    /// Returns the more severe of two statuses, for several hosts.
    pub(crate) fn worst(self, other: Exit) -> Exit {
        use Exit::{Blocked, CannotTell, Changes, Done, Failed, Owed, RebootPending};
        let order = [Done, RebootPending, CannotTell, Owed, Changes, Blocked, Failed];
        // Hosts have no other statuses; a future one would rank as the most severe.
        let rank = |exit| order.iter().position(|one| *one == exit).unwrap_or(order.len());
        if rank(other) > rank(self) { other } else { self }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}
