//! Operator report of a seal: the plan and the result.

use std::fmt::Write as _;

use super::applied::refusal;
use super::style::{BAD, FAINT, GONE, GOOD, paint};
use super::text::folded;
use bedplate_base::counted_as;
use bedplate_core::seal::{PartPlan, SealDisposition, SealPlan, SealReport};

/// Formats the plan of a seal: removed parts, retained parts, refusals.
pub fn plan(plan: &SealPlan, verbose: bool) -> String {
    let mut out = String::new();
    let removed = plan.parts.iter().filter(|part| !part.items.is_empty());
    removed.for_each(|part| out += &line(part, verbose));
    let kept =
        plan.parts.iter().filter(|part| part.fate == SealDisposition::Kept && part.is_present);
    for part in kept {
        let _ = writeln!(out, "{} {}: {}", paint(FAINT, "· keep"), part.part, part.why);
    }
    plan.refused.iter().for_each(|one| out += &refusal(one));
    for note in &plan.notes {
        let _ = writeln!(out, "{} {note}", paint(FAINT, "·"));
    }
    out + &end(plan)
}

fn line(part: &PartPlan, verbose: bool) -> String {
    let PartPlan { part, content, why, items, .. } = part;
    let mut out = format!("{} {part}: {content}; {why}\n", paint(GONE, "- remove"));
    let names: Vec<&str> = items.iter().map(String::as_str).collect();
    if verbose || names.len() > 1 {
        let shown = if verbose { names.join(", ") } else { folded(&names, ", ") };
        let _ = writeln!(out, "    {shown}");
    }
    out
}

fn end(plan: &SealPlan) -> String {
    let parts = plan.parts.iter().filter(|part| !part.items.is_empty()).count();
    match (plan.refused.is_empty(), parts) {
        (false, _) => format!("{}: nothing removed\n", paint(BAD, "refused")),
        (true, 0) if plan.is_without_bedplate() => {
            format!("{}: no profile or state of bedplate found\n", paint(GOOD, "nothing to remove"))
        }
        (true, 0) => format!("{}: already sealed\n", paint(GOOD, "nothing to remove")),
        (true, parts) => format!("{}\n", counted_as(parts, "part to remove", "parts to remove")),
    }
}

/// Formats the result of a seal.
pub(crate) fn sealed(report: &SealReport) -> String {
    let SealReport { plan: planned, failed } = report;
    if !planned.refused.is_empty() {
        return plan(planned, false);
    }
    let mut out = String::new();
    for error in failed {
        let _ = writeln!(out, "{} {error}", paint(BAD, "✗"));
    }
    let end = match failed.is_empty() {
        true => format!(
            "{}: capture the disk before this host or image boots again",
            paint(GOOD, "sealed")
        ),
        false => format!(
            "{}: profile, files written by bedplate and ledger are intact; run `bedplate seal` again",
            paint(BAD, "not sealed")
        ),
    };
    let _ = writeln!(out, "{end}");
    out
}
