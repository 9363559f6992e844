//! Results of a revert: per step, and as a whole.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::ledger::FileState;

/// States of files, by path.
pub(super) type FileStates = BTreeMap<String, FileState>;

/// Outcome of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum StepOutcome {
    /// Restored and read back.
    Done,
    /// Left unchanged.
    Left {
        /// Reason.
        why: String,
    },
    /// The step failed; its record stays in the ledger.
    Failed {
        /// Reason.
        why: String,
        /// End of the tool's output, if the step runs a tool.
        #[serde(skip_serializing_if = "Option::is_none")]
        output: Option<String>,
    },
}

impl StepOutcome {
    /// Creates a failure without tool output.
    pub(super) fn failed(why: impl Into<String>) -> Self {
        StepOutcome::Failed { why: why.into(), output: None }
    }
}

/// A step and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct StepReport {
    /// Subject of the step.
    pub subject: String,
    /// Outcome of the step.
    #[serde(flatten)]
    pub outcome: StepOutcome,
}

/// Results of a whole revert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct RevertReport {
    /// Every step of the plan, in plan order, and the default boot entry if it failed its check.
    pub steps: Vec<StepReport>,
    /// Tools that the image build has to run, since they cannot run from here.
    pub pending_tools: Vec<Vec<String>>,
    /// Failures outside the steps.
    pub warnings: Vec<String>,
}

impl RevertReport {
    /// Whether no step failed.
    pub fn succeeded(&self) -> bool {
        !self.steps.iter().any(|step| matches!(step.outcome, StepOutcome::Failed { .. }))
    }
}
