//! `plan --diff`: a unified diff of every file, and one line for each register, attribute and tool.

use std::fmt::Write as _;

use super::style::{GONE, GOOD, HEAD, paint};
use bedplate_core::apply::diff;
use bedplate_core::plan::{Action, KindId, Plan};

/// Formats the plan as a patch for operators and CI. `only`: the resource types to show; empty for all.
pub fn plan(plan: &Plan, only: &[KindId]) -> String {
    let mut out = String::new();
    for change in &plan.body.changes {
        let is_shown = only.is_empty() || only.contains(&change.kind);
        if !is_shown || change.actions.is_empty() {
            continue;
        }
        let deferred = change.deferred.as_ref().map_or("", |_| " (deferred)");
        let _ = writeln!(out, "{}", paint(HEAD, &format!("# {}{deferred}", change.id)));
        for action in &change.actions {
            format_action(&mut out, action);
        }
    }
    out
}

fn format_action(out: &mut String, action: &Action) {
    for line in diff(action).lines() {
        let _ = match line.as_bytes().first() {
            Some(b'+') => writeln!(out, "{}", paint(GOOD, line)),
            Some(b'-') => writeln!(out, "{}", paint(GONE, line)),
            _ => writeln!(out, "{line}"),
        };
    }
}
