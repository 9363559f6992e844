//! Two texts as a unified diff.

use similar::TextDiff;

/// The unified diff of two texts, with the names of both in its head; empty where they are the same.
pub fn unified_diff(old: &str, new: &str, old_name: &str, new_name: &str) -> String {
    TextDiff::from_lines(old, new).unified_diff().header(old_name, new_name).to_string()
}
