//! Which keys are bedplate's, by the ledger: what it set, and what stood there before.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::section::Key;

/// A key that bedplate has set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Own {
    /// The key.
    pub key: String,
    /// What bedplate set.
    pub ours: Value,
    /// What stood there before; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
}

impl Own {
    /// As the ledger has it. What it does not understand is none.
    pub fn read(entries: &[String]) -> Vec<Own> {
        entries.iter().filter_map(|entry| serde_json::from_str(entry).ok()).collect()
    }

    /// For the ledger.
    pub fn write(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }

    /// The key, where it is one.
    pub fn key(&self) -> Option<Key> {
        self.key.parse().ok()
    }
}
