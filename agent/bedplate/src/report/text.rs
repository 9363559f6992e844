//! Operator report of a plan by resource type: before → after, time of effect, reasons, disruptions.

mod group;

pub(crate) use group::{FEW, folded, group_changes};

use std::fmt::Write as _;

use super::names;
use super::style::{self, BAD, FAINT, GONE, GOOD, HEAD, WARN, paint};
use bedplate_base::counted;
use bedplate_base::terminal::one_line;
use bedplate_base::value::PciAddress;
use bedplate_core::apply::plan_line;
use bedplate_core::kind::KINDS;
use bedplate_core::plan::{
    BOOT_ENTRY, Change, Deferred, Effect, Item, KindId, NEXT_COMMAND_LINE, NextBoot, Plan,
    Rationale, RebootNeed, Subject,
};
use bedplate_facts::names::Names;

/// Level of detail.
#[derive(Debug, Clone, Copy, Default)]
pub struct Detail<'a> {
    /// Shows reasons with their sources, and unchanged items.
    pub verbose: bool,
    /// Resource types to show; empty for all.
    pub only: &'a [KindId],
}

/// Notes of one type to show before the rest is counted.
const NOTES_SHOWN: usize = 3;

/// Formats the whole plan. `host` names the host in the first line.
pub fn plan(plan: &Plan, host: &str, detail: Detail<'_>) -> String {
    with_names(plan, host, detail, None)
}

/// Formats the whole plan, with the names of PCI devices next to their addresses.
pub(crate) fn with_names(
    plan: &Plan,
    host: &str,
    detail: Detail<'_>,
    names: Option<&Names>,
) -> String {
    let mut out = format!(
        "{} {} on {}\n",
        paint(HEAD, "Profile"),
        paint(HEAD, &one_line(&plan.profile)),
        one_line(host)
    );
    let kinds = KINDS.iter().map(|kind| kind.id);
    let kinds = [KindId::Profile, KindId::Host].into_iter().chain(kinds);
    for kind in kinds.filter(|kind| detail.only.is_empty() || detail.only.contains(kind)) {
        let section = section(plan, kind, detail, names);
        if !section.is_empty() {
            let _ = write!(out, "\n{section}");
        } else if !detail.only.is_empty() {
            let _ = writeln!(out, "\n{}  no change", paint(HEAD, kind.name()));
        }
    }
    out.push('\n');
    out.push_str(&summary(plan));
    out
}

/// A change, or a group of equal ones.
struct Block {
    /// Time of effect and object: `after reboot: /etc/default/grub.d/zz-bedplate.cfg, then run update-grub`.
    title: String,
    /// Values, reasons and disruptions.
    lines: Vec<String>,
}

/// Formats the section of one resource type; empty if the plan has nothing of this type.
fn section(plan: &Plan, kind: KindId, detail: Detail<'_>, names: Option<&Names>) -> String {
    let body = &plan.body;
    let changes: Vec<&Change> = body.changes.iter().filter(|change| change.kind == kind).collect();
    let groups = match detail.verbose {
        true => changes.iter().map(|change| vec![*change]).collect(),
        false => group::group_changes(&changes),
    };
    let blocks = groups.iter().map(|group| match group.as_slice() {
        [only] => one_change(only, detail, names),
        several => group::block(several, names),
    });
    let blocks: Vec<Block> = blocks.collect();
    let state = state_lines(plan, kind, names);
    let notes = note_lines(plan, kind, detail);
    let head = paint(HEAD, kind.name());
    let mut out = match (blocks.as_slice(), state.is_empty()) {
        ([], true) if notes.is_empty() => return String::new(),
        ([], true) => format!("{head}  no change\n"),
        ([], false) => format!("{head}\n"),
        ([only], _) => format!("{head}  {}\n", only.title),
        _ => format!("{head}\n"),
    };
    for block in &blocks {
        let is_only = blocks.len() == 1;
        if !is_only {
            let _ = writeln!(out, "  {}", block.title);
        }
        for line in &block.lines {
            let _ = writeln!(out, "{}{line}", if is_only { "  " } else { "    " });
        }
    }
    for line in state.iter().chain(&notes) {
        let _ = writeln!(out, "  {line}");
    }
    out
}

/// Formats changes that wait for a boot, blockers and unknown values.
fn state_lines(plan: &Plan, kind: KindId, names: Option<&Names>) -> Vec<String> {
    let body = &plan.body;
    let mut lines = Vec::new();
    for pending in body.pending.iter().filter(|p| p.kind == kind) {
        lines.push(format!(
            "{} {}: running {}, {} {}",
            paint(WARN, "…"),
            pending.subject,
            value_or_absent(pending.running.as_deref()),
            when(pending.effect),
            value_or_absent(pending.next.as_deref()),
        ));
    }
    for blocker in body.blockers.iter().filter(|b| b.kind == kind) {
        let name = device_name(names, &blocker.subject, ", ");
        lines.push(format!("{} {}{name}: {}", paint(BAD, "✗"), blocker.subject, blocker.reason));
        lines.push(format!("    {} {}", paint(HEAD, "fix:"), blocker.fix));
    }
    for unknown in body.unknowns.iter().filter(|u| u.kind == kind) {
        let name = device_name(names, &unknown.subject, ", ");
        let (subject, reason) = (&unknown.subject, &unknown.reason);
        lines.push(format!("{} {subject}{name}: unknown: {reason}", paint(WARN, "?")));
    }
    lines
}

