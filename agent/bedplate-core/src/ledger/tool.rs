//! Tools as the ledger knows them: by what is run. The purpose is text for people, and another version may word it otherwise.

use crate::kind_id::KindId;
use serde::{Deserialize, Serialize};

/// A tool run that undoes another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UndoTool {
    /// The kind whose change ran the other.
    pub kind: KindId,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// What the other was run for.
    pub purpose: String,
    /// Seconds it may take.
    pub limit_s: u32,
}

impl UndoTool {
    /// Whether it is the same run; the purpose is text for people.
    pub fn undoes_as(&self, other: &Self) -> bool {
        (&self.kind, &self.argv) == (&other.kind, &other.argv)
    }
}

/// A tool that makes a file from others. What is run tells two of them apart: the purpose is text for people, and another
/// version may word it otherwise.
#[derive(Debug, Clone, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generator {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Purpose.
    pub purpose: String,
    /// Seconds it may take.
    pub limit_s: u32,
}

impl PartialEq for Generator {
    fn eq(&self, other: &Self) -> bool {
        self.argv == other.argv
    }
}

impl PartialOrd for Generator {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Generator {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.argv.cmp(&other.argv)
    }
}
