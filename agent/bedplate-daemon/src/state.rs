//! Where the host stands, in one word, and what the readiness gate makes of it.

use serde::{Deserialize, Serialize};

/// What is known before the first observation.
pub(crate) const NOT_OBSERVED: &str = "the host has not been observed yet";

bedplate_base::named! {
    /// Where the host stands.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum State {
        /// Not looked at yet.
        #[default]
        Starting = "starting",
        /// As the profile says.
        Converged = "converged",
        /// It differs: about to be fixed, or only observed.
        Drifted = "drifted",
        /// As the profile says, but for what a boot brings.
        WaitingForBoot = "waiting-for-boot",
        /// Something people have to deal with.
        Blocked = "blocked",
        /// Something was tried and failed; it is tried again.
        Failed = "failed",
        /// Another program or an operator keeps changing it.
        Contested = "contested",
        /// Boots did not help.
        Stuck = "stuck",
        /// The profile cannot be used, or the host cannot be looked at.
        Error = "error",
        /// There is no profile of the operator's: nothing is enforced.
        NoProfile = "no-profile",
        /// A change is under way, or something has changed that was not looked at yet.
        Working = "working",
        /// The daemon was stopped.
        Stopped = "stopped",
    }
}

bedplate_base::named! {
    /// Whether workloads may trust the host.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub enum Verdict {
        /// Everything the profile asks for is in effect, and no check of `bedplate verify` fails.
        Ready = "ready",
        /// Something is not.
        NotReady = "not-ready",
        /// Something could not be read that counts.
        #[default]
        CannotTell = "cannot-tell",
    }
}