/// Formats notes and unchanged settings.
fn note_lines(plan: &Plan, kind: KindId, detail: Detail<'_>) -> Vec<String> {
    let body = &plan.body;
    let notes: Vec<_> = body.notes.iter().filter(|n| n.kind == kind).collect();
    let shown =
        if detail.verbose || notes.len() <= NOTES_SHOWN + 1 { notes.len() } else { NOTES_SHOWN };
    let sign = paint(FAINT, "·");
    let mut lines: Vec<String> = notes[..shown]
        .iter()
        .map(|note| format!("{sign} {}: {}", note.subject, note.text))
        .collect();
    if shown < notes.len() {
        lines.push(format!("{sign} {} more notes (-v)", notes.len() - shown));
    }
    let unchanged: Vec<_> = body.unchanged.iter().filter(|s| s.kind == kind).collect();
    let sign = paint(GOOD, "✓");
    if detail.verbose {
        lines.extend(unchanged.iter().map(|one| format!("{sign} {}: {}", one.subject, one.state)));
    } else if !unchanged.is_empty() {
        lines.push(format!("{sign} {} already correct", counted(unchanged.len(), "setting")));
    }
    lines
}

/// Returns the name of the PCI device of a subject.
pub(super) fn device_name(names: Option<&Names>, subject: &Subject, between: &str) -> String {
    let name = |names| names::with_ids(names, names::subject(names, subject)?);
    names.and_then(name).map(|name| format!("{between}{name}")).unwrap_or_default()
}

/// Formats a single change.
fn one_change(change: &Change, detail: Detail<'_>, names: Option<&Names>) -> Block {
    // Register and attribute actions are the same as the items.
    let tools = change.actions.iter().filter_map(|action| plan_line(action, &change.subject.text));
    let tools: String = tools.map(|text| format!(", then {text}")).collect();
    let title = format!(
        "{}: {}{}{tools}",
        paint(HEAD, when(change.effect)),
        change.subject,
        device_name(names, &change.subject, ", "),
    );
    let mut lines = item_lines(&change.items, detail);
    lines.extend(change.disrupts.iter().map(|line| format!("{} {line}", paint(WARN, "disrupts:"))));
    lines.extend(change.deferred.as_ref().map(deferred));
    Block { title, lines }
}

fn deferred(deferred: &Deferred) -> String {
    format!("{} until {}", paint(WARN, "deferred"), deferred.until)
}

/// Formats an item: `+ iommu=pt`, `~ ACS control: … → …`. Long lists are counted without `verbose`.
fn item_line(item: &Item, detail: Detail<'_>) -> String {
    let fold = |text: &str| if detail.verbose { text.to_owned() } else { counted_list(text) };
    match (&item.before, &item.after) {
        (None, Some(after)) => paint(GOOD, &format!("+ {}", fold(&joined(&item.subject, after)))),
        (Some(before), None) => paint(GONE, &format!("- {}", fold(&joined(&item.subject, before)))),
        (Some(_), Some(_)) => format!("{} {}", paint(WARN, "~"), transition(item, fold)),
        (None, None) => format!("{} {}", paint(WARN, "~"), fold(&item.subject)),
    }
}

/// Formats an item whose value changes: `ACS control: SV RR (0005) → SV (0001)`.
fn transition(item: &Item, fold: impl Fn(&str) -> String) -> String {
    format!(
        "{}: {} → {}",
        fold(&item.subject),
        paint(GONE, &fold(value_or_absent(item.before.as_deref()))),
        paint(GOOD, &fold(value_or_absent(item.after.as_deref())))
    )
}

/// Replaces a long list by its length: `pci=disable_acs_redir=<20 PCI devices>`.
pub(super) fn counted_list(text: &str) -> String {
    let (key, list) = match text.find(';').and_then(|end| text[..end].rfind('=')) {
        Some(equals) => text.split_at(equals + 1),
        None => ("", text),
    };
    let entries: Vec<&str> = list.split(';').collect();
    if entries.len() <= FEW {
        return text.to_owned();
    }
    let are_devices = entries.iter().all(|entry| entry.parse::<PciAddress>().is_ok());
    let what = if are_devices { "PCI devices" } else { "values" };
    format!("{key}<{} {what}>", entries.len())
}

/// Columns of the values that have their reasons on the same line.
const VALUES: usize = 44;

