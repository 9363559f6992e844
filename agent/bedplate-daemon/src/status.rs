//! What the daemon says of the host, in one value: the bus, `bedplate status`, metrics, labels and the log all show it.
//! Pure data, and how it follows from an observation.

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
use bedplate_host::published;

/// Format version of [`Status`] as JSON; raised when a field changes its name or meaning, not when one is added.
pub(crate) const VERSION: u32 = 2;
/// Why a host is `converged`.
const IN_EFFECT: &str = "everything the profile asks for is in effect";
/// Where the daemon keeps it for those without a bus. Everybody may read it.
pub const FILE: &str = published::STATUS;

/// The whole of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// [`VERSION`].
    pub bedplate_status: u32,
    /// Where the host stands.
    pub state: State,
    /// Whether workloads may trust it.
    pub verdict: Verdict,
    /// In one sentence, why.
    pub reason: String,
    /// The profile's name; empty before the first observation.
    pub profile: String,
    /// Whether the daemon writes.
    pub mode: Option<AgentMode>,
    /// The operator's hold on enforcement: the daemon only observes.
    #[serde(default)]
    pub held: Option<EnforceHold>,
    /// This boot.
    pub boot_id: String,
    /// Whether a daemon says it, and keeps it so; `false`: an observation of `bedplate status` itself, for the moment it was made.
    #[serde(default = "default_true")]
    pub daemon: bool,
    /// The daemon's process; 0 without one.
    #[serde(default)]
    pub pid: u32,
    /// When the daemon last said this; a status that is older than `fresh_until` is nobody's word.
    #[serde(default)]
    pub heartbeat: Option<Timestamp>,
    /// Until when it counts: two intervals after the heartbeat.
    #[serde(default)]
    pub fresh_until: Option<Timestamp>,
    /// What is being done now.
    #[serde(default)]
    pub work: Option<Work>,
    /// When the host was last found right.
    pub last_converged: Option<Timestamp>,
    /// How long the last observation took, in milliseconds.
    pub last_observation_ms: u64,
    /// Observations of the host since the daemon started; what a burst of events costs shows here.
    #[serde(default)]
    pub observations: u64,
    /// Differences.
    pub changes: Vec<Difference>,
    /// What people have to deal with.
    pub blockers: Vec<Blocker>,
    /// Values that could not be read.
    pub unknowns: Vec<Unknown>,
    /// Changes that wait for a boot.
    pub pending: Vec<Pending>,
    /// What others keep changing.
    pub contested: Vec<Conflict>,
    /// What was tried and failed, and is tried again.
    #[serde(default)]
    pub failed: Vec<FailedChange>,
    /// What the checks of `bedplate verify` came to, but those that the profile ignores, in the order in which they are to be
    /// dealt with; `None`: they were not made, because the host is not what the profile says.
    #[serde(default)]
    pub checks: Option<Vec<Checked>>,
    /// The reboot.
    pub reboot: RebootStatus,
    /// Facts that are worth a label.
    pub facts: BTreeMap<String, String>,
}

/// A daemon older than the field wrote it.
fn default_true() -> bool {
    true
}

/// Something that takes its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// What: `update-grub`, `write 7 to /sys/…/sriov_numvfs`.
    pub what: String,
    /// Since when.
    pub since: Timestamp,
}

/// The reboot, as `bedplate reboot status` shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebootStatus {
    /// What the host waits for; `None`: not known (not observed yet, no profile, an error).
    pub need: Option<RebootNeed>,
    /// The profile's policy.
    pub policy: Option<RebootPolicy>,
    /// Where it stands.
    pub state: RebootState,
    /// How it would be done; `None`: no method works here.
    pub method: Option<RebootMethod>,
    /// What was said of the methods.
    pub methods: Vec<String>,
    /// Name of what waits.
    pub plan: String,
    /// Reboots asked for since the host was last right.
    pub attempts: usize,
    /// Reboots this daemon has asked for in all, as a counter.
    pub asked_for: u64,
    /// The fleet's lock.
    pub lock: Option<LockSlot>,
    /// What became of the last question to the lock server.
    pub lock_said: Option<String>,
    /// Hold, busy devices and whatever else forbids it.
    pub vetoes: Vec<String>,
    /// Who cancelled the last announcement or request of this boot, and when; or that it did not come.
    #[serde(default, rename = "called_off")]
    pub cancelled_by: Option<String>,
    /// The operator's hold, in words, whether a reboot is wanted or not.
    #[serde(default)]
    pub hold: Option<String>,
    /// Which reboot this boot follows, where there is something to say of it.
    #[serde(default)]
    pub came: Option<LastBoot>,
    /// Soundness of the entry that boots next; `None`: not known yet.
    #[serde(default)]
    pub next_boot: Option<NextBoot>,
}

impl RebootStatus {
    /// Whether something is known to wait for a boot.
    pub fn is_needed(&self) -> bool {
        self.need.is_some_and(|need| need != RebootNeed::None)
    }
}

