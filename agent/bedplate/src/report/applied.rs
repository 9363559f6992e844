//! Operator reports of changes: after apply, before and after revert, and the history.

use std::fmt::Write as _;

use super::style::{BAD, FAINT, GOOD, HEAD, WARN, paint};
use super::text::{FEW, folded, summary};
use bedplate_base::value::RegisterBits;
use bedplate_base::{counted, format_utc_text};
use bedplate_core::apply::{ApplyReport, ChangeReport, Outcome, Restored};
use bedplate_core::kind::format_register;
use bedplate_core::ledger::Ledger;
use bedplate_core::plan::{Action, Change, Note, Plan};
use bedplate_core::revert::{Refused, RevertPlan, RevertReport, Step, StepOutcome};
use bedplate_core::setting::{SetConfigBits, SetEswitch, SetVf, WriteAttribute};

/// Formats the report of an apply. `after` is the plan made afterwards. `is_owed` means that only tools of the image
/// build are left.
pub fn text(report: &ApplyReport, after: &Plan, is_owed: bool, verbose: bool) -> String {
    let end = match report.succeeded() {
        true if is_owed => pending_tools_line(report, after),
        true => format!("{}{}", remaining_changes(after), summary(after)),
        false => failed(report, after.body.pending.len()),
    };
    format!("{}\n{end}", changes(report, verbose))
}

