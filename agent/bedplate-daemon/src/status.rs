//! Status of the host in one value, shown by the bus, `bedplate status`, metrics, labels and the log. Pure data, and its
//! derivation from an observation.

pub(crate) mod host_stage;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub(crate) use crate::state::NOT_OBSERVED;
pub use crate::state::{State, Verdict};

use super::backoff::{Conflict, FailedChange};
use super::checks::{self, Checked};
use super::observation::{Difference, Observation};
use crate::reboot::state::RebootState;
use bedplate_core::enforce_hold::EnforceHold;
use bedplate_core::plan::{Blocker, KindId, NextBoot, Pending, RebootNeed, Unknown};
use bedplate_core::profile::model::{AgentMode, RebootMethod, RebootPolicy};
use bedplate_core::reboot_record::LockSlot;
use bedplate_core::reboot_record::last_boot::LastBoot;
use bedplate_core::verify::Stage;
use bedplate_host::published;

/// Format version of [`Status`] as JSON; raised when a field changes its name or meaning, not when one is added.
pub(crate) const VERSION: u32 = 3;
/// Reason for `converged`.
const IN_EFFECT: &str = "the profile is in effect";
/// Status file for readers without a bus; world-readable.
pub const FILE: &str = published::STATUS;

/// Published status of the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// [`VERSION`].
    pub bedplate_status: u32,
    /// State of the host.
    pub state: State,
    /// Whether workloads may rely on the host.
    pub verdict: Verdict,
    /// Reason, in one sentence.
    pub reason: String,
    /// Verdict on the host stage: what needs no GPU driver ([`Stage::Host`]).
    #[serde(default)]
    pub host_stage: StageVerdict,
    /// When the observation that the verdict follows from ended, or a later one that confirmed it.
    #[serde(default)]
    pub evaluated_at: Option<Timestamp>,
    /// Version of the bedplate that published it.
    #[serde(default)]
    pub version: String,
    /// Name of the profile; empty before the first observation.
    pub profile: String,
    /// Whether the daemon writes.
    pub mode: Option<AgentMode>,
    /// The operator's pause of enforcement: the daemon only observes.
    #[serde(default)]
    pub pause: Option<EnforceHold>,
    /// Id of this boot.
    pub boot_id: String,
    /// Whether a daemon publishes and maintains it. `false`: a one-time observation by `bedplate status` itself.
    #[serde(default = "default_true")]
    pub daemon: bool,
    /// Process id of the daemon; 0 without one.
    #[serde(default)]
    pub pid: u32,
    /// When the daemon last published the status.
    #[serde(default)]
    pub heartbeat: Option<Timestamp>,
    /// End of validity: two intervals after the heartbeat.
    #[serde(default)]
    pub fresh_until: Option<Timestamp>,
    /// Action in progress.
    #[serde(default)]
    pub work: Option<Work>,
    /// Verdicts before that action.
    #[serde(default)]
    pub before_work: Option<Verdicts>,
    /// When the host was last converged.
    pub last_converged: Option<Timestamp>,
    /// Duration of the last observation in milliseconds.
    pub last_observation_ms: u64,
    /// Observations since the daemon started; shows the cost of event bursts.
    #[serde(default)]
    pub observations: u64,
    /// Differences.
    pub changes: Vec<Difference>,
    /// Items that require operator action.
    pub blockers: Vec<Blocker>,
    /// Values that could not be read.
    pub unknowns: Vec<Unknown>,
    /// Changes that take effect at the next boot.
    pub pending: Vec<Pending>,
    /// Settings that the profile still lacks, each with its lint.
    #[serde(default)]
    pub reminders: Vec<String>,
    /// Changes that something else keeps reverting.
    pub conflicts: Vec<Conflict>,
    /// Changes that failed and will be retried.
    #[serde(default)]
    pub failed: Vec<FailedChange>,
    /// Results of the checks of `bedplate verify`, except those that the profile ignores, in order of priority; `None` if
    /// they were not run, because settings of the host stage differ from the profile.
    #[serde(default)]
    pub checks: Option<Vec<Checked>>,
    /// Status of the reboot.
    pub reboot: RebootStatus,
    /// Facts published as labels.
    pub facts: BTreeMap<String, String>,
}

/// Default of the field in files of a daemon older than it.
fn default_true() -> bool {
    true
}

/// Verdict on one stage.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageVerdict {
    /// Whether the stage is reached.
    pub verdict: Verdict,
    /// Reason, in one sentence.
    pub reason: String,
}

/// Verdicts on all stages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdicts {
    /// On the host stage.
    pub host: StageVerdict,
    /// On everything.
    pub gpudirect: StageVerdict,
}

/// An action in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// The action: `update-grub`, `write 7 to /sys/…/sriov_numvfs`.
    pub what: String,
    /// Start of the first of several actions without a pause.
    pub since: Timestamp,
}

