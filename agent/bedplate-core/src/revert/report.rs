//! Results of a revert: of each step, and of all of it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::ledger::FileState;

/// States of files, by path.
pub(super) type FileStates = BTreeMap<String, FileState>;

/// What became of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum StepOutcome {
    /// Put back, and read back.
    Done,
    /// It stays as it is.
    Left {
        /// Why.
        why: String,
    },
    /// It failed; its record stays in the ledger.
    Failed {
        /// Why.
        why: String,
        /// The end of the tool's output, if it was a tool.
        #[serde(skip_serializing_if = "Option::is_none")]
        output: Option<String>,
    },
}

impl StepOutcome {
    /// A failure of no tool.
    pub(super) fn failed(why: impl Into<String>) -> Self {
        StepOutcome::Failed { why: why.into(), output: None }
    }
}

/// One step, afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct StepReport {
    /// What it was about.
    pub subject: String,
    /// Outcome.
    #[serde(flatten)]
    pub outcome: StepOutcome,
}

/// The whole revert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct RevertReport {
    /// Every step of the plan, in its order, and the default boot entry where it failed its check.
    pub steps: Vec<StepReport>,
    /// Tools that the image build has to run, since they are not run from here.
    pub owed: Vec<Vec<String>>,
    /// What went wrong beside the steps.
    pub warnings: Vec<String>,
}

impl RevertReport {
    /// Whether no step failed.
    pub fn succeeded(&self) -> bool {
        !self.steps.iter().any(|step| matches!(step.outcome, StepOutcome::Failed { .. }))
    }
}
