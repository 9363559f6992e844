//! Generator of docs/reboot.md from the tables of the code.

use std::fmt::Write as _;

use super::method::{Method, row};
use super::state::{STATES, WaitsFor, may_follow, names};

const HEAD: &str = include_str!("docs/head.md");
const TAIL: &str = include_str!("docs/tail.md");

/// Returns the whole document.
pub fn markdown() -> String {
    let mut out = HEAD.to_owned();
    out.push_str("\n| state | meaning | may be followed by |\n|---|---|---|\n");
    for (name, meaning) in STATES {
        let next: Vec<&str> =
            names().into_iter().filter(|next| *next != name && may_follow(name, next)).collect();
        let _ = writeln!(out, "| `{name}` | {meaning} | {} |", next.join(", "));
    }
    out.push_str("\n`waits_for` is one of:\n\n");
    for waits_for in WaitsFor::ALL {
        let _ = writeln!(out, "- `{}`: {}", waits_for.name(), waits_for.meaning());
    }
    out.push_str("\n## Methods\n\n| method | reboot | armed across a boot |\n|---|---|---|\n");
    for method in Method::ALL {
        let stays = if row(method).survives_boot { "yes" } else { "no" };
        let _ = writeln!(out, "| `{method}` | {} | {stays} |", row(method).subject);
    }
    out.push('\n');
    out.push_str(TAIL);
    out
}
