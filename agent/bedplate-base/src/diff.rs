//! Differences between two lists, and unified diffs of two texts.

use std::fmt::Write;
use std::ops::Range;

pub use similar::DiffTag;

use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::{ChangeTag, DiffOp, group_diff_ops};

/// Equal lines around a change.
const CONTEXT: usize = 3;

/// Returns the steps from `old` to `new`. Calls Myers' algorithm directly: choosing an algorithm at run time would link
/// all of the library's algorithms.
pub fn diff_operations(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let mut hook = Compact::new(Replace::new(Capture::new()), old, new);
    let Ok(()) = myers::diff(&mut hook, old, 0..old.len(), new, 0..new.len());
    hook.into_inner().into_inner().into_ops()
}

/// Returns the unified diff of two texts, with both names in its header. Returns an empty string if the texts are
/// equal.
pub fn unified_diff(old: &str, new: &str, old_name: &str, new_name: &str) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let mut out = String::new();
    for hunk in group_diff_ops(diff_operations(&old, &new), CONTEXT) {
        // A hunk is never empty.
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
        if out.is_empty() {
            let _ = writeln!(out, "--- {old_name}\n+++ {new_name}");
        }
        let before = format_range(first.old_range().start..last.old_range().end);
        let after = format_range(first.new_range().start..last.new_range().end);
        let _ = writeln!(out, "@@ -{before} +{after} @@");
        for change in hunk.iter().flat_map(|operation| operation.iter_changes(&old[..], &new[..])) {
            out.push(match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            });
            out.push_str(change.value());
            if !change.value().ends_with('\n') {
                out.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
    out
}

/// Formats the range of a hunk: first line (counted from 1) and number of lines. Omits the number if it is 1. An empty
/// range gives the line before it.
fn format_range(lines: Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference output: the printer of the `similar` crate.
    fn reference(old: &str, new: &str) -> String {
        similar::TextDiff::from_lines(old, new).unified_diff().header("a", "b").to_string()
    }

    proptest::proptest! {
        #[test]
        fn unified_diff_matches_library(
            old in "([abc]{0,2}\n){0,24}[ab]?",
            new in "([abc]{0,2}\n){0,24}[ab]?",
        ) {
            proptest::prop_assert_eq!(unified_diff(&old, &new, "a", "b"), reference(&old, &new));
        }
    }

    /// diff(1) and patch(1) do not split lines at a carriage return; the library's printer does.
    #[test]
    fn carriage_return_alone_does_not_end_a_line() {
        let diff = unified_diff("a\rb\n", "a\rc\n", "a", "b");
        assert_eq!(diff, "--- a\n+++ b\n@@ -1 +1 @@\n-a\rb\n+a\rc\n");
    }

    #[test]
    fn unified_diff_of_equal_texts_is_empty() {
        assert_eq!(unified_diff("a\n", "a\n", "a", "b"), "");
    }
}
