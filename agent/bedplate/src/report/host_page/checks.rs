//! Checks of the report page: failed, warned and unknown ones as cards with their fix, the others folded. Pure.

use super::labelled;
use crate::report::markup::Markup;
use crate::report::page;
use crate::report::verify::rank;
use bedplate_base::counted_as;
use bedplate_core::verify::{Evidence, Judged, NOT_LOOKED_AT, Report, Verdict};

/// Lines of evidence that are visible without unfolding.
const EVIDENCE: usize = 5;

/// Part of the page that shows a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Category {
    Failed,
    Warned,
    Unknown,
    Passed,
    NotApplicable,
    /// Neither passed nor not applicable, and ignored by the profile.
    Ignored,
}

/// Returns the part of the page that shows a check.
pub(super) fn category(judged: &Judged) -> Category {
    match judged.verdict {
        Verdict::Pass => Category::Passed,
        Verdict::NotApplicable => Category::NotApplicable,
        _ if judged.is_ignored() => Category::Ignored,
        Verdict::Fail => Category::Failed,
        Verdict::Warn => Category::Warned,
        Verdict::Unknown => Category::Unknown,
    }
}

impl Category {
    /// Class and label of a check.
    fn label(self) -> (&'static str, &'static str) {
        match self {
            Category::Failed => ("wrong", "FAIL"),
            Category::Warned => ("doubt", "WARN"),
            Category::Unknown => ("doubt", "UNKNOWN"),
            Category::Passed => ("good", "PASS"),
            Category::NotApplicable => ("dim", "N/A"),
            Category::Ignored => ("dim", "IGNORED"),
        }
    }

    /// Formats a number of checks: `2 warnings`.
    pub(super) fn count(self, count: usize) -> String {
        match self {
            Category::Failed => format!("{count} failed"),
            Category::Warned => counted_as(count, "warning", "warnings"),
            Category::Unknown => format!("{count} unknown"),
            Category::Passed => format!("{count} passed"),
            Category::NotApplicable => format!("{count} not applicable"),
            Category::Ignored => format!("{count} ignored by the profile"),
        }
    }
}

/// Categories shown as cards.
const CARDS: [Category; 3] = [Category::Failed, Category::Warned, Category::Unknown];

/// Categories that are folded, with their titles.
const FOLDED: [(Category, &str); 3] = [
    (Category::Passed, "Passed"),
    (Category::NotApplicable, "Not applicable"),
    (Category::Ignored, "Ignored by the profile"),
];

fn of(report: &Report, wanted: Category) -> Vec<&Judged> {
    report.checks.iter().filter(|judged| category(judged) == wanted).collect()
}

/// Adds the number of checks by result, with links to the cards.
pub(super) fn links(report: &Report, page: &mut Markup) {
    for wanted in CARDS {
        let checks = of(report, wanted);
        if checks.is_empty() {
            continue;
        }
        page.open("p", &[]);
        page.inline("strong", &[], &format!("{}:", wanted.count(checks.len())));
        for (nth, judged) in checks.iter().enumerate() {
            page.text(if nth == 0 { " " } else { ", " });
            page.inline("a", &[("href", &format_args!("#{}", id(judged)))], judged.id);
        }
        page.close();
    }
    let rest = FOLDED.map(|(wanted, _)| (wanted, of(report, wanted).len()));
    let rest = rest.into_iter().filter(|(_, count)| *count > 0);
    let rest: Vec<String> = rest.map(|(wanted, count)| wanted.count(count)).collect();
    if !rest.is_empty() {
        page.element("p", &[("class", &"dim")], &rest.join(", "));
    }
}

/// Id of the element that shows a check.
fn id(judged: &Judged) -> String {
    format!("check-{}", judged.id)
}

/// Adds all checks.
pub(super) fn sections(report: &Report, page: &mut Markup) {
    page.element("h2", &[], "Failed and warned checks");
    let mut open: Vec<&Judged> =
        report.checks.iter().filter(|judged| CARDS.contains(&category(judged))).collect();
    // Stable sort: checks of equal severity stay in order of priority.
    open.sort_by_key(|judged| rank(judged));
    if open.is_empty() {
        page.element("p", &[("class", &"good")], "No check failed, warned or is unknown.");
    } else {
        page.open("div", &[("class", &"findings")]);
        open.iter().for_each(|judged| card(judged, page));
        page.close();
    }
    for (wanted, title) in FOLDED {
        let checks = of(report, wanted);
        if checks.is_empty() {
            continue;
        }
        page::fold(page, &format!("{title} ({})", checks.len()), |page| {
            page.open("div", &[("class", &"findings")]);
            checks.iter().for_each(|judged| card(judged, page));
            page.close();
        });
    }
    page.element("p", &[("class", &"dim")], &format!("Not checked: {NOT_LOOKED_AT}."));
}

/// Adds a check: result, finding, fix, evidence.
fn card(judged: &Judged, page: &mut Markup) {
    let shown = category(judged);
    let (class, label) = shown.label();
    page.open("article", &[("class", &format_args!("check {class}")), ("id", &id(judged))]);
    page.open("h3", &[]);
    page.inline("span", &[("class", &"tag")], label);
    page.text(" ");
    page.text(judged.id);
    page.close();
    page.prose_element("p", &[], &judged.finding);
    if let Some(reason) = &judged.severity_reason {
        let label = format!("Severity {} set in the profile", judged.severity.name());
        labelled(page, &label, reason);
    }
    if let Some(fix) = judged.remedy.as_deref().filter(|_| CARDS.contains(&shown)) {
        labelled(page, "Fix", fix);
    }
    evidence(&judged.evidence, page);
    page.close();
}

fn evidence(all: &[Evidence], page: &mut Markup) {
    if all.is_empty() {
        return;
    }
    page.open("div", &[("class", &"evidence")]);
    page::list(page, all, EVIDENCE, |page, seen| {
        page.prose(&seen.what);
        page.text(" ");
        page.inline("span", &[("class", &"dim")], &format!("[{}]", seen.at));
    });
    page.close();
}
