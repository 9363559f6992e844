//! Checks of the report page: failed, warned and unknown ones as cards with their fix, the others folded. Pure.

use super::labelled;
use crate::report::markup::Markup;
use crate::report::page;
use crate::report::verify::{Category, rank};
use bedplate_core::verify::{Evidence, Judged, NOT_LOOKED_AT, Report};

/// Lines of evidence that are visible without unfolding.
const EVIDENCE: usize = 5;

/// Categories shown as cards.
const CARDS: [Category; 3] = [Category::Failed, Category::Warned, Category::Unknown];

/// Categories that are folded, with their titles.
const FOLDED: [(Category, &str); 3] = [
    (Category::Passed, "Passed"),
    (Category::NotApplicable, "Not applicable"),
    (Category::Ignored, "Ignored by the profile"),
];

fn of(report: &Report, wanted: Category) -> Vec<&Judged> {
    report.checks.iter().filter(|judged| Category::of(judged) == wanted).collect()
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
        report.checks.iter().filter(|judged| Category::of(judged).is_open()).collect();
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

/// Class of the elements that show a category.
pub(super) fn class(category: Category) -> &'static str {
    match category {
        Category::Failed => "wrong",
        Category::Warned | Category::Unknown => "doubt",
        Category::Passed => "good",
        Category::NotApplicable | Category::Ignored => "dim",
    }
}

/// Adds a check: result, finding, fix, evidence.
fn card(judged: &Judged, page: &mut Markup) {
    let category = Category::of(judged);
    let class = class(category);
    page.open("article", &[("class", &format_args!("check {class}")), ("id", &id(judged))]);
    page.open("h3", &[]);
    page.inline("span", &[("class", &"tag")], category.label());
    page.text(" ");
    page.text(judged.id);
    page.close();
    page.prose_element("p", &[], &judged.finding);
    if let Some(reason) = &judged.severity_reason {
        let label = format!("Severity {} set in the profile", judged.severity.name());
        labelled(page, &label, reason);
    }
    if let Some(fix) = judged.fix.as_deref().filter(|_| category.is_open()) {
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
        page.prose(&seen.value);
        page.text(" ");
        page.inline("span", &[("class", &"dim")], &format!("[{}]", seen.source));
    });
    page.close();
}
