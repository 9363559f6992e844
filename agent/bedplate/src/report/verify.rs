//! Operator report of readiness: problems with the most severe first, counts of passed checks, then the answer.

mod category;
mod evidence;
mod registry;

pub(crate) use category::Category;
pub use registry::markdown;
pub(crate) use registry::{explain, list};

use std::fmt::Write as _;

use super::grouping::grouped;
use super::style::{BAD, FAINT, GOOD, HEAD, WARN, paint};
use super::text::folded;
use bedplate_base::terminal::one_line;
use bedplate_base::{counted, counted_as};
use bedplate_core::verify::{Answer, CHECKS, Evidence, Judged, NOT_LOOKED_AT, Report, Stage};

/// Number of evidence items to show before the rest is counted.
pub(super) const SEEN: usize = 3;

/// Formats the whole report. `verbose` adds passed checks and all evidence.
pub fn verify(report: &Report, host: &str, verbose: bool) -> String {
    let mut out = format!("{}  {}\n", paint(HEAD, "Host"), one_line(host));
    // Findings that the profile ignores are still shown, with their reason.
    let is_fine = |judged: &Judged| COUNTED.contains(&Category::of(judged));
    let mut shown: Vec<&Judged> =
        report.checks.iter().filter(|judged| verbose || !is_fine(judged)).collect();
    // Stable sort: checks of equal severity stay in order of priority.
    shown.sort_by_key(|judged| rank(judged));
    let labels = shown.iter().map(|judged| Category::of(judged).label().len());
    let width = labels.max().unwrap_or_default();
    let mut fixes: Vec<(&str, &str)> = Vec::new();
    for (at, judged) in shown.iter().enumerate() {
        if at == 0 || verbose && rank(judged) != rank(shown[at - 1]) {
            out.push('\n');
        }
        format_check(&mut out, judged, width, verbose);
        format_fix(&mut out, judged, width, &mut fixes);
    }
    if !verbose {
        out.push('\n');
        for category in COUNTED {
            counts(&mut out, &report.checks, category);
        }
    }
    out.push('\n');
    out.push_str(&answer(report));
    hints(&mut out, report);
    out
}

/// Categories that are only counted without `-v`.
const COUNTED: [Category; 2] = [Category::Passed, Category::NotApplicable];

/// Order of checks in reports.
pub(super) fn rank(judged: &Judged) -> u8 {
    match (Category::of(judged), judged.is_inconclusive()) {
        (Category::Failed, _) => 0,
        (Category::Unknown, true) => 1,
        (Category::Warned, _) => 2,
        (Category::Unknown, false) => 3,
        (Category::Passed, _) => 4,
        (Category::NotApplicable | Category::Ignored, _) => 5,
    }
}

/// Formats the label of a category.
fn label(category: Category, width: usize) -> String {
    let style = match category {
        Category::Passed => GOOD,
        Category::NotApplicable | Category::Ignored => FAINT,
        Category::Failed => BAD,
        Category::Warned | Category::Unknown => WARN,
    };
    paint(style, &format!("{:<width$}", category.label()))
}

/// Counts checks by group: `PASS  36: iommu 2, acs 1`.
fn counts(out: &mut String, checks: &[Judged], category: Category) {
    let number = category.number(checks);
    if number > 0 {
        let own = checks.iter().filter(|judged| Category::of(judged) == category);
        let groups = grouped(own, |judged| judged.group.name());
        let groups = groups.iter().map(|(group, checks)| format!("{group} {}", checks.len()));
        let groups = groups.collect::<Vec<_>>().join(", ");
        let _ = writeln!(
            out,
            "{}  {number}: {groups}",
            label(category, Category::Passed.label().len())
        );
    }
}

fn format_check(out: &mut String, judged: &Judged, width: usize, verbose: bool) {
    let word = label(Category::of(judged), width);
    let (source, evidence) = match judged.evidence.as_slice() {
        // A bare value is clear next to the finding: `[/proc/sys/kernel/numa_balancing: 1]`.
        [only] if !only.value.contains(' ') => {
            let source = format!("[{}: {}]", one_line(&only.source), one_line(&only.value));
            (format!(" {}", paint(FAINT, &source)), [].as_slice())
        }
        all => (String::new(), all),
    };
    let finding = one_line(&judged.finding);
    let _ = writeln!(out, "{word}  {}  {finding}{source}", paint(HEAD, judged.id));
    let indent = " ".repeat(width + 2);
    if let Some(reason) = &judged.severity_reason {
        let _ = writeln!(
            out,
            "{indent}{} {}, because: {}",
            paint(FAINT, "severity set by the profile:"),
            judged.severity.name(),
            one_line(reason)
        );
    }
    for line in evidence::lines(evidence, (!verbose).then_some(SEEN)) {
        let _ = writeln!(out, "{indent}{line}");
    }
}

/// Formats the fix of a check that needs one. A fix that was printed before is referred to by its check.
fn format_fix<'a>(
    out: &mut String,
    judged: &'a Judged,
    width: usize,
    fixes: &mut Vec<(&'a str, &'a str)>,
) {
    let Some(fix) = judged.fix.as_deref() else { return };
    if !Category::of(judged).is_open() {
        return;
    }
    let known = fixes.iter().find(|(text, _)| *text == fix);
    let text = match known {
        Some((_, id)) => format!("same as {id}"),
        None => one_line(fix),
    };
    fixes.push((fix, judged.id));
    let indent = " ".repeat(width + 2);
    let _ = writeln!(out, "{indent}{} {text}", paint(HEAD, "fix:"));
}

