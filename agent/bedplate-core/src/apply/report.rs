//! Results of an apply: of each change, and of all of them.

use serde::{Deserialize, Serialize};

use crate::kind_id::KindId;
use crate::plan::{Change, Effect};

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// Done, and read back.
    Done,
    /// Everything was so already; nothing was written.
    AlreadyDone,
    /// The files are written; these tools of the image have still to run, and stay owed in the ledger.
    Owed {
        /// Commands to run inside the image, programs and arguments.
        commands: Vec<Vec<String>>,
        /// Why they cannot run in the image as it is now, where they were to.
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// This host cannot take it; nothing was written.
    Deferred {
        /// Who has to do it, and when.
        until: String,
    },
    /// An action failed, and the change was taken back.
    Failed {
        /// What was being done.
        action: String,
        /// Why it failed.
        why: String,
        /// The end of the tool's output, if it was a tool.
        #[serde(skip_serializing_if = "Option::is_none")]
        output: Option<String>,
        /// What was taken back.
        restored: Restored,
    },
    /// A change that it needs has failed.
    Blocked {
        /// Ids of those changes.
        by: Vec<String>,
    },
}

impl Outcome {
    /// Why the change did not come about, in one line; `None`: it did, as far as this host can take it.
    pub fn failure(&self) -> Option<String> {
        match self {
            Outcome::Done | Outcome::AlreadyDone | Outcome::Owed { .. } => None,
            Outcome::Deferred { until } => Some(format!("waits until {until}")),
            Outcome::Failed { action, why, output, restored } => {
                let last = output.as_deref().and_then(|text| text.trim().lines().last());
                let said = last.map(|line| format!(" ({})", line.trim())).unwrap_or_default();
                let stays = |left: &Left| format!("; {} stays: {}", left.subject, left.why);
                let left: String = restored.left.iter().map(stays).collect();
                Some(format!("failed to {action}: {why}{said}{left}"))
            }
            Outcome::Blocked { by } => Some(format!("not tried: {} failed", by.join(", "))),
        }
    }
}

/// What was taken back after a failure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Restored {
    /// Subjects that are as they were before the change.
    pub back: Vec<String>,
    /// Subjects that are not, and why. Empty = the change was taken back whole.
    pub left: Vec<Left>,
}

/// Something that stayed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Left {
    /// What.
    pub subject: String,
    /// Why.
    pub why: String,
}

/// One change, afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct ChangeReport {
    /// The change's id.
    pub id: String,
    /// Its kind.
    pub kind: KindId,
    /// Its title.
    pub subject: String,
    /// When it counts.
    pub effect: Effect,
    /// Outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Its actions that only the running machine can take, and that wait for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schemars", schemars(default))]
    // Not there is a shape of its own: the schema must not ask for it.
    pub deferred: Vec<String>,
}

/// The whole apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct ApplyReport {
    /// Every change of the plan, in its order.
    pub changes: Vec<ChangeReport>,
    /// What went wrong beside the changes (history not written, a temporary file not removed).
    pub warnings: Vec<String>,
}

impl ApplyReport {
    /// Whether nothing failed and nothing was blocked by a failure.
    pub fn succeeded(&self) -> bool {
        !self.changes.iter().any(|change| {
            matches!(change.outcome, Outcome::Failed { .. } | Outcome::Blocked { .. })
        })
    }
}

impl ChangeReport {
    /// A change with its outcome.
    pub fn new(change: &Change, outcome: Outcome) -> Self {
        ChangeReport {
            id: change.id.clone(),
            kind: change.kind,
            subject: change.subject.to_string(),
            effect: change.effect,
            outcome,
            deferred: Vec::new(),
        }
    }
}
