//! Hosts without a plan.

/// Why there is no plan for a host that has a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPlan {
    /// The profile is broken, is not trusted, or none of several is for this host.
    Unusable,
    /// The profile could not be read.
    Unread,
    /// The ledger could not be used.
    Ledger,
}

impl NoPlan {
    /// In one sentence without its full stop. Nothing of the files is in it: what is wrong may be what should not be shown.
    pub fn description(self) -> &'static str {
        match self {
            NoPlan::Unusable => "the profile on this host cannot be used",
            NoPlan::Unread => "the profile on this host cannot be read",
            NoPlan::Ledger => "what bedplate did on this host before cannot be read",
        }
    }

    /// Which command says more.
    pub fn command(self) -> &'static str {
        match self {
            NoPlan::Unusable | NoPlan::Unread => "`bedplate profile check` says why",
            NoPlan::Ledger => "`bedplate plan` says why",
        }
    }
}