impl Status {
    /// Before the first observation.
    pub fn starting(boot_id: String) -> Self {
        Status {
            bedplate_status: VERSION,
            reason: NOT_OBSERVED.into(),
            boot_id,
            daemon: true,
            pid: std::process::id(),
            ..Status::default()
        }
    }

    /// Takes over what an observation found.
    pub fn take(&mut self, observation: &Observation, contested: Vec<Conflict>) {
        self.profile.clone_from(&observation.profile);
        self.mode = Some(observation.agent.mode);
        self.changes = observation.changes.iter().map(|change| change.shown.clone()).collect();
        self.blockers.clone_from(&observation.blockers);
        self.unknowns.clone_from(&observation.unknowns);
        self.pending.clone_from(&observation.pending);
        self.facts.clone_from(&observation.facts);
        self.contested = contested;
        self.checks.clone_from(&observation.checks);
        self.reboot.need = Some(observation.need);
        self.reboot.policy = Some(observation.reboot.policy);
        self.reboot.plan.clone_from(&observation.hash);
        self.reboot.next_boot = Some(observation.next_boot.clone());
        if observation.need == RebootNeed::None {
            // What was decided about a reboot that is no longer needed says nothing of the host any more.
            self.reboot.state = RebootState::Idle;
        }
        self.update_verdict(observation.failure());
    }

    /// The observation could not be done at all.
    pub fn fail(&mut self, why: String) {
        self.state = State::Error;
        self.verdict = Verdict::CannotTell;
        self.checks = None;
        self.set_unknown(why);
    }

    /// There is no profile to hold the host against.
    pub fn without_profile(&mut self, why: String) {
        self.state = State::NoProfile;
        self.verdict = Verdict::NotReady;
        self.profile.clear();
        self.changes.clear();
        self.blockers.clear();
        self.unknowns.clear();
        self.pending.clear();
        self.contested.clear();
        self.checks = None;
        self.set_unknown(why);
    }

    /// The daemon ends: what it said last is nobody's word any more.
    pub fn stop(&mut self) {
        self.state = State::Stopped;
        self.verdict = Verdict::NotReady;
        self.work = None;
        self.checks = None;
        self.reason = "the daemon was stopped: nothing keeps this host as its profile says".into();
    }

    /// Whether a reboot is due is not known either.
    fn set_unknown(&mut self, why: String) {
        self.reboot.need = None;
        self.reboot.state = RebootState::Unknown { why: why.clone() };
        self.reason = why;
    }

    /// As it is shown while something is being done: `ready` would be older than what is going on.
    #[must_use]
    pub fn working_on(&self, work: &Work) -> Self {
        let mut shown = self.clone();
        shown.state = State::Working;
        shown.verdict = Verdict::NotReady;
        shown.reason.clone_from(&work.what);
        shown.work = Some(work.clone());
        shown
    }

    /// State, verdict and reason from what is known; the worst that is so names the state.
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
        let (state, reason) = if let RebootState::Stuck { why } = &self.reboot.state {
            (State::Stuck, why.clone())
        } else if !self.contested.is_empty() {
            let what = subjects(&mut self.contested.iter().map(|one| one.id.clone()));
            (State::Contested, format!("something else keeps changing {what}"))
        } else if let Some(failed) = failed {
            (State::Failed, failed)
        } else if !self.blockers.is_empty() {
            let first = &self.blockers[0];
            (State::Blocked, format!("{}: {}", first.subject, first.reason))
        } else if !self.changes.is_empty() {
            let what = subjects(&mut self.changes.iter().map(|one| one.subject.clone()));
            (State::Drifted, format!("not as the profile says: {what}"))
        } else if !self.pending.is_empty() || self.reboot.is_needed() {
            let what = subjects(&mut self.pending.iter().map(|one| one.subject.clone()));
            let what = if what.is_empty() { "a change".to_owned() } else { what };
            (State::WaitingForBoot, format!("{what} takes effect only after a boot"))
        } else {
            (State::Converged, IN_EFFECT.to_owned())
        };
        self.state = state;
        self.reason = match &self.held {
            Some(held) if state != State::Converged => format!("{reason}; {}", held.describe()),
            _ => reason,
        };
        self.verdict = match state {
            State::Converged => self.judge(),
            _ => Verdict::NotReady,
        };
    }

    /// The verdict on a host that is in effect what the profile says. What is known to be wrong comes before what is not known.
    fn judge(&mut self) -> Verdict {
        let (verdict, why) = checks::verdict(self.checks.as_deref());
        match (verdict, self.unknowns.first()) {
            (Verdict::Ready | Verdict::CannotTell, Some(unknown)) => {
                self.reason = format!("{} could not be read: {}", unknown.subject, unknown.reason);
                Verdict::CannotTell
            }
            _ => {
                self.reason = why.unwrap_or_else(|| format!("{IN_EFFECT}, and no check fails"));
                verdict
            }
        }
    }

    /// Whether the host is known to be what the profile says. It may not be ready all the same: a cable may be out.
    pub fn is_as_the_profile_says(&self) -> bool {
        self.state == State::Converged && self.unknowns.is_empty()
    }

    /// Changes that are pending, by kind and effect: what metrics count.
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
