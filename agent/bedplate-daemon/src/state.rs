//! Where the host stands, in one word, and what the readiness gate makes of it.

use serde::{Deserialize, Serialize};

/// Where the host stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Not looked at yet.
    Starting,
    /// As the profile says.
    Converged,
    /// It differs: about to be fixed, or only observed.
    Drifted,
    /// As the profile says, but for what a boot brings.
    WaitingForBoot,
    /// Something people have to deal with.
    Blocked,
    /// Something was tried and failed; it is tried again.
    Failed,
    /// Another program or an operator keeps changing it.
    Contested,
    /// Boots did not help.
    Stuck,
    /// The profile cannot be used, or the host cannot be looked at.
    Error,
    /// There is no profile of the operator's: nothing is enforced.
    NoProfile,
    /// A change is under way, or something has changed that was not looked at yet.
    Working,
    /// The daemon was stopped.
    Stopped,
}

/// Every state, in order.
pub(crate) const STATES: [State; 12] = [
    State::Starting,
    State::Converged,
    State::Drifted,
    State::WaitingForBoot,
    State::Blocked,
    State::Failed,
    State::Contested,
    State::Stuck,
    State::Error,
    State::NoProfile,
    State::Working,
    State::Stopped,
];

impl State {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            State::Starting => "starting",
            State::Converged => "converged",
            State::Drifted => "drifted",
            State::WaitingForBoot => "waiting-for-boot",
            State::Blocked => "blocked",
            State::Failed => "failed",
            State::Contested => "contested",
            State::Stuck => "stuck",
            State::Error => "error",
            State::NoProfile => "no-profile",
            State::Working => "working",
            State::Stopped => "stopped",
        }
    }
}

/// Whether workloads may trust the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Everything the profile asks for is in effect, and no check of `bedplate verify` fails.
    Ready,
    /// Something is not.
    NotReady,
    /// Something could not be read that counts.
    CannotTell,
}

impl Verdict {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Ready => "ready",
            Verdict::NotReady => "not-ready",
            Verdict::CannotTell => "cannot-tell",
        }
    }
}
