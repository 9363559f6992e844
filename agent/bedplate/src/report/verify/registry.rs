//! The registry of checks: `--list`, `--explain`, docs/checks.md.

use std::fmt::Write as _;

use crate::report::style::{FAINT, HEAD, paint};
use bedplate_core::verify::{CHECKS, Check, NOT_LOOKED_AT, Stage};

/// Formats the output of `--explain`.
pub(crate) fn explain(check: &Check) -> String {
    let root = if check.needs_root { "yes" } else { "no" };
    let rows = [
        ("verifies", check.verifies),
        ("what", check.what),
        ("why", check.why),
        ("how", check.how),
        ("source", check.source),
        ("stage", Stage::of_check(check).name()),
        ("level", check.severity.name()),
        ("needs root", root),
    ];
    let mut out = format!("{}\n", paint(HEAD, check.id));
    for (name, text) in rows {
        let _ = writeln!(out, "  {} {text}", paint(FAINT, &format!("{name:<10}")));
    }
    out
}

/// Formats the output of `--list`: one line per check.
pub(crate) fn list() -> String {
    let width = CHECKS.iter().map(|check| check.id.len()).max().unwrap_or_default();
    let mut out = String::new();
    for check in CHECKS {
        let level = check.severity.name();
        let _ = writeln!(out, "{:<width$}  {level}  {}", check.id, check.verifies);
    }
    out
}

/// Generates docs/checks.md from the registry of checks.
pub fn markdown() -> String {
    let mut out = String::from(
        "# Checks\n\n\
         Checks of `bedplate verify`, in order of priority. Generated from the registry in\n\
         `agent/bedplate-core/src/verify/table.rs`; `bedplate verify --explain ID` shows the same text. A check that does not pass makes a host *not ready*\n\
         if its level is `fail`, but not if it is `warn`. `[verify]` of the profile may change a level, with a reason.\n\
         An unknown result never counts as passed.\n",
    );
    let _ = write!(out, "\nNot checked, and not part of *ready*: {NOT_LOOKED_AT}.\n");
    out.push_str("\n[howtos.md](howtos.md) lists the checks for the steps of common how-tos.\n");
    for check in CHECKS {
        let Check { what, why, source, how, .. } = check;
        let root = if check.needs_root { "; needs root" } else { "" };
        let stage = Stage::of_check(check);
        let _ = write!(
            out,
            "\n## `{}`\n\nVerifies that {}. Group `{}`, stage `{stage}`, level `{}`{root}.\n\n- **What**: {what}\n- **Why**: {why}\n\
             - **How**: {how}\n- **Source**: {source}\n",
            check.id,
            check.verifies,
            check.group.name(),
            check.severity.name(),
        );
    }
    out
}
