//! One observation or one change of the host, as the worker reports it to the daemon. Pure data. The worker is this program
//! (`bedplate worker`, hidden); both ends are always the same build.

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
use bedplate_core::verify::Stage;

/// Prefix of a progress line of the worker; the answer is the last line of its output.
pub const AT: &str = "at ";

/// State of the host, observed after any change was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// Name of the profile.
    pub profile: String,
    /// Files of the host that the profile was read from.
    #[serde(default)]
    pub profile_files: Vec<String>,
    /// `[agent]`.
    pub agent: Agent,
    /// `[reboot]`.
    pub reboot: Reboot,
    /// Whether a lint prevents enforcement of the profile; then the host is not rebooted for it either.
    #[serde(default)]
    pub stopped: bool,
    /// Settings that the profile still lacks, each with its lint.
    #[serde(default)]
    pub reminders: Vec<String>,
    /// Results of the applied changes; empty if the worker only observed.
    pub done: Vec<ChangeResult>,
    /// Errors outside the changes, for example a ledger or history that was not written, or leftover files.
    pub warnings: Vec<String>,
    /// Remaining differences that can be applied to this host.
    pub changes: Vec<PlannedChange>,
    /// Items that require operator action.
    pub blockers: Vec<Blocker>,
    /// Values that could not be read.
    pub unknowns: Vec<Unknown>,
    /// Changes that take effect at the next boot.
    pub pending: Vec<Pending>,
    /// Whether IOMMU passthrough is among the pending changes.
    #[serde(default)]
    pub passthrough: bool,
    /// Reboot that the pending changes need.
    pub need: RebootNeed,
    /// Whether the machine is expected to boot again after a reboot.
    pub next_boot: NextBoot,
    /// Reason why the boot entry may be changing now: a package manager is running.
    #[serde(default)]
    pub packages: Option<String>,
    /// Hash of the pending changes; the same before a boot and after a boot that did not apply them.
    pub hash: String,
    /// Reason why the pending arguments are not in effect, from the four states of the command line.
    pub cause: Option<Cause>,
    /// Files, directories and interfaces to watch for drift.
    pub watch: Watch,
    /// GPUs and NICs present; `None` if the PCI devices cannot be read.
    #[serde(default)]
    pub devices: Option<Vec<Device>>,
    /// Facts published as labels: `iommu`, `vfs`, `acs`.
    pub facts: BTreeMap<String, String>,
    /// Results of the checks of `bedplate verify`; `None` if they were not run, because settings of the host stage differ
    /// from the profile, or because they were not requested.
    #[serde(default)]
    pub checks: Option<Vec<Checked>>,
    /// The plan, as `bedplate plan --json` prints it.
    pub plan_json: String,
}

/// Identifies a change between the daemon and its workers. A digest of the id: the daemon knows ids only masked, and several
/// changes may share a masked id. The key is an argument of the worker, which every user of the machine can read. A reader
/// who knows all of an id except a secret can test guesses of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChangeKey(String);

impl ChangeKey {
    /// Returns the key of the change with this unmasked id.
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

/// A change that the worker can apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedChange {
    /// Identifies the change in the worker's own plan.
    pub key: ChangeKey,
    /// Public part of the change.
    #[serde(flatten)]
    pub shown: Difference,
}

impl PlannedChange {
    /// Creates one from a change of the plan and its public form `shown`.
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

/// Public part of a change, without its actions: the published status must contain no file contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// `kind/subject`, masked: for display, not a key.
    pub id: String,
    /// Resource type of the change.
    pub kind: KindId,
    /// Human-readable title.
    pub subject: String,
    /// When it takes effect.
    pub effect: Effect,
    /// Whether it is runtime only: it writes nothing to a disk.
    #[serde(default)]
    pub live: bool,
    /// Whether it loads or unloads a kernel module, which needs a separate right.
    #[serde(default)]
    pub modules: bool,
    /// Differences.
    pub items: Vec<Item>,
}

/// Result of a change. Unknown fields are rejected, so that an answer of another form is never read as success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeResult {
    /// The change.
    pub change: PlannedChange,
    /// Why it failed and was rolled back, or was skipped; `None` if it was applied and read back.
    pub failure: Option<String>,
}

/// A GPU or a NIC.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Device {
    /// PCI address, `0000:18:00.0`.
    pub address: String,
    /// Type and PCI ids, `GPU 10de:2330`, `NIC 15b3:1021`.
    pub what: String,
    /// Whether a rule of the profile covers it.
    pub selected: bool,
}

/// Returns the hash of the pending changes. Excludes the running values, because only they differ after an ineffective boot.
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

/// Returns the first 16 hex digits of the SHA-256 of a text.
fn short_digest(text: &str) -> String {
    Sha::digest(text.as_bytes()).as_str()[..16].to_owned()
}

impl Observation {
    /// Marks these changes as failed: the worker did not finish.
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

    /// Returns the first failed change with its reason.
    pub fn failure(&self) -> Option<String> {
        let failed = |done: &ChangeResult| {
            done.failure.as_ref().map(|why| format!("{}: {why}", done.change.shown.subject))
        };
        self.done.iter().find_map(failed)
    }

    /// Whether the settings that need no GPU driver match the profile, as far as visible, with no pending change. Then
    /// the checks show what the host lacks.
    pub(crate) fn has_host_stage(&self) -> bool {
        let has = |kind| Stage::Host.has_kind(kind);
        !self.changes.iter().any(|change| has(change.shown.kind))
            && !self.blockers.iter().any(|blocker| has(blocker.kind))
            && !self.pending.iter().any(|pending| has(pending.kind))
    }

    /// Whether the host matches the profile, as far as visible, with no pending change.
    pub fn is_converged(&self) -> bool {
        self.changes.is_empty()
            && self.blockers.is_empty()
            && self.pending.is_empty()
            && self.need == RebootNeed::None
    }
}
