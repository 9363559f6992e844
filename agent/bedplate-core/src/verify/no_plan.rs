//! Hosts without a plan.

/// Why there is no plan for a host that has a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPlan {
    /// The profile is invalid or not trusted, or no profile of several fits this host.
    Unusable,
    /// The profile could not be read.
    Unread,
    /// The ledger could not be used.
    Ledger,
}

impl NoPlan {
    /// Describes the reason in one sentence without a full stop. Never quotes the files: the faulty text may be
    /// confidential.
    pub fn description(self) -> &'static str {
        match self {
            NoPlan::Unusable => "the profile on this host cannot be used",
            NoPlan::Unread => "the profile on this host cannot be read",
            NoPlan::Ledger => "bedplate's record of its changes on this host cannot be read",
        }
    }

    /// Returns the command that shows details.
    pub fn command(self) -> &'static str {
        match self {
            NoPlan::Unusable | NoPlan::Unread => "run `bedplate profile check` for the reason",
            NoPlan::Ledger => "run `bedplate plan` for the reason",
        }
    }
}
