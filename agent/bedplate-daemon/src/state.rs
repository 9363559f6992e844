//! State of the host and verdict of the readiness gate.

use serde::{Deserialize, Serialize};

/// Reason before the first observation.
pub(crate) const NOT_OBSERVED: &str = "the host has not been observed yet";

bedplate_base::named! {
    /// State of the host.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum State {
        /// Not observed yet.
        #[default]
        Starting = "starting",
        /// Matches the profile.
        Converged = "converged",
        /// Differs from the profile; a change is about to start, or the daemon only observes.
        Drifted = "drifted",
        /// Matches the profile, except for changes that take effect at the next boot.
        WaitingForBoot = "waiting-for-boot",
        /// Requires operator action.
        Blocked = "blocked",
        /// A change failed and will be retried.
        Failed = "failed",
        /// Another program or an operator keeps reverting a change.
        Conflict = "conflict",
        /// Reboots did not bring the change into effect.
        AttemptsExhausted = "attempts-exhausted",
        /// The profile is unusable, or the host cannot be observed.
        Error = "error",
        /// The operator has installed no profile; nothing is enforced.
        NoProfile = "no-profile",
        /// A change is running, or an event has not been followed by an observation yet.
        Working = "working",
        /// The daemon was stopped.
        Stopped = "stopped",
    }
}

bedplate_base::named! {
    /// Whether workloads may rely on the host.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub enum Verdict {
        /// Everything the profile requests is in effect, and no check of `bedplate verify` fails.
        Ready = "ready",
        /// The profile is not in effect, or a check fails.
        NotReady = "not-ready",
        /// A required value could not be read.
        #[default]
        CannotTell = "cannot-tell",
    }
}
