//! Reboots and changes by bedplate, as tables of the report page. Pure.

use super::HostPage;
use crate::report::markup::Markup;
use crate::report::outline::{Reboots, Run};
use crate::report::{page, style, text};
use bedplate_base::Reading;

/// Changes of a run that are visible without unfolding.
const CHANGES: usize = 5;

/// Adds the required reboot, and the reboots that bedplate requested.
pub(super) fn reboots(host: &HostPage, page: &mut Markup) {
    page.element("h2", &[], "Reboots");
    let mut rows = Vec::new();
    rows.extend(
        host.plan
            .ok()
            .flatten()
            .map(|plan| ("Required by the profile", style::strip_marks(&text::reboot(plan)))),
    );
    let known = match &host.outline.reboots {
        Reading::Absent => {
            rows.push(("Requested by bedplate", "none".to_owned()));
            None
        }
        Reading::Unknown(why) => {
            rows.push(("Requested by bedplate", format!("unknown: record {why}")));
            None
        }
        Reading::Known(known) => Some(known),
    };
    rows.extend(known.into_iter().flat_map(requested));
    let rows = rows.into_iter().map(|(name, value)| vec![("", name.to_owned()), ("", value)]);
    page::table(page, &[], rows);
    let attempts = known.map(|known| known.attempts.as_slice()).unwrap_or_default();
    if !attempts.is_empty() {
        let rows = attempts.iter().map(|(at, how)| vec![("", at.clone()), ("", how.clone())]);
        page::table(page, &["requested at", "method"], rows);
    }
}

fn requested(known: &Reboots) -> Vec<(&'static str, String)> {
    let count = known.attempts.len().to_string();
    let more = [
        ("Requested by an operator, not before", &known.requested),
        ("Reboot lock held, or possibly held, since", &known.lock),
        ("Cause of the last boot", &known.cause),
    ];
    let more = more.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
    [("Requested since the host last converged", count)].into_iter().chain(more).collect()
}

/// Adds the runs of `apply` and `revert`.
pub(super) fn history(history: &Reading<Vec<Run>>, page: &mut Markup) {
    page.element("h2", &[], "Changes by bedplate");
    let runs = match history {
        Reading::Known(runs) => runs.as_slice(),
        Reading::Absent => &[],
        Reading::Unknown(why) => {
            return page.element("p", &[("class", &"dim")], &format!("History: {why}."));
        }
    };
    if runs.is_empty() {
        return page.element("p", &[], "No changes by bedplate on this host.");
    }
    let head = ["when", "command", "profile", "changes"];
    page::open_stacked(page, "history", &head);
    // Newest first: readers usually need recent changes.
    for run in runs.iter().rev() {
        page.open("tbody", &[]);
        page.open("tr", &[]);
        let profile = run.profile.as_deref().unwrap_or("–");
        for (label, text) in head.iter().zip([run.at.as_str(), run.command.as_str(), profile]) {
            page::cell(page, label, 1, |page| page.text(text));
        }
        page::cell(page, "changes", 1, |page| {
            // Failures must not be folded.
            let mut results: Vec<&(String, String)> = run.results.iter().collect();
            results.sort_by_key(|(result, _)| rank(result));
            page::list(page, &results, CHANGES, |page, (result, subject)| {
                let class = CLASSES[rank(result)];
                page.inline("span", &[("class", &class)], result);
                page.text(&format!(": {subject}"));
            });
        });
        page.close();
        page.close();
    }
    page.close();
}

/// Classes of results, by rank.
const CLASSES: [&str; 3] = ["wrong", "doubt", "good"];

/// Rank of a result: failures first, successes last.
fn rank(result: &str) -> usize {
    match result {
        "failed" | "blocked" | "refused" => 0,
        "done" | "reverted" => 2,
        _ => 1,
    }
}