/// Formats the last line if only tools of the image build are left.
fn pending_tools_line(report: &ApplyReport, after: &Plan) -> String {
    let mut commands: Vec<String> = Vec::new();
    let reported = report.changes.iter().flat_map(|change| match &change.outcome {
        Outcome::ToolsPending { commands, .. } => commands.as_slice(),
        _ => &[],
    });
    let planned = after.body.changes.iter().flat_map(|change| &change.actions);
    let planned = planned.filter_map(|action| match action {
        Action::RunTool { argv, .. } => Some(argv),
        _ => None,
    });
    let all = reported.chain(planned).map(|argv| argv.join(" "));
    for command in all.chain(after.body.pending_commands.iter().cloned()) {
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    let still = paint(WARN, "the image build must still run");
    format!("done; {still}: {}\n", commands.join("; "))
}

/// Lists changes that succeeded but are planned again afterwards.
fn remaining_changes(after: &Plan) -> String {
    let doable = after.body.changes.iter().filter(|change| change.deferred.is_none());
    let line = |change: &Change| {
        let items: Vec<&str> = change.items.iter().map(|item| item.subject.as_str()).collect();
        let mark = paint(BAD, "✗");
        format!("{mark} {} {}  still differs: {}\n", change.kind, change.subject, items.join(", "))
    };
    doable.map(line).collect()
}

/// Formats the last line after a failure. Counts only changes that already wait for a reboot, not the reboots that
/// rolled-back changes would have needed.
fn failed(report: &ApplyReport, waiting: usize) -> String {
    let (mut untouched, mut undone, mut stays, mut blocked, mut done) = (0, 0, 0, 0, 0);
    for change in &report.changes {
        match &change.outcome {
            Outcome::Failed { restored, .. } if *restored == Restored::default() => untouched += 1,
            Outcome::Failed { restored, .. } if restored.left.is_empty() => undone += 1,
            Outcome::Failed { .. } => stays += 1,
            Outcome::Blocked { .. } => blocked += 1,
            Outcome::Done | Outcome::AlreadyDone | Outcome::ToolsPending { .. } => done += 1,
            Outcome::Deferred { .. } => {}
        }
    }
    let changes = |n| counted(n, "change");
    let was = |n| if n == 1 { "was" } else { "were" };
    let parts = [
        (
            undone,
            paint(BAD, &format!("{} failed and {} rolled back", changes(undone), was(undone))),
        ),
        (untouched, paint(BAD, &format!("{} failed, nothing written", changes(untouched)))),
        (
            stays,
            paint(
                BAD,
                &format!("{} failed and could not be rolled back completely", changes(stays)),
            ),
        ),
        (blocked, paint(BAD, &format!("{blocked} skipped"))),
        (done, format!("{done} done")),
        (waiting, paint(WARN, &format!("{waiting} pending reboot"))),
    ];
    let said: Vec<String> =
        parts.into_iter().filter(|(n, _)| *n > 0).map(|(_, part)| part).collect();
    format!("{}\n", said.join(", "))
}

/// Returns the later plan's notes about removed items: values that the running kernel retains.
pub(crate) fn left_behind(report: &ApplyReport, planned: &[Change], after: &[Note]) -> Vec<String> {
    let done = |change: &&Change| {
        report.changes.iter().any(|one| one.id == change.id && one.outcome == Outcome::Done)
    };
    let gone = |note: &&Note| {
        planned.iter().filter(done).filter(|change| change.kind == note.kind).any(|change| {
            change.items.iter().any(|item| item.after.is_none() && item.subject == note.subject)
        })
    };
    let said = after.iter().filter(gone);
    said.map(|note| format!("{}: {}", note.subject, note.text)).collect()
}

/// Formats the outcome of every change.
pub(crate) fn changes(report: &ApplyReport, verbose: bool) -> String {
    let mut out = String::new();
    let mut rest = report.changes.as_slice();
    while let Some(first) = rest.first() {
        let same = rest
            .iter()
            .take_while(|change| needs_no_detail(first) && alike_change(first, change))
            .count();
        // Up to [`FEW`] changes are listed individually.
        let count = if same > FEW && !verbose { same } else { 1 };
        match rest.get(..count) {
            Some(several) if count > 1 => {
                let subjects: Vec<&str> =
                    several.iter().map(|change| change.subject.as_str()).collect();
                let subject = folded(&subjects, ", ");
                format_change(&mut out, &ChangeReport { subject, ..first.clone() });
            }
            _ => format_change(&mut out, first),
        }
        rest = rest.get(count..).unwrap_or_default();
    }
    out
}

/// Whether the outcome needs no detail lines.
fn needs_no_detail(change: &ChangeReport) -> bool {
    matches!(change.outcome, Outcome::Done | Outcome::AlreadyDone) && change.deferred.is_empty()
}

fn alike_change(one: &ChangeReport, other: &ChangeReport) -> bool {
    one.kind == other.kind && one.outcome == other.outcome && one.deferred == other.deferred
}

fn format_change(out: &mut String, change: &ChangeReport) {
    let line = |out: &mut String, mark: String, words: &str| {
        let _ =
            writeln!(out, "{mark} {} {}  {words}", paint(HEAD, change.kind.name()), change.subject);
    };
    match &change.outcome {
        Outcome::Done => line(out, paint(GOOD, "✓"), "done"),
        Outcome::AlreadyDone => line(out, paint(GOOD, "✓"), "already set"),
        Outcome::ToolsPending { commands, why } => {
            line(out, paint(WARN, "!"), "written; the image build must still run:");
            if let Some(why) = why {
                let _ = writeln!(out, "    (cannot run in this root: {why})");
            }
            for command in commands {
                let _ = writeln!(out, "    {}", command.join(" "));
            }
        }
        Outcome::Deferred { until } => {
            line(out, paint(WARN, "…"), &format!("deferred until {until}"))
        }
        Outcome::Blocked { by } => {
            line(out, paint(BAD, "✗"), &format!("skipped: {} failed", by.join(", ")))
        }
        Outcome::Failed { action, why, output, restored } => {
            line(out, paint(BAD, "✗"), &format!("failed to {action}: {why}"));
            for text in output.iter().flat_map(|output| output.lines()) {
                let _ = writeln!(out, "    {} {text}", paint(FAINT, "|"));
            }
            for subject in &restored.back {
                let _ = writeln!(out, "    {subject} rolled back");
            }
            for left in &restored.left {
                let _ = writeln!(
                    out,
                    "    {} {} not rolled back: {}",
                    paint(BAD, "!"),
                    left.subject,
                    left.why
                );
            }
        }
    }
    for action in &change.deferred {
        let _ = writeln!(out, "    {} {action}: deferred to the running machine", paint(WARN, "…"));
    }
}

/// Formats the changes that a revert would make.
pub(crate) fn revert_plan(plan: &RevertPlan, verbose: bool) -> String {
    let mut out = String::new();
    let steps = plan.steps.iter().map(|step| (step_subject(step), step_words(step)));
    for (subjects, words) in group_reports(steps, verbose) {
        let words = if words.is_empty() { words } else { format!(": {words}") };
        let _ = writeln!(
            out,
            "{} {}{words}",
            paint(WARN, "↶"),
            folded(&subjects.iter().map(String::as_str).collect::<Vec<_>>(), ", ")
        );
    }
    plan.refused.iter().for_each(|one| out += &refusal(one));
    out += &tools_to_run(&plan.pending_tools);
    for note in &plan.notes {
        let _ = writeln!(out, "{} {note}", paint(FAINT, "·"));
    }
    if plan.steps.is_empty() && plan.refused.is_empty() && plan.pending_tools.is_empty() {
        let _ = writeln!(
            out,
            "{}: bedplate has no record of changes here",
            paint(GOOD, "nothing to revert")
        );
    }
    out
}

/// Formats a refused item with its reason and fix.
pub(super) fn refusal(refused: &Refused) -> String {
    let Refused { subject, reason, fix } = refused;
    format!("{} {subject}: {reason}\n    {} {fix}\n", paint(BAD, "✗"), paint(HEAD, "fix:"))
}

/// Lists tools that the image build must run.
fn tools_to_run(owed: &[Vec<String>]) -> String {
    let line = |command: &Vec<String>| {
        format!("{} the image build must still run: {}\n", paint(WARN, "!"), command.join(" "))
    };
    owed.iter().map(line).collect()
}

fn step_subject(step: &Step) -> String {
    match step {
        Step::Tool { .. } => format!("run {}", step.subject()),
        step => step.subject(),
    }
}

fn step_words(step: &Step) -> String {
    match step {
        Step::Attribute(WriteAttribute { before, after, .. }) => format!("{before} → {after}"),
        Step::Register(SetConfigBits { register, before, bits: after, .. }) => {
            let before = RegisterBits { value: *before, ..*after };
            format!("{} → {}", format_register(register, before), format_register(register, *after))
        }
        Step::Vf(SetVf { after, .. }) if after.is_empty() => {
            "driver: none → selected by the kernel".to_owned()
        }
        Step::Vf(SetVf { before, after, .. }) => format!("{before} → {after}"),
        Step::Eswitch(SetEswitch { before, after, .. }) => format!("{before} → {after}"),
        Step::File { after: Some(_), .. } => "restored".to_owned(),
        Step::File { after: None, .. } => "removed".to_owned(),
        Step::Tool { .. } => String::new(),
        Step::Directory { .. } => "removed if empty".to_owned(),
    }
}

/// Groups consecutive steps with the same text.
fn group_reports(
    said: impl Iterator<Item = (String, String)>,
    verbose: bool,
) -> Vec<(Vec<String>, String)> {
    let mut groups: Vec<(Vec<String>, String)> = Vec::new();
    for (subject, words) in said {
        match groups.last_mut() {
            Some((subjects, same)) if !verbose && *same == words && words.contains('→') => {
                subjects.push(subject)
            }
            _ => groups.push((vec![subject], words)),
        }
    }
    groups
}

/// Formats the report of a revert.
pub(crate) fn reverted(report: &RevertReport, verbose: bool) -> String {
    let mut out = String::new();
    let done: Vec<&str> = report
        .steps
        .iter()
        .filter(|step| step.outcome == StepOutcome::Done)
        .map(|step| step.subject.as_str())
        .collect();
    let many = done.len() > FEW && !verbose;
    if many {
        let _ = writeln!(out, "{} reverted: {}", paint(GOOD, "✓"), folded(&done, ", "));
    }
    for step in report.steps.iter().filter(|step| !many || step.outcome != StepOutcome::Done) {
        let _ = match &step.outcome {
            StepOutcome::Done => writeln!(out, "{} {}", paint(GOOD, "✓"), step.subject),
            StepOutcome::Left { why } => {
                writeln!(out, "{} {} not reverted: {why}", paint(WARN, "!"), step.subject)
            }
            StepOutcome::Failed { why, output } => {
                let lines = output.iter().flat_map(|output| output.lines());
                let output: String = lines.map(|line| format!("    | {line}\n")).collect();
                write!(out, "{} {}: {why}\n{output}", paint(BAD, "✗"), step.subject)
            }
        };
    }
    out + &tools_to_run(&report.pending_tools)
}

/// Formats the ledger's history, newest last.
pub(crate) fn history(ledger: &Ledger) -> String {
    let mut out = String::new();
    for entry in &ledger.history {
        let profile =
            entry.profile.as_ref().map(|profile| format!(" {profile}")).unwrap_or_default();
        let _ = writeln!(
            out,
            "{}  {}{profile}",
            paint(HEAD, &format_utc_text(&entry.at)),
            entry.command
        );
        for result in &entry.results {
            let why = result.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            let _ = writeln!(out, "    {} {}{why}", result.result, result.subject);
        }
    }
    if out.is_empty() {
        out.push_str("no changes by bedplate on this host\n");
    }
    out
}

#[cfg(test)]
mod tests;
