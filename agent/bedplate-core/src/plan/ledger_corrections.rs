//! Corrections of the ledger that a plan carries next to its changes: pending tools that have run, and lost files.

use super::KindId;
use crate::ledger::{Generator, Ledger, Sha};

/// A tool that an earlier run left pending, and that need not run any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledTool {
    /// Resource type of the change that required the run.
    pub kind: KindId,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Id of the change that replaces the run; `None`: there is evidence that it has run.
    pub after: Option<String>,
}

/// A file that bedplate wrote and the ledger does not contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// Resource type that writes it.
    pub kind: KindId,
    /// Absolute path inside the host.
    pub path: String,
    /// Digest of the content, if all of it is bedplate's.
    pub content: Option<Sha>,
    /// Tool that generates other files from it. `Err`: reason why no tool can, because the initramfs belongs to an image,
    /// or this host may not load the one that the tool writes.
    pub reader: Result<Option<Generator>, String>,
}

impl Orphan {
    /// Returns the digest and the tool if all of the content is bedplate's, and a revert can regenerate the other files.
    fn adoptable(&self) -> Option<(&Sha, Option<&Generator>)> {
        self.content.as_ref().zip(self.reader.as_ref().ok().map(Option::as_ref))
    }

    /// Whether `apply` records the file in the ledger.
    pub fn is_adoptable(&self) -> bool {
        self.adoptable().is_some()
    }

    /// Records the file in the ledger if it is adoptable.
    pub fn adopt(&self, ledger: &mut Ledger) {
        if let Some((content, reader)) = self.adoptable() {
            ledger.adopt(&self.path, self.kind, content.clone(), reader.cloned());
        }
    }
}
