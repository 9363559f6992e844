//! What was done, for people: after apply, before and after revert, and the history.

use std::fmt::Write as _;

use super::style::{BAD, FAINT, GOOD, HEAD, WARN, paint};
use super::text::summary;
use crate::apply::{ApplyReport, ChangeReport, Outcome};
use crate::ledger::Ledger;
use crate::plan::Plan;
use crate::revert::{RevertPlan, RevertReport, Step, StepOutcome};

/// The report of an apply; `after` is the plan made afterwards.
pub fn text(report: &ApplyReport, after: &Plan) -> String {
    format!("{}\n{}", changes(report), summary(after))
}

/// What became of every change.
pub fn changes(report: &ApplyReport) -> String {
    let mut out = String::new();
    for change in &report.changes {
        one(&mut out, change);
    }
    out
}

fn one(out: &mut String, change: &ChangeReport) {
    let line = |out: &mut String, mark: String, words: &str| {
        let _ = writeln!(out, "{mark} {} {}  {words}", paint(HEAD, &change.kind), change.subject);
    };
    match &change.outcome {
        Outcome::Done => line(out, paint(GOOD, "✓"), "done"),
        Outcome::AlreadyDone => line(out, paint(GOOD, "✓"), "was so already"),
        Outcome::Owed { commands } => {
            line(out, paint(WARN, "!"), "written; the image build still has to run:");
            for command in commands {
                let _ = writeln!(out, "    {}", command.join(" "));
            }
        }
        Outcome::Deferred { until } => line(out, paint(WARN, "…"), &format!("deferred until {until}")),
        Outcome::Blocked { by } => {
            line(out, paint(BAD, "✗"), &format!("not tried: {} failed", by.join(", ")))
        }
        Outcome::Failed { action, why, output, restored } => {
            line(out, paint(BAD, "✗"), &format!("failed to {action}: {why}"));
            for text in output.iter().flat_map(|output| output.lines()) {
                let _ = writeln!(out, "    {} {text}", paint(FAINT, "|"));
            }
            for subject in &restored.back {
                let _ = writeln!(out, "    {subject} is as it was before");
            }
            for left in &restored.left {
                let _ = writeln!(
                    out,
                    "    {} {} could not be taken back: {}",
                    paint(BAD, "!"),
                    left.subject,
                    left.why
                );
            }
        }
    }
    for action in &change.deferred {
        let _ = writeln!(out, "    {} {action}: waits for the running machine", paint(WARN, "…"));
    }
}

/// What a revert would do.
pub fn revert_plan(plan: &RevertPlan) -> String {
    let mut out = String::new();
    for step in &plan.steps {
        let _ = writeln!(out, "{} {}", paint(WARN, "↶"), step_line(step));
    }
    for refused in &plan.refused {
        let _ = writeln!(out, "{} {}: {}", paint(BAD, "✗"), refused.subject, refused.reason);
        let _ = writeln!(out, "    {} {}", paint(HEAD, "do:"), refused.remedy);
    }
    for command in &plan.owed {
        let _ = writeln!(out, "{} then the image build has to run: {}", paint(WARN, "!"), command.join(" "));
    }
    for note in &plan.notes {
        let _ = writeln!(out, "{} {note}", paint(FAINT, "·"));
    }
    if plan.steps.is_empty() && plan.refused.is_empty() {
        let _ = writeln!(out, "{}: bedplate has changed nothing here", paint(GOOD, "nothing to put back"));
    }
    out
}

fn step_line(step: &Step) -> String {
    match step {
        Step::Attribute { path, before, after, .. } => format!("{path}: {before} → {after}"),
        Step::Register { address, register, before, after, .. } => {
            format!("{register} of {address}: {before:04x} → {after:04x}")
        }
        Step::File { path, after: Some(_), .. } => format!("{path}: as it was"),
        Step::File { path, after: None, .. } => format!("{path}: removed"),
        Step::Tool { argv, .. } => format!("run {}", argv.join(" ")),
        Step::Directory { path } => format!("{path}: removed if empty"),
    }
}

/// The report of a revert.
pub fn reverted(report: &RevertReport) -> String {
    let mut out = String::new();
    for step in &report.steps {
        let _ = match &step.outcome {
            StepOutcome::Done => writeln!(out, "{} {}", paint(GOOD, "✓"), step.subject),
            StepOutcome::Left { why } => writeln!(out, "{} {} stays: {why}", paint(WARN, "!"), step.subject),
            StepOutcome::Failed { why, output } => {
                let lines = output.iter().flat_map(|output| output.lines());
                let output: String = lines.map(|line| format!("    | {line}\n")).collect();
                write!(out, "{} {}: {why}\n{output}", paint(BAD, "✗"), step.subject)
            }
        };
    }
    out
}

/// The ledger's history, newest last.
pub fn history(ledger: &Ledger) -> String {
    let mut out = String::new();
    for entry in &ledger.history {
        let profile = entry.profile.as_ref().map(|profile| format!(" {profile}")).unwrap_or_default();
        let _ = writeln!(out, "{}  {}{profile}", paint(HEAD, &entry.at), entry.command);
        for result in &entry.results {
            let why = result.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            let _ = writeln!(out, "    {} {}{why}", result.result, result.subject);
        }
    }
    if out.is_empty() {
        out.push_str("bedplate has done nothing on this host\n");
    }
    out
}
