//! Operator report of readiness: groups with the worst first, counts of passed checks, then the answer and the next
//! step.

use std::fmt::Write as _;

use super::style::{BAD, FAINT, GOOD, HEAD, WARN, paint};
use super::text::folded;
use bedplate_base::terminal::one_line;
use bedplate_base::{counted, counted_as};
use bedplate_core::verify::{
    Answer, CHECKS, Check, Evidence, Group, Judged, NOT_LOOKED_AT, Report, Verdict,
};

/// Number of evidence items to show before the rest is counted.
pub(super) const SEEN: usize = 3;

/// Formats the whole report. `verbose` adds passed checks and all evidence.
pub fn verify(report: &Report, host: &str, verbose: bool) -> String {
    let mut out = format!("{} {}\n", paint(HEAD, "host"), one_line(host));
    let mut groups: Vec<(Verdict, Group, Vec<&Judged>)> = Vec::new();
    for judged in &report.checks {
        match groups.iter_mut().find(|(_, group, _)| *group == judged.group) {
            Some((_, _, members)) => members.push(judged),
            None => groups.push((Verdict::NotApplicable, judged.group, vec![judged])),
        }
    }
    for (worst, _, members) in &mut groups {
        members.sort_by_key(|judged| rank(judged));
        *worst = members.first().map_or(Verdict::NotApplicable, |judged| displayed_verdict(judged));
    }
    // Stable sort: groups of equal rank stay in order of priority.
    groups.sort_by_key(|(_, _, members)| members.first().map(|judged| rank(judged)));
    for (_, group, members) in &groups {
        one_group(&mut out, *group, members, verbose);
    }
    out.push('\n');
    conclusion(&mut out, report);
    out
}

/// Returns the verdict for display. Ignored findings are listed with passed checks.
fn displayed_verdict(judged: &Judged) -> Verdict {
    if judged.is_ignored() { Verdict::NotApplicable } else { judged.verdict }
}

pub(super) fn rank(judged: &Judged) -> u8 {
    match (displayed_verdict(judged), judged.is_inconclusive()) {
        (Verdict::Fail, _) => 0,
        (Verdict::Unknown, true) => 1,
        (Verdict::Warn, _) => 2,
        (Verdict::Unknown, false) => 3,
        (Verdict::Pass, _) => 4,
        (Verdict::NotApplicable, _) => 5,
    }
}

fn one_group(out: &mut String, group: Group, members: &[&Judged], verbose: bool) {
    let count =
        |wanted: Verdict| members.iter().filter(|one| displayed_verdict(one) == wanted).count();
    let ignored = members.iter().filter(|judged| judged.is_ignored()).count();
    let counts = [
        (count(Verdict::Fail), "failed"),
        (count(Verdict::Unknown), "unknown"),
        (count(Verdict::Warn), "warned"),
        (count(Verdict::Pass), "passed"),
        (count(Verdict::NotApplicable) - ignored, "not applicable"),
        (ignored, "ignored by the profile"),
    ];
    let counts: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let _ = writeln!(out, "\n{}  {}", paint(HEAD, group.name()), paint(FAINT, &counts.join(", ")));
    let speaks = |judged: &&&Judged| {
        let is_fine = |verdict| matches!(verdict, Verdict::Pass | Verdict::NotApplicable);
        // Findings that the profile ignores are still shown, with their reason.
        verbose || !is_fine(judged.verdict)
    };
    for judged in members.iter().filter(speaks) {
        format_check(out, judged, verbose);
    }
}

