//! One observation of the host, or one change of it, as the worker tells the daemon: pure data. The worker is this program
//! itself (`bedplate worker`, hidden); both ends are always the same build.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::checks::Checked;
use bedplate_core::kind::Watch;
use bedplate_core::kind::cmdline::diagnosis::Cause;
use bedplate_core::ledger::Sha;
use bedplate_core::plan::{
    Blocker, Change, Effect, Item, KindId, NextBoot, Pending, Plan, RebootNeed, Unknown,
};
use bedplate_core::profile::model::{Agent, Reboot};

/// With this the worker begins a line that says what it is at; the answer is the last line of its output.
pub const AT: &str = "at ";

/// What was observed, after what was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// The profile's name.
    pub profile: String,
    /// The files of the host that it was read from.
    #[serde(default)]
    pub profile_files: Vec<String>,
    /// `[agent]`.
    pub agent: Agent,
    /// `[reboot]`.
    pub reboot: Reboot,
    /// Whether a lint keeps the profile from being enforced: then the host is not rebooted for it either.
    #[serde(default)]
    pub stopped: bool,
    /// What was applied before, if the worker was to apply something.
    pub done: Vec<ChangeResult>,
    /// What went wrong beside the changes: the ledger or the history not written, something left lying.
    pub warnings: Vec<String>,
    /// What still differs and this host could take.
    pub changes: Vec<PlannedChange>,
    /// What people have to deal with.
    pub blockers: Vec<Blocker>,
    /// Values that could not be read.
    pub unknowns: Vec<Unknown>,
    /// Changes that wait for a boot.
    pub pending: Vec<Pending>,
    /// Whether IOMMU passthrough is among them.
    #[serde(default)]
    pub passthrough: bool,
    /// What the host waits for.
    pub need: RebootNeed,
    /// Whether the machine can be expected to come back from a reboot.
    pub next_boot: NextBoot,
    /// Why the boot entry may be changing now: a package manager is running.
    #[serde(default)]
    pub packages: Option<String>,
    /// Names what waits, in a way that is the same before a boot and after one that did not help.
    pub hash: String,
    /// Why what waits is not in effect, by the four states of the command line.
    pub cause: Option<Cause>,
    /// What to watch for drift.
    pub watch: Watch,
    /// GPUs and NICs that are there; `None`: not known, since the PCI devices cannot be read.
    #[serde(default)]
    pub devices: Option<Vec<Device>>,
    /// Facts that are worth a label: `iommu`, `vfs`, `acs`.
    pub facts: BTreeMap<String, String>,
    /// What the checks of `bedplate verify` came to; `None`: they were not made, because the host is not what the profile says,
    /// or nobody asked.
    #[serde(default)]
    pub checks: Option<Vec<Checked>>,
    /// The plan, as `bedplate plan --json` prints it.
    pub plan_json: String,
}

/// Names a change between the daemon and its workers. A digest of the id: the daemon knows ids only masked, and several
/// changes may have the same masked id. It stands in the worker's arguments, which every user of the machine can read: who knows
/// all of an id but a secret can try guesses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChangeKey(String);

impl ChangeKey {
    /// The key of the change with this id, as the plan has it.
    pub fn of(id: &str) -> Self {
        ChangeKey(short_digest(id))
    }
}

impl From<String> for ChangeKey {
    fn from(key: String) -> Self {
        ChangeKey(key)
    }
}

impl fmt::Display for ChangeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A change that the worker can be asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedChange {
    /// The worker finds it in its own plan by this.
    pub key: ChangeKey,
    /// The part of it that everybody may see.
    #[serde(flatten)]
    pub shown: Difference,
}

impl PlannedChange {
    /// A change of the plan; `shown`: the same change as everybody may see it.
    pub fn new(change: &Change, shown: &Change) -> Self {
        let shown = Difference {
            id: shown.id.clone(),
            kind: shown.kind,
            subject: shown.subject.to_string(),
            effect: shown.effect,
            live: shown.is_live(),
            modules: shown.uses_modules(),
            items: shown.items.clone(),
        };
        PlannedChange { key: ChangeKey::of(&change.id), shown }
    }
}

/// One change of the plan without its actions: what the status shows to everybody holds no file's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// `kind/subject`, masked: to be shown, and not a key.
    pub id: String,
    /// The kind that it belongs to.
    pub kind: KindId,
    /// Title for people.
    pub subject: String,
    /// When it counts.
    pub effect: Effect,
    /// Whether it acts on the running machine only: nothing of it is written to a disk.
    #[serde(default)]
    pub live: bool,
    /// Whether it loads or unloads a kernel module, for which there is a right of its own.
    #[serde(default)]
    pub modules: bool,
    /// Differences.
    pub items: Vec<Item>,
}

/// What became of a change. An answer that says something else must not read as "done".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeResult {
    /// What was to be done.
    pub change: PlannedChange,
    /// Why it failed and was taken back, or was not tried; `None`: it is done, and was read back.
    pub failure: Option<String>,
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

/// Names what waits for a boot. What runs now is not part of it: a boot that does not help changes nothing else.
pub(crate) fn hash(plan: &Plan) -> String {
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
    short_digest(&lines.concat())
}

/// The first 16 hex digits of the SHA-256 of a text.
fn short_digest(text: &str) -> String {
    Sha::digest(text.as_bytes()).as_str()[..16].to_owned()
}

impl Observation {
    /// These changes were not done: the worker came to no end.
    #[must_use]
    pub fn failed(mut self, only: &[ChangeKey], why: &str) -> Self {
        let tried = self.changes.iter().filter(|change| only.contains(&change.key));
        let failed = |change: &PlannedChange| ChangeResult {
            change: change.clone(),
            failure: Some(why.to_owned()),
        };
        self.done = tried.map(failed).collect();
        self
    }

    /// The first change that failed, and why.
    pub fn failure(&self) -> Option<String> {
        let failed = |done: &ChangeResult| {
            done.failure.as_ref().map(|why| format!("{}: {why}", done.change.shown.subject))
        };
        self.done.iter().find_map(failed)
    }

    /// Whether the host is what the profile says, as far as can be seen, without waiting for anything.
    pub fn is_converged(&self) -> bool {
        self.changes.is_empty()
            && self.blockers.is_empty()
            && self.pending.is_empty()
            && self.need == RebootNeed::None
    }
}