/// Status of the reboot, as `bedplate reboot status` shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebootStatus {
    /// Reboot that is needed; `None` if unknown (not observed yet, no profile, an error).
    pub need: Option<RebootNeed>,
    /// The profile's policy.
    pub policy: Option<RebootPolicy>,
    /// State of the reboot.
    pub state: RebootState,
    /// Method to use; `None` if no method works here.
    pub method: Option<RebootMethod>,
    /// Messages about the methods tried.
    pub methods: Vec<String>,
    /// Hash of the pending changes.
    pub plan: String,
    /// Reboots requested since the host was last converged.
    pub attempts: usize,
    /// Reboots that this daemon has requested, as a counter.
    pub requested: u64,
    /// Slot of the reboot lock.
    pub lock: Option<LockSlot>,
    /// Result of the last request to the lock server.
    pub lock_message: Option<String>,
    /// Vetoes: hold, busy devices and others.
    pub vetoes: Vec<String>,
    /// How the last scheduled or requested reboot of this boot was cancelled, by which user or program, and when;
    /// or that it did not happen.
    #[serde(default)]
    pub cancelled_by: Option<String>,
    /// Description of the operator's reboot hold, even if no reboot is due.
    #[serde(default)]
    pub hold: Option<String>,
    /// Cause of the last boot, if notable.
    #[serde(default)]
    pub last_boot: Option<LastBoot>,
    /// Soundness of the next boot entry; `None` if not known yet.
    #[serde(default)]
    pub next_boot: Option<NextBoot>,
}

impl RebootStatus {
    /// Whether a reboot is known to be needed.
    pub fn is_needed(&self) -> bool {
        self.need.is_some_and(|need| need != RebootNeed::None)
    }
}

impl Status {
    /// Parses the status that a daemon published. Returns `None` if it has another format: a field that this program does
    /// not know, such as a pause, would otherwise be lost.
    pub fn parse(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok().filter(|status: &Status| status.bedplate_status == VERSION)
    }

    /// Returns the status before the first observation.
    pub fn starting(boot_id: String) -> Self {
        Status {
            bedplate_status: VERSION,
            reason: NOT_OBSERVED.into(),
            host_stage: StageVerdict { reason: NOT_OBSERVED.into(), ..StageVerdict::default() },
            version: env!("CARGO_PKG_VERSION").into(),
            boot_id,
            daemon: true,
            pid: std::process::id(),
            ..Status::default()
        }
    }

    /// Updates the status from an observation.
    pub fn take(&mut self, observation: &Observation, conflicts: Vec<Conflict>) {
        self.profile.clone_from(&observation.profile);
        self.mode = Some(observation.agent.mode);
        self.changes = observation.changes.iter().map(|change| change.shown.clone()).collect();
        self.blockers.clone_from(&observation.blockers);
        self.unknowns.clone_from(&observation.unknowns);
        self.pending.clone_from(&observation.pending);
        self.reminders.clone_from(&observation.reminders);
        self.facts.clone_from(&observation.facts);
        self.conflicts = conflicts;
        self.checks.clone_from(&observation.checks);
        self.reboot.need = Some(observation.need);
        self.reboot.policy = Some(observation.reboot.policy);
        self.reboot.plan.clone_from(&observation.hash);
        self.reboot.next_boot = Some(observation.next_boot.clone());
        if observation.need == RebootNeed::None {
            // The decision about a reboot that is no longer needed is obsolete.
            self.reboot.state = RebootState::Idle;
        }
        self.update_verdict(observation.failure());
    }

    /// Records that the observation failed as a whole.
    pub fn fail(&mut self, why: String) {
        self.state = State::Error;
        self.verdict = Verdict::CannotTell;
        self.checks = None;
        self.set_unknown(why);
        self.same_for_host_stage();
    }

    /// Records that there is no profile to compare the host with.
    pub fn without_profile(&mut self, why: String) {
        self.state = State::NoProfile;
        self.verdict = Verdict::NotReady;
        self.profile.clear();
        self.changes.clear();
        self.blockers.clear();
        self.unknowns.clear();
        self.pending.clear();
        self.reminders.clear();
        self.conflicts.clear();
        self.checks = None;
        self.set_unknown(why);
        self.same_for_host_stage();
    }

    /// Publishes a final stopped, not-ready status.
    pub fn stop(&mut self) {
        self.state = State::Stopped;
        self.verdict = Verdict::NotReady;
        self.work = None;
        self.checks = None;
        self.reason = "daemon stopped; profile not enforced".into();
        self.same_for_host_stage();
    }

    /// Sets the verdict on the host stage to the one on all stages.
    fn same_for_host_stage(&mut self) {
        self.host_stage = self.verdict_on(Stage::Gpudirect);
    }