fn format_check(out: &mut String, judged: &Judged, verbose: bool) {
    let (sign, word) = match displayed_verdict(judged) {
        Verdict::Pass => (paint(GOOD, "✓"), ""),
        Verdict::Fail => (paint(BAD, "✗"), ""),
        Verdict::Warn => (paint(WARN, "!"), ""),
        Verdict::Unknown => (paint(WARN, "?"), "unknown: "),
        Verdict::NotApplicable => (paint(FAINT, "·"), ""),
    };
    let finding = one_line(&judged.finding);
    let _ = writeln!(out, "  {sign} {}: {word}{finding}", judged.id);
    if let Some(reason) = &judged.severity_reason {
        let level = judged.severity.name();
        let _ = writeln!(
            out,
            "      {} `{level}` in the profile: {}",
            paint(FAINT, "severity"),
            one_line(reason)
        );
    }
    let most = if verbose { usize::MAX } else { SEEN };
    evidence(out, &judged.evidence, most, "; -v shows all");
    let is_left = displayed_verdict(judged) != Verdict::NotApplicable;
    remedy(out, judged.remedy.as_deref().filter(|_| is_left));
}

/// Formats the first `most` items of evidence and counts the rest, followed by `where_all`.
pub(super) fn evidence(out: &mut String, all: &[Evidence], most: usize, where_all: &str) {
    let read = paint(FAINT, "read:");
    for seen in all.iter().take(most) {
        let at = paint(FAINT, &format!("({})", one_line(&seen.at)));
        let _ = writeln!(out, "      {read} {} {at}", one_line(&seen.what));
    }
    if let more @ 1.. = all.len().saturating_sub(most) {
        let _ = writeln!(out, "      {read} {more} more{where_all}");
    }
}

/// Formats the fix, if any.
pub(super) fn remedy(out: &mut String, remedy: Option<&str>) {
    if let Some(remedy) = remedy {
        let _ = writeln!(out, "      {} {}", paint(HEAD, "fix:"), one_line(remedy));
    }
}

/// Formats the answer: `ready, with 2 warnings`; `not ready: …, and 1 more check fails: acs.path`.
pub(crate) fn state(report: &Report) -> String {
    let because = report.because.as_deref().map(one_line).unwrap_or_default();
    match report.answer {
        Answer::Ready => format!("ready{}", warnings_and_unknowns(report)),
        Answer::NotReady => {
            format!("not ready: {because}{}", other_deciding_checks(report, "fails", "fail"))
        }
        Answer::CannotTell => {
            format!(
                "unknown: {because}{}",
                other_deciding_checks(report, "is unknown", "are unknown")
            )
        }
    }
}

/// Lists the ids of the other deciding checks.
fn other_deciding_checks(report: &Report, one: &str, many: &str) -> String {
    match report.decided_by.get(1..).unwrap_or_default() {
        [] => String::new(),
        [other] => format!("; 1 more check {one}: {other}"),
        others => format!("; {} more checks {many}: {}", others.len(), folded(others, ", ")),
    }
}

/// Formats the findings that `ready` does not cover: `, with 2 warnings and 1 unknown`.
fn warnings_and_unknowns(report: &Report) -> String {
    let count =
        |test: &dyn Fn(&Judged) -> bool| report.checks.iter().filter(|one| test(one)).count();
    let is = |verdict| move |judged: &Judged| displayed_verdict(judged) == verdict;
    let ignored = |judged: &Judged| {
        judged.is_ignored() && !matches!(judged.verdict, Verdict::Pass | Verdict::NotApplicable)
    };
    let counts = [
        (count(&is(Verdict::Warn)), "warning", "warnings"),
        (count(&is(Verdict::Unknown)), "unknown", "unknown"),
        (count(&ignored), "finding ignored by the profile", "findings ignored by the profile"),
    ];
    let said: Vec<String> = counts
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| counted_as(count, one, many))
        .collect();
    match said.is_empty() {
        true => String::new(),
        false => format!(", with {}", said.join(", ")),
    }
}

