//! One look at the host, or one change of it, as the worker tells the daemon: pure data. The worker is this program
//! itself (`bedplate round`, hidden); both ends are always the same build.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::plan::{Effect, Item, Plan, RebootNeed};
use crate::profile::model::{Agent, Reboot};
use crate::reboot::stuck::Cause;

/// With this the worker begins a line that says what it is at; the answer is the last line of its output.
pub const AT: &str = "at ";
/// The worker's exit status where the operator has put no profile (sysexits.h: EX_CONFIG).
pub const NO_PROFILE: i32 = 78;

/// What one round came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// The profile's name.
    pub profile: String,
    /// The files of the host that it was read from.
    #[serde(default)]
    pub profile_files: Vec<String>,
    /// `[agent]`.
    pub agent: Agent,
    /// `[reboot]`.
    pub reboot: Reboot,
    /// What was done, if the round was to do something.
    pub done: Vec<Done>,
    /// What went wrong beside the changes: the ledger or the history not written, something left lying.
    pub warnings: Vec<String>,
    /// What still differs and this host could take.
    pub changes: Vec<Difference>,
    /// What people have to deal with.
    pub blockers: Vec<Obstacle>,
    /// What could not be read.
    pub unknowns: Vec<Obstacle>,
    /// What waits for a boot.
    pub pending: Vec<Waiting>,
    /// What the host waits for.
    pub need: RebootNeed,
    /// Names what waits, in a way that is the same before a boot and after one that did not help.
    pub hash: String,
    /// Why what waits is not in effect, by the four states of the command line.
    pub cause: Option<Cause>,
    /// What to watch for drift.
    pub watch: Watch,
    /// GPUs and NICs that are there; `None`: cannot be told, since the PCI devices cannot be read.
    #[serde(default)]
    pub devices: Option<Vec<Device>>,
    /// Facts that are worth a label: `iommu`, `vfs`, `acs`.
    pub facts: BTreeMap<String, String>,
    /// The plan, as `bedplate plan --json` prints it.
    pub plan_json: String,
}

/// One change of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// `kind/subject`.
    pub id: String,
    /// `cmdline`, `modules`, `acs`, `sriov`.
    pub kind: String,
    /// Title for people.
    pub subject: String,
    /// When it counts.
    pub effect: Effect,
    /// Whether it acts on the running machine only: nothing of it is written to a disk.
    #[serde(default)]
    pub live: bool,
    /// What differs.
    pub items: Vec<Value>,
}

/// Before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// What.
    pub subject: String,
    /// Observed; `None` = absent.
    pub before: Option<String>,
    /// Wanted; `None` = absent.
    pub after: Option<String>,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// What was to be done.
    pub change: Difference,
    /// How it ended.
    pub end: End,
}

/// How a change ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "kebab-case")]
pub enum End {
    /// Done, and read back (or it was so already).
    Done,
    /// Failed and taken back, or not tried because another failed.
    Failed {
        /// Why.
        why: String,
    },
}

/// A blocker or an unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Obstacle {
    /// Its kind.
    pub kind: String,
    /// What it is about.
    pub subject: String,
    /// Why.
    pub reason: String,
    /// What to do; empty for an unknown.
    pub remedy: String,
}

/// What waits for a boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Its kind.
    pub kind: String,
    /// What.
    pub subject: String,
    /// What runs.
    pub running: Option<String>,
    /// What the next boot brings.
    pub next: Option<String>,
    /// Which boot.
    pub effect: Effect,
}

/// A GPU or a NIC.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Device {
    /// `0000:18:00.0`.
    pub address: String,
    /// `GPU 10de:2330`, `NIC 15b3:1021`.
    pub what: String,
    /// Whether something of the profile is about it.
    pub selected: bool,
}

/// Paths whose change may be drift.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// Directories in which files come, go and are written.
    pub directories: Vec<String>,
    /// Sysfs files that somebody may write to: `config` of ports with ACS, `sriov_numvfs`, `reset`.
    pub attributes: Vec<String>,
}

impl Difference {
    /// Of a plan's change.
    pub fn of(change: &crate::plan::Change) -> Self {
        let value = |item: &Item| Value {
            subject: item.subject.clone(),
            before: item.before.clone(),
            after: item.after.clone(),
        };
        Difference {
            id: change.id.clone(),
            kind: change.kind.to_owned(),
            subject: change.subject.clone(),
            effect: change.effect,
            live: change.is_live(),
            items: change.items.iter().map(value).collect(),
        }
    }
}

/// Names what waits for a boot. What runs now is not part of it: a boot that does not help changes nothing else.
pub fn hash(plan: &Plan) -> String {
    let mut lines: Vec<String> = plan
        .body
        .pending
        .iter()
        .map(|pending| {
            format!(
                "{}\0{}\0{}\n",
                pending.kind,
                pending.subject,
                pending.next.as_deref().unwrap_or("-")
            )
        })
        .collect();
    lines.sort();
    crate::ledger::Sha::of(lines.concat().as_bytes()).as_str()[..16].to_owned()
}

impl Round {
    /// These changes came to nothing.
    #[must_use]
    pub fn failed(mut self, only: &[String], why: &str) -> Self {
        let tried = self.changes.iter().filter(|change| only.contains(&change.id));
        let end = || End::Failed { why: why.to_owned() };
        self.done = tried.map(|change| Done { change: change.clone(), end: end() }).collect();
        self
    }

    /// The first change that failed, and why.
    pub fn failure(&self) -> Option<String> {
        self.done.iter().find_map(|done| match &done.end {
            End::Failed { why } => Some(format!("{}: {why}", done.change.subject)),
            End::Done => None,
        })
    }

    /// Whether the host is what the profile says, as far as can be seen, without waiting for anything.
    pub fn is_right(&self) -> bool {
        self.changes.is_empty()
            && self.blockers.is_empty()
            && self.pending.is_empty()
            && self.need == RebootNeed::None
    }
}
