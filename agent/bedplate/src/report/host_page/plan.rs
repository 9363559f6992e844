//! Plan of the report page, as tables of blockers, changes, and settings that wait for a reboot. The diff, notes and
//! settings that match the profile are folded. Pure.

use super::HostPage;
use crate::report::grouping::by_frequency;
use crate::report::markup::Markup;
use crate::report::names::models;
use crate::report::text::{
    counted_list, device_name, group_changes, joined, summary, value_or_absent, when,
};
use crate::report::{diff, page, style};
use bedplate_core::apply::plan_line;
use bedplate_core::plan::{Change, Item, KindPlan, Plan, Rationale, UpToDate};
use bedplate_core::verify::NoPlan;
use bedplate_facts::names::Names;

/// Lines of a cell that are visible without unfolding.
const LINES: usize = 5;
/// Sentences of a cell that are visible without unfolding.
const SENTENCES: usize = 2;

/// Columns of the changes.
const COLUMNS: [&str; 5] = ["resource type", "object", "change", "takes effect", "reason"];

/// Adds the plan.
pub(super) fn section(host: &HostPage, page: &mut Markup) {
    page.element("h2", &[], "Plan");
    let plan = match host.plan {
        Ok(Some(plan)) => plan,
        Ok(None) => {
            let none = "No profile on this host; nothing to compare.";
            return page.element("p", &[], none);
        }
        Err(why) => {
            let class = if why == NoPlan::Unusable { "wrong" } else { "doubt" };
            let text = format!("No plan: {}; {}.", why.description(), why.command());
            return page.prose_element("p", &[("class", &class)], &text);
        }
    };
    page.element("p", &[], style::strip_marks(&summary(plan)).trim_end());
    blockers(&plan.body, Some(host.names), page);
    changes(plan, host.names, page);
    pending(&plan.body, page);
    unknowns(&plan.body, Some(host.names), page);
    unchanged(&plan.body, page);
    let diff = diff::plan(plan, &[]);
    if !diff.is_empty() {
        page::fold(page, "Diff", |page| diff_lines(&diff, page));
    }
}

fn blockers(body: &KindPlan, names: Option<&Names>, page: &mut Markup) {
    if body.blockers.is_empty() {
        return;
    }
    page.element("h3", &[("class", &"wrong")], "Blockers");
    let rows = body.blockers.iter().map(|blocker| {
        let object = format!("{}{}", blocker.subject, device_name(names, &blocker.subject, ", "));
        let kind = blocker.kind.name().to_owned();
        vec![kind, object, blocker.reason.clone(), blocker.fix.clone()]
    });
    page::stacked(page, "blockers", &["resource type", "object", "reason", "fix"], rows);
}

fn changes(plan: &Plan, names: &Names, page: &mut Markup) {
    let all: Vec<&Change> = plan.body.changes.iter().collect();
    if all.is_empty() {
        return;
    }
    page.element("h3", &[], "Changes");
    page::open_stacked(page, "changes", &COLUMNS);
    for group in group_changes(&all) {
        change(&group, names, page);
    }
    page.close();
}

/// Adds the rows of changes that differ only in their subject, one for each item.
fn change(group: &[&Change], names: &Names, page: &mut Markup) {
    let Some(first) = group.first() else { return };
    let [kind, object_head, change_head, effect_head, reason_head] = COLUMNS;
    let rows = first.items.len();
    page.open("tbody", &[]);
    for (nth, item) in first.items.iter().enumerate() {
        page.open("tr", &[]);
        if nth == 0 {
            page::cell(page, kind, rows, |page| page.text(first.kind.name()));
            page::cell(page, object_head, rows, |page| object(group, names, page));
        }
        page::cell(page, change_head, 1, |page| transition(item, page));
        if nth == 0 {
            page::cell(page, effect_head, rows, |page| effect(group, page));
        }
        page::cell(page, reason_head, 1, |page| {
            let items = group.iter().filter_map(|change| change.items.get(nth));
            let reasons = by_frequency(items.flat_map(|item| &item.why));
            page::list(page, &reasons, SENTENCES, |page, why| reason(why, page));
        });
        page.close();
    }
    page.close();
}

/// Adds the object of a change, or the number of objects with their models and addresses, and the tools that run.
fn object(group: &[&Change], names: &Names, page: &mut Markup) {
    match group {
        [only] => {
            page.text(&only.subject.text);
            page.text(&device_name(Some(names), &only.subject, ", "));
        }
        several => {
            let devices = several.iter().filter_map(|change| change.subject.device.as_deref());
            let devices: Vec<_> = devices.collect();
            if let Some(first) = devices.first() {
                page.text(&format!("{} {}s", devices.len(), first.role));
            }
            let functions = devices.iter().filter_map(|device| names.function(device.address));
            for model in models(names, functions) {
                page.element("p", &[("class", &"dim")], &model);
            }
            page::list(page, &devices, LINES, |page, device| page.text(&device.name()));
        }
    }
    let Some(first) = group.first() else { return };
    // Register and attribute actions are the same as the items.
    let tools = first.actions.iter().filter_map(|action| plan_line(action, &first.subject.text));
    for tool in tools {
        page.element("p", &[("class", &"dim")], &format!("then {tool}"));
    }
}

