//! Corrections of the ledger that a plan carries beside its changes: owed tools that have run, files that the ledger lost.

use super::KindId;
use crate::ledger::{Generator, Ledger, Sha};

/// A tool that an earlier run owes, and that need not run any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledTool {
    /// The kind whose change promised it.
    pub kind: KindId,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Id of the change that replaces it; `None`: it shows to have run.
    pub after: Option<String>,
}

/// A file that bedplate wrote, and that the ledger does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// The kind that writes it.
    pub kind: KindId,
    /// Absolute path inside the host.
    pub path: String,
    /// Its content, where all of it is bedplate's.
    pub content: Option<Sha>,
    /// The tool that makes other files from it.
    pub reader: Option<Generator>,
}

impl Orphan {
    /// Enters it in the ledger, if all of its content is bedplate's.
    pub fn adopt(&self, ledger: &mut Ledger) {
        if let Some(content) = self.content.clone() {
            ledger.adopt(&self.path, self.kind, content, self.reader.clone());
        }
    }
}
