//! Identity of tools in the ledger: the command. The purpose is display text, which may differ between versions.

use crate::kind_id::KindId;
use serde::{Deserialize, Serialize};

/// A tool run that undoes another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UndoTool {
    /// Resource type whose change ran the other tool.
    pub kind: KindId,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Purpose of the other tool's run.
    pub purpose: String,
    /// Time limit in seconds.
    pub limit_s: u32,
}

impl UndoTool {
    /// Whether both are the same run; ignores the display text.
    pub fn undoes_as(&self, other: &Self) -> bool {
        (&self.kind, &self.argv) == (&other.kind, &other.argv)
    }
}

/// A tool that generates a file from other files. Equality depends on the command only: the purpose is display text,
/// which may differ between versions.
#[derive(Debug, Clone, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generator {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Purpose.
    pub purpose: String,
    /// Time limit in seconds.
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