fn conclusion(out: &mut String, report: &Report) {
    let (asked, all) = (report.checks.len(), CHECKS.len());
    let _ = match report.answer {
        Answer::Ready if report.partial => {
            let none = match asked {
                1 => "the selected check does not fail".to_owned(),
                count => format!("none of the {count} selected checks fails"),
            };
            writeln!(
                out,
                "{}{} ({all} available)",
                paint(GOOD, &none),
                warnings_and_unknowns(report)
            )
        }
        Answer::Ready if report.image => {
            let right = paint(GOOD, "the image matches its profile");
            writeln!(
                out,
                "{right}{}; verify the machine that runs it",
                warnings_and_unknowns(report)
            )
        }
        Answer::Ready => {
            let silent = paint(FAINT, &format!("not checked: {NOT_LOOKED_AT}"));
            writeln!(out, "{}{}\n{silent}", paint(GOOD, "ready"), warnings_and_unknowns(report))
        }
        Answer::NotReady | Answer::CannotTell => {
            let (style, word) = match report.answer {
                Answer::NotReady => (BAD, "not ready"),
                _ => (WARN, "unknown"),
            };
            let subset = match report.partial {
                true => format!(" ({asked} of {all} checks selected)"),
                false => String::new(),
            };
            let state = state(report);
            let why = state.strip_prefix(word).unwrap_or(&state);
            writeln!(out, "{}{subset}{why}", paint(style, word))
        }
    };
    if let Some(next) = &report.next {
        let _ = writeln!(out, "{} {}", paint(HEAD, "next:"), one_line(next));
    }
}

/// Result for one of several hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostResult {
    /// Ready, without warnings.
    Ready,
    /// Ready, with warnings.
    Warned,
    /// A deciding check has no verdict.
    CannotTell,
    /// A check failed.
    NotReady,
    /// The host could not be checked at all.
    Unusable,
}

impl From<&Report> for HostResult {
    fn from(report: &Report) -> Self {
        match report.answer {
            Answer::Ready if report.warns() => HostResult::Warned,
            Answer::Ready => HostResult::Ready,
            Answer::CannotTell => HostResult::CannotTell,
            Answer::NotReady => HostResult::NotReady,
        }
    }
}

/// Results of several hosts with their files.
pub(crate) type Tally = Vec<(HostResult, String)>;

/// Formats the last lines after several hosts: counts, and the hosts that are not ready.
pub(crate) fn tally(tally: &Tally) -> String {
    let of = |wanted: HostResult| -> Vec<String> {
        let own = tally.iter().filter(|(result, _)| *result == wanted);
        own.map(|(_, file)| one_line(file)).collect()
    };
    let rows = [
        (BAD, "not ready", HostResult::NotReady),
        (BAD, "could not be checked", HostResult::Unusable),
        (WARN, "unknown", HostResult::CannotTell),
        (WARN, "ready with warnings", HostResult::Warned),
    ];
    let rows = rows.map(|(style, what, result)| (style, what, of(result)));
    let rows: Vec<_> = rows.into_iter().filter(|(.., files)| !files.is_empty()).collect();
    let mut counts = vec![format!("{} ready", of(HostResult::Ready).len())];
    counts.extend(rows.iter().map(|(_, what, files)| format!("{} {what}", files.len())));
    let hosts = format!("{}:", counted(tally.len(), "host"));
    let mut out = format!("\n{} {}\n", paint(HEAD, &hosts), counts.join(", "));
    for (style, what, files) in rows {
        let _ = writeln!(out, "  {}: {}", paint(style, what), files.join(", "));
    }
    out
}

/// Formats the output of `--explain`.
pub(crate) fn explain(check: &Check) -> String {
    let root = if check.needs_root { "yes" } else { "no" };
    let rows = [
        ("proves", check.proves),
        ("what", check.what),
        ("why", check.why),
        ("how", check.how),
        ("source", check.source),
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
        let _ = writeln!(out, "{:<width$}  {level}  {}", check.id, check.proves);
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
        let _ = write!(
            out,
            "\n## `{}`\n\nVerifies that {}. Group `{}`, level `{}`{root}.\n\n- **What**: {what}\n- **Why**: {why}\n\
             - **How**: {how}\n- **Source**: {source}\n",
            check.id,
            check.proves,
            check.group.name(),
            check.severity.name(),
        );
    }
    out
}
