//! What bedplate owns on a host and what it found there before: pure data and its text form.
//! Reading and writing it is `apply`'s business; kinds only look.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The ledger, as kept in `/var/lib/bedplate/ledger.json` of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Format version, 1.
    pub version: u32,
    /// Tools that still have to run because a file they read was changed and they had not succeeded yet: argv by purpose.
    pub owed: Vec<OwedTool>,
    /// What is bedplate's own, by kind (kernel tokens).
    pub owned: BTreeMap<String, Vec<String>>,
}

/// A tool run that was promised before its input was written and has not succeeded since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwedTool {
    /// The kind whose change promised it.
    pub kind: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// What for.
    pub purpose: String,
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger { version: 1, owed: Vec::new(), owned: BTreeMap::new() }
    }
}