/// Formats items with their reasons: the first one next to each item, or all of them, with sources, below it.
fn item_lines(items: &[Item], detail: Detail<'_>) -> Vec<String> {
    let formatted: Vec<String> = items.iter().map(|item| item_line(item, detail)).collect();
    let columns = |line: &str| style::strip_marks(line).chars().count();
    let widths = formatted.iter().map(|line| columns(line)).filter(|width| *width <= VALUES);
    let widest = widths.max().unwrap_or_default();
    let mut lines = Vec::new();
    for (item, line) in items.iter().zip(formatted) {
        let whys = item.why.iter().map(|why| reason(why, detail.verbose));
        match (detail.verbose, whys.clone().next()) {
            (true, _) => {
                lines.push(line);
                lines.extend(whys.map(|why| format!("    {}", paint(FAINT, &why))));
            }
            (false, None) => lines.push(line),
            (false, Some(why)) if columns(&line) <= VALUES => {
                let gap = " ".repeat(widest - columns(&line));
                lines.push(format!("{line}{gap}  {}", paint(FAINT, &why)));
            }
            (false, Some(why)) => lines.extend([line, format!("    {}", paint(FAINT, &why))]),
        }
    }
    lines
}

/// Joins subject and value; avoids `iommu=pt: iommu=pt`.
pub(super) fn joined(subject: &str, value: &str) -> String {
    if value == subject || value.is_empty() {
        subject.to_owned()
    } else {
        format!("{subject}: {value}")
    }
}

fn reason(why: &Rationale, with_source: bool) -> String {
    match &why.source {
        Some(source) if with_source => format!("{} ({source})", why.reason),
        Some(_) | None => why.reason.clone(),
    }
}

/// Describes when a change takes effect. All reports use the same words.
pub(crate) fn when(effect: Effect) -> &'static str {
    match effect {
        Effect::Now => "now",
        Effect::FirstBoot => "at first boot",
        Effect::EveryBoot => "now (lost at reboot)",
        Effect::NextBoot => "after reboot",
        Effect::ColdBoot => "after cold reboot",
    }
}

pub(super) fn value_or_absent(value: Option<&str>) -> &str {
    value.unwrap_or("absent")
}

/// Describes the reboot that the plan needs, or why none may be done.
pub(super) fn reboot(plan: &Plan) -> String {
    let is_reported =
        plan.body.unknowns.iter().any(|unknown| {
            [BOOT_ENTRY, NEXT_COMMAND_LINE].contains(&unknown.subject.text.as_str())
        });
    match (plan.reboot, &plan.next_boot) {
        (RebootNeed::Reboot, _) => paint(WARN, "Reboot required."),
        (RebootNeed::Cold, _) => paint(WARN, "Cold reboot required (not kexec or soft-reboot)."),
        (RebootNeed::None, NextBoot::Unsound { .. }) => {
            paint(BAD, "Do not reboot: the default boot entry is broken.")
        }
        (RebootNeed::None, NextBoot::Unknown { .. }) if is_reported => {
            paint(WARN, "Do not reboot: the default boot entry is unknown.")
        }
        (RebootNeed::None, _) => "No reboot needed.".to_owned(),
    }
}

/// Counts changes by the time at which they take effect: `21 changes: 20 now, 1 after reboot`.
fn counted_changes(changes: &[&Change], reboot: RebootNeed) -> String {
    let count = |effect| changes.iter().filter(|change| change.effect == effect).count();
    let counts = Effect::ALL.map(|effect| (effect, count(effect)));
    let counts: Vec<_> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
    let total = counted(changes.len(), "change");
    // A reboot into a broken or unknown boot entry must not be announced.
    let waits = |effect: &Effect| matches!(effect, Effect::NextBoot | Effect::ColdBoot);
    match counts.as_slice() {
        _ if reboot == RebootNeed::None && changes.iter().any(|one| waits(&one.effect)) => total,
        [(effect, _)] => format!("{total} {}", when(*effect)),
        _ => {
            let parts = counts.iter().map(|(effect, count)| format!("{count} {}", when(*effect)));
            format!("{total}: {}", parts.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Formats the last line: counts, blockers, the reboot.
pub(crate) fn summary(plan: &Plan) -> String {
    let body = &plan.body;
    let (deferred, due): (Vec<&Change>, Vec<&Change>) =
        body.changes.iter().partition(|change| change.deferred.is_some());
    let mut parts = Vec::new();
    if !due.is_empty() {
        parts.push(paint(HEAD, &counted_changes(&due, plan.reboot)));
    } else if body.blockers.is_empty() {
        // Unreadable items never count as converged (design §5).
        parts.push(match body.unknowns.is_empty() {
            true => paint(GOOD, "No changes"),
            false => paint(WARN, "No changes among the readable items"),
        });
    } else {
        parts.push("No changes can be applied".into());
    }
    if !deferred.is_empty() {
        parts.push(paint(WARN, &format!("{} deferred", deferred.len())));
    }
    if !body.pending.is_empty() {
        parts.push(paint(WARN, &format!("{} waiting for a reboot", body.pending.len())));
    }
    if !body.blockers.is_empty() {
        parts.push(paint(BAD, &counted(body.blockers.len(), "blocker")));
    }
    if !body.unknowns.is_empty() {
        parts.push(paint(WARN, &format!("{} unknown", body.unknowns.len())));
    }
    format!("{}. {}\n", parts.join(", "), reboot(plan))
}
