//! Results of an apply: per change, and as a whole.

use serde::{Deserialize, Serialize};

use crate::kind_id::KindId;
use crate::plan::{Change, Effect};

/// Outcome of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// Applied and read back.
    Done,
    /// Already converged; nothing was written.
    AlreadyDone,
    /// The files are written; these tools of the image still have to run, and stay pending in the ledger.
    ToolsPending {
        /// Commands to run inside the image: programs and arguments.
        commands: Vec<Vec<String>>,
        /// Why required tools cannot run in the image at present.
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// This host cannot apply it; nothing was written.
    Deferred {
        /// Event that it waits for.
        until: String,
    },
    /// An action failed, and the change was rolled back.
    Failed {
        /// Description of the failed action.
        action: String,
        /// Reason for the failure.
        why: String,
        /// End of the tool's output, if the action runs a tool.
        #[serde(skip_serializing_if = "Option::is_none")]
        output: Option<String>,
        /// Result of the rollback.
        restored: Restored,
    },
    /// A change that this one needs has failed.
    Blocked {
        /// Ids of the failed changes.
        by: Vec<String>,
    },
}

impl Outcome {
    /// Returns in one line why the change was not applied; `None` if it was, as far as this host can apply it.
    pub fn failure(&self) -> Option<String> {
        match self {
            Outcome::Done | Outcome::AlreadyDone | Outcome::ToolsPending { .. } => None,
            Outcome::Deferred { until } => Some(format!("waits until {until}")),
            Outcome::Failed { action, why, output, restored } => {
                let last = output.as_deref().and_then(|text| text.trim().lines().last());
                let said = last.map(|line| format!(" ({})", line.trim())).unwrap_or_default();
                let stays = |left: &Left| format!("; {} stays: {}", left.subject, left.why);
                let left: String = restored.left.iter().map(stays).collect();
                Some(format!("failed to {action}: {why}{said}{left}"))
            }
            Outcome::Blocked { by } => Some(format!("skipped: {} failed", by.join(", "))),
        }
    }
}

/// Result of a rollback.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Restored {
    /// Subjects that are in their previous state.
    pub back: Vec<String>,
    /// Subjects that are not, and why. Empty: the change was rolled back completely.
    pub left: Vec<Left>,
}

/// A subject that was not rolled back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Left {
    /// Name of the subject.
    pub subject: String,
    /// Reason.
    pub why: String,
}

/// A change and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct ChangeReport {
    /// Id of the change.
    pub id: String,
    /// Resource type.
    pub kind: KindId,
    /// Title of the change.
    pub subject: String,
    /// When the change takes effect.
    pub effect: Effect,
    /// Outcome of the change.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Deferred actions of the change, which only the running machine can execute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schemars", schemars(default))]
    // Serialization omits an empty list: the schema must not require the field.
    pub deferred: Vec<String>,
}

/// Results of a whole apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct ApplyReport {
    /// Every change of the plan, in plan order.
    pub changes: Vec<ChangeReport>,
    /// Failures outside the changes (history not written, a temporary file not removed).
    pub warnings: Vec<String>,
}

impl ApplyReport {
    /// Whether nothing failed and no failure blocked a change.
    pub fn succeeded(&self) -> bool {
        !self.changes.iter().any(|change| {
            matches!(change.outcome, Outcome::Failed { .. } | Outcome::Blocked { .. })
        })
    }
}

impl ChangeReport {
    /// Builds the report of a change.
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