/// Formats the first `most` items of evidence and counts the rest, followed by `where_all`.
pub(super) fn evidence(out: &mut String, all: &[Evidence], most: usize, where_all: &str) {
    let read = paint(FAINT, "read:");
    for seen in all.iter().take(most) {
        let at = paint(FAINT, &format!("({})", one_line(&seen.source)));
        let _ = writeln!(out, "      {read} {} {at}", one_line(&seen.value));
    }
    if let more @ 1.. = all.len().saturating_sub(most) {
        let _ = writeln!(out, "      {read} {more} more{where_all}");
    }
}

/// Formats the fix, if any.
pub(super) fn fix(out: &mut String, fix: Option<&str>) {
    if let Some(fix) = fix {
        let _ = writeln!(out, "      {} {}", paint(HEAD, "fix:"), one_line(fix));
    }
}

/// Formats the answer: `ready, with 2 warnings`; `not ready: …, and 1 more check fails: acs.path`.
pub(crate) fn state(report: &Report) -> String {
    let because = report.reason.as_deref().map(one_line).unwrap_or_default();
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

/// Formats the answer as `bedplate status` does, with a reason in each case: `ready: no check fails, 2 warnings`.
#[cfg(feature = "daemon")]
pub(crate) fn verdict_line(report: &Report) -> String {
    match report.answer {
        Answer::Ready => format!("ready: no check fails{}", warnings_and_unknowns(report)),
        Answer::NotReady | Answer::CannotTell => state(report),
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

/// Counts the findings that do not decide the answer: `, 2 warnings, 1 unknown`.
fn warnings_and_unknowns(report: &Report) -> String {
    let decided = match report.answer {
        Answer::CannotTell => report.decided_by.len(),
        Answer::Ready | Answer::NotReady => 0,
    };
    let counts = [Category::Warned, Category::Unknown, Category::Ignored].map(|category| {
        let number = category.number(&report.checks);
        (category, if category == Category::Unknown { number - decided } else { number })
    });
    let counts = counts.into_iter().filter(|(_, count)| *count > 0);
    counts.map(|(category, count)| format!(", {}", category.count(count))).collect()
}

/// Formats the answer: `NOT READY: 2 failed, 2 warnings. Fix iommu.mode first.`
pub(crate) fn answer(report: &Report) -> String {
    let (selected, all) = (report.checks.len(), CHECKS.len());
    let count = |category: Category| category.count(category.number(&report.checks));
    let of = if report.partial {
        format!(" ({selected} of {all} checks selected)")
    } else {
        String::new()
    };
    let on = report.stage.map(|stage| format!(" on stage {stage}")).unwrap_or_default();
    let first = |action: &str| match report.decided_by.first() {
        Some(id) => format!(". {action} {id} first."),
        None => String::new(),
    };
    match report.answer {
        Answer::Ready if report.partial => format!(
            "{}: {} of {selected} selected checks, {}{} ({all} available)\n",
            match [Category::Warned, Category::Unknown].map(|open| open.number(&report.checks)) {
                [0, 0] => paint(GOOD, "PASSED"),
                _ => paint(WARN, "NO FAILURE"),
            },
            count(Category::Passed),
            count(Category::NotApplicable),
            warnings_and_unknowns(report)
        ),
        Answer::Ready if report.image => format!(
            "{}{}; verify the machine that runs it\n",
            paint(GOOD, "READY: the image matches its profile"),
            warnings_and_unknowns(report)
        ),
        Answer::Ready => format!(
            "{}{on}: {}{}\n",
            paint(GOOD, "READY"),
            count(Category::Passed),
            warnings_and_unknowns(report)
        ),
        Answer::NotReady => format!(
            "{}{on}: {} failed{}{of}{}\n",
            paint(BAD, "NOT READY"),
            report.decided_by.len(),
            warnings_and_unknowns(report),
            first("Fix")
        ),
        Answer::CannotTell => format!(
            "{}{on}: {}{}{of}{}\n",
            paint(WARN, "UNKNOWN"),
            counted_as(
                report.decided_by.len(),
                "deciding check has no verdict",
                "deciding checks have no verdict"
            ),
            warnings_and_unknowns(report),
            first("Resolve")
        ),
    }
}

/// Formats what `ready` does not cover, what one `bedplate apply` fixes, and how to create a profile if there is none.
fn hints(out: &mut String, report: &Report) {
    if report.answer == Answer::Ready && !report.partial && !report.image {
        let left_out = match report.stage {
            Some(Stage::Host) => "drivers, peer memory, RDMA ports, storage (stage gpudirect)",
            Some(Stage::Gpudirect) | None => NOT_LOOKED_AT,
        };
        let _ = writeln!(out, "{}", paint(FAINT, &format!("Not checked: {left_out}")));
    }
    let open = || {
        let checks = report.checks.iter();
        checks.filter(|one| one.fix.is_some() && Category::of(one).is_open())
    };
    let settings: Vec<&Judged> = open().filter(|judged| judged.in_profile).collect();
    if settings.len() > 1 {
        let _ = writeln!(
            out,
            "Set {} of {} fixes in the profile, then run `bedplate apply` once.",
            settings.len(),
            open().count()
        );
    }
    if report.needs_profile {
        out.push_str("No profile yet: create one with `bedplate profile init`.\n");
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