    /// Returns the verdict on a stage.
    pub fn verdict_on(&self, stage: Stage) -> StageVerdict {
        match stage {
            Stage::Host => self.host_stage.clone(),
            Stage::Gpudirect => StageVerdict { verdict: self.verdict, reason: self.reason.clone() },
        }
    }

    /// Also marks the need for a reboot as unknown.
    fn set_unknown(&mut self, why: String) {
        self.reboot.need = None;
        self.reboot.state = RebootState::Unknown { why: why.clone() };
        self.reason = why;
    }

    /// Returns the status to show during `work`: an earlier `ready` may no longer hold.
    #[must_use]
    pub fn working_on(&self, work: &Work) -> Self {
        let mut shown = self.clone();
        shown.state = State::Working;
        shown.verdict = Verdict::NotReady;
        shown.reason.clone_from(&work.what);
        shown.work = Some(work.clone());
        shown.before_work = Some(Verdicts {
            host: self.host_stage.clone(),
            gpudirect: self.verdict_on(Stage::Gpudirect),
        });
        shown.same_for_host_stage();
        shown
    }

    /// Derives state, verdict and reason. The worst condition determines the state.
    pub fn update_verdict(&mut self, failed: Option<String>) {
        let subjects = |names: &mut dyn Iterator<Item = String>| {
            let names: Vec<String> = names.collect();
            match names.as_slice() {
                [] => String::new(),
                [one] => one.clone(),
                [one, more @ ..] => format!("{one} and {} more", more.len()),
            }
        };
        let failed = failed
            .or_else(|| self.failed.first().map(|one| format!("{}: {}", one.subject, one.why)));
        let (state, reason) = if let RebootState::AttemptsExhausted { why } = &self.reboot.state {
            (State::AttemptsExhausted, why.clone())
        } else if !self.conflicts.is_empty() {
            let what = subjects(&mut self.conflicts.iter().map(|one| one.id.clone()));
            (State::Conflict, format!("conflict: something else keeps reverting {what}"))
        } else if let Some(failed) = failed {
            (State::Failed, failed)
        } else if !self.blockers.is_empty() {
            let first = &self.blockers[0];
            (State::Blocked, format!("{}: {}", first.subject, first.reason))
        } else if !self.changes.is_empty() {
            let what = subjects(&mut self.changes.iter().map(|one| one.subject.clone()));
            (State::Drifted, format!("drifted: {what}"))
        } else if !self.pending.is_empty() || self.reboot.is_needed() {
            let what = subjects(&mut self.pending.iter().map(|one| one.subject.clone()));
            let what = if what.is_empty() { "a change".to_owned() } else { what };
            (State::WaitingForBoot, format!("pending reboot: {what}"))
        } else {
            (State::Converged, IN_EFFECT.to_owned())
        };
        self.state = state;
        self.reason = match &self.pause {
            Some(pause) if state != State::Converged => format!("{reason}; {}", pause.describe()),
            _ => reason,
        };
        self.verdict = match state {
            State::Converged => self.judge(),
            _ => Verdict::NotReady,
        };
        self.host_stage = host_stage::verdict(self);
    }

    /// Returns the verdict on a converged host. Known failures precede unknown results.
    fn judge(&mut self) -> Verdict {
        let (verdict, why) = checks::verdict(self.checks.as_deref());
        match (verdict, self.unknowns.first()) {
            (Verdict::Ready | Verdict::CannotTell, Some(unknown)) => {
                self.reason = format!("cannot read {}: {}", unknown.subject, unknown.reason);
                Verdict::CannotTell
            }
            _ => {
                self.reason = why.unwrap_or_else(|| format!("{IN_EFFECT}, and no check fails"));
                verdict
            }
        }
    }

    /// Whether the host is known to be converged. It may still be not ready: a cable may be unplugged.
    pub fn is_as_the_profile_says(&self) -> bool {
        self.state == State::Converged && self.unknowns.is_empty()
    }

    /// Counts pending changes by resource type and effect, for metrics.
    pub fn counts(&self) -> BTreeMap<(KindId, &'static str), u64> {
        let mut counts = BTreeMap::new();
        for change in &self.changes {
            *counts.entry((change.kind, change.effect.name())).or_default() += 1;
        }
        for pending in &self.pending {
            *counts.entry((pending.kind, pending.effect.name())).or_default() += 1;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_of_another_format_is_refused() {
        let status = Status::starting("b".into());
        let json = |status: &Status| serde_json::to_string(status).unwrap();
        assert_eq!(Status::parse(&json(&status)), Some(status.clone()));
        let older = Status { bedplate_status: VERSION - 1, ..status };
        assert_eq!(Status::parse(&json(&older)), None);
    }
}