/// Adds the difference: `add …`, `remove …`, or the old and the new value.
fn transition(item: &Item, page: &mut Markup) {
    let code = |page: &mut Markup, class: &str, text: &str| {
        page.inline("code", &[("class", &class)], &counted_list(text));
    };
    match (&item.before, &item.after) {
        (None, Some(after)) => {
            page.text("add ");
            code(page, "good", &joined(&item.subject, after));
        }
        (Some(before), None) => {
            page.text("remove ");
            code(page, "wrong", &joined(&item.subject, before));
        }
        (None, None) => page.prose(&item.subject),
        (Some(before), Some(after)) => {
            page.prose(&format!("{}: ", counted_list(&item.subject)));
            code(page, "wrong", before);
            page.text(" → ");
            code(page, "good", after);
        }
    }
}

/// Adds the time of effect, what it waits for, and disruptions.
fn effect(group: &[&Change], page: &mut Markup) {
    let Some(first) = group.first() else { return };
    page.text(when(first.effect));
    if let Some(deferred) = &first.deferred {
        page.prose_element(
            "p",
            &[("class", &"doubt")],
            &format!("deferred until {}", deferred.until),
        );
    }
    let disrupts = by_frequency(group.iter().flat_map(|change| &change.disrupts));
    if !disrupts.is_empty() {
        page.element("p", &[("class", &"doubt")], "disrupts:");
        page::list(page, &disrupts, SENTENCES, |page, line| page.prose(line));
    }
}

fn reason(why: &Rationale, page: &mut Markup) {
    page.prose(&why.reason);
    if let Some(source) = &why.source {
        page.text(" ");
        page.inline("span", &[("class", &"dim")], &format!("({source})"));
    }
}

fn pending(body: &KindPlan, page: &mut Markup) {
    if body.pending.is_empty() {
        return;
    }
    page.element("h3", &[], "Waiting for a reboot");
    let rows = body.pending.iter().map(|pending| {
        vec![
            pending.kind.name().to_owned(),
            pending.subject.clone(),
            value_or_absent(pending.running.as_deref()).to_owned(),
            value_or_absent(pending.next.as_deref()).to_owned(),
            when(pending.effect).to_owned(),
        ]
    });
    let head = ["resource type", "object", "running", "new value", "takes effect"];
    page::stacked(page, "pending", &head, rows);
}

fn unknowns(body: &KindPlan, names: Option<&Names>, page: &mut Markup) {
    if body.unknowns.is_empty() {
        return;
    }
    page.element("h3", &[("class", &"doubt")], "Unknown");
    let rows = body.unknowns.iter().map(|unknown| {
        let object = format!("{}{}", unknown.subject, device_name(names, &unknown.subject, ", "));
        vec![unknown.kind.name().to_owned(), object, unknown.reason.clone()]
    });
    page::stacked(page, "unknowns", &["resource type", "object", "reason"], rows);
}

/// Adds notes, and settings that match the profile.
fn unchanged(body: &KindPlan, page: &mut Markup) {
    if !body.notes.is_empty() {
        page::fold(page, &format!("Notes ({})", body.notes.len()), |page| {
            let rows = body.notes.iter().map(|note| {
                vec![note.kind.name().to_owned(), note.subject.clone(), note.text.clone()]
            });
            page::stacked(page, "notes", &["resource type", "object", "note"], rows);
        });
    }
    if !body.unchanged.is_empty() {
        page::fold(page, &format!("Already correct ({})", body.unchanged.len()), |page| {
            let rows = body.unchanged.iter().map(|setting| {
                let UpToDate { kind, subject, state } = setting;
                vec![kind.name().to_owned(), subject.clone(), state.clone()]
            });
            page::stacked(page, "unchanged", &["resource type", "setting", "state"], rows);
        });
    }
}

/// Adds a diff with additions and removals colored.
fn diff_lines(diff: &str, page: &mut Markup) {
    page.open("div", &[("class", &"lines")]);
    for line in style::strip_marks(diff).lines() {
        match line.as_bytes().first() {
            Some(b'+') => page.element("span", &[("class", &"good")], line),
            Some(b'-') => page.element("span", &[("class", &"wrong")], line),
            _ => page.element("span", &[], line),
        }
    }
    page.close();
}
