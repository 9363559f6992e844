//! Operator report of a plan by resource type: before → after, time of effect, reasons, disruptions.

mod group;

pub(crate) use group::{FEW, folded};

use std::fmt::Write as _;

use super::names;
use super::style::{BAD, FAINT, GONE, GOOD, HEAD, WARN, paint};
use bedplate_base::counted;
use bedplate_base::terminal::one_line;
use bedplate_core::apply::plan_line;
use bedplate_core::kind::KINDS;
use bedplate_core::plan::{
    BOOT_ENTRY, Change, Effect, Item, KindId, NEXT_COMMAND_LINE, NextBoot, Plan, Rationale,
    RebootNeed, Subject,
};
use bedplate_facts::names::Names;

/// Level of detail.
#[derive(Debug, Clone, Copy, Default)]
pub struct Detail {
    /// Shows reasons with their sources, and unchanged items.
    pub verbose: bool,
}

/// Notes of one type to show before the rest is counted.
const NOTES_SHOWN: usize = 3;

/// Formats the whole plan. `host` names the host in the first line.
pub fn plan(plan: &Plan, host: &str, detail: Detail) -> String {
    with_names(plan, host, detail, None)
}

/// Formats the whole plan, with the names of PCI devices next to their addresses.
pub(crate) fn with_names(plan: &Plan, host: &str, detail: Detail, names: Option<&Names>) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{} {}  {} {}",
        paint(HEAD, "profile"),
        one_line(&plan.profile),
        paint(HEAD, "host"),
        one_line(host)
    );
    let kinds = KINDS.iter().map(|kind| kind.id);
    for kind in [KindId::Profile, KindId::Host].into_iter().chain(kinds) {
        let said = section(plan, kind, detail, names);
        if !said.is_empty() {
            let _ = write!(out, "\n{}\n{said}", paint(HEAD, kind.name()));
        }
    }
    out.push('\n');
    out.push_str(&summary(plan));
    out
}

/// Formats the section of one resource type.
fn section(plan: &Plan, kind: KindId, detail: Detail, names: Option<&Names>) -> String {
    let mut out = String::new();
    let body = &plan.body;
    let changes: Vec<&Change> = body.changes.iter().filter(|change| change.kind == kind).collect();
    if detail.verbose {
        changes.iter().for_each(|change| one_change(&mut out, change, detail, names));
    } else {
        group::group_changes(&changes).iter().for_each(|group| match group.as_slice() {
            [only] => one_change(&mut out, only, detail, names),
            several => group::show(&mut out, several, names),
        });
    }
    for pending in body.pending.iter().filter(|p| p.kind == kind) {
        let _ = writeln!(
            out,
            "  {} {}: running {}, next boot {} {}",
            paint(WARN, "…"),
            pending.subject,
            value_or_absent(pending.running.as_deref()),
            value_or_absent(pending.next.as_deref()),
            paint(FAINT, &format!("({})", when(pending.effect)))
        );
    }
    for blocker in body.blockers.iter().filter(|b| b.kind == kind) {
        let name = device_name(names, &blocker.subject, ", ");
        let _ =
            writeln!(out, "  {} {}{name}: {}", paint(BAD, "✗"), blocker.subject, blocker.reason);
        let _ = writeln!(out, "      {} {}", paint(HEAD, "fix:"), blocker.remedy);
    }
    for unknown in body.unknowns.iter().filter(|u| u.kind == kind) {
        let name = device_name(names, &unknown.subject, ", ");
        let (subject, reason) = (&unknown.subject, &unknown.reason);
        let _ = writeln!(out, "  {} {subject}{name}: unknown: {reason}", paint(WARN, "?"));
    }
    let notes: Vec<_> = body.notes.iter().filter(|n| n.kind == kind).collect();
    let shown =
        if detail.verbose || notes.len() <= NOTES_SHOWN + 1 { notes.len() } else { NOTES_SHOWN };
    for note in &notes[..shown] {
        let _ = writeln!(out, "  {} {}: {}", paint(FAINT, "·"), note.subject, note.text);
    }
    if shown < notes.len() {
        let _ = writeln!(
            out,
            "  {} {} more notes; -v shows all",
            paint(FAINT, "·"),
            notes.len() - shown
        );
    }
    let settled: Vec<_> = body.settled.iter().filter(|s| s.kind == kind).collect();
    if detail.verbose {
        for one in &settled {
            let _ = writeln!(out, "  {} {}: {}", paint(GOOD, "✓"), one.subject, one.state);
        }
    } else if !settled.is_empty() {
        let _ = writeln!(out, "  {} {} unchanged", paint(GOOD, "✓"), settled.len());
    }
    out
}

/// Returns the name of the PCI device of a subject.
fn device_name(names: Option<&Names>, subject: &Subject, between: &str) -> String {
    let name = |names| names::with_ids(names, names::subject(names, subject)?);
    names.and_then(name).map(|name| format!("{between}{name}")).unwrap_or_default()
}

fn one_change(out: &mut String, change: &Change, detail: Detail, names: Option<&Names>) {
    let _ = writeln!(
        out,
        "  {}{}  {}",
        change.subject,
        device_name(names, &change.subject, "  "),
        paint(FAINT, &format!("[{}]", when(change.effect)))
    );
    for item in &change.items {
        one_item(out, item, detail);
    }
    // Register and attribute actions are the same as the items.
    for text in change.actions.iter().filter_map(|action| plan_line(action, &change.subject.text)) {
        let _ = writeln!(out, "      {} {}", paint(FAINT, "then:"), text);
    }
    for line in &change.disrupts {
        let _ = writeln!(out, "      {} {}", paint(WARN, "disrupts:"), line);
    }
    if let Some(deferred) = &change.deferred {
        let _ = writeln!(out, "      {} until {}", paint(WARN, "deferred"), deferred.until);
    }
}

/// Formats an item: `+ iommu=pt`, `~ ACS control: … → …`. Long lists are truncated without `verbose`.
fn item_line(item: &Item, detail: Detail) -> String {
    let fold = |text: &str| if detail.verbose { text.to_owned() } else { folded_value(text) };
    match (&item.before, &item.after) {
        (None, Some(after)) => paint(GOOD, &format!("+ {}", fold(&joined(&item.subject, after)))),
        (Some(before), None) => paint(GONE, &format!("- {}", fold(&joined(&item.subject, before)))),
        (Some(before), Some(after)) => format!(
            "{} {}: {} → {}",
            paint(WARN, "~"),
            fold(&item.subject),
            paint(GONE, &fold(before)),
            paint(GOOD, &fold(after))
        ),
        (None, None) => format!("{} {}", paint(WARN, "~"), fold(&item.subject)),
    }
}

/// Truncates a list: `pci=disable_acs_redir=A;B;C;… and 17 more; -v`.
fn folded_value(text: &str) -> String {
    folded(&text.split(';').collect::<Vec<_>>(), ";")
}

fn one_item(out: &mut String, item: &Item, detail: Detail) {
    let _ = writeln!(out, "    {}", item_line(item, detail));
    if detail.verbose {
        for why in &item.why {
            let _ = writeln!(out, "        {}", paint(FAINT, &reason(why, true)));
        }
    } else if let Some(why) = item.why.first() {
        let _ = writeln!(out, "        {}", paint(FAINT, &reason(why, false)));
    }
}

/// Joins subject and value; avoids `iommu=pt: iommu=pt`.
fn joined(subject: &str, value: &str) -> String {
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
        Effect::EveryBoot => "now, lost at reboot",
        Effect::NextBoot => "next boot",
        Effect::ColdBoot => "next cold boot",
    }
}

fn value_or_absent(value: Option<&str>) -> &str {
    value.unwrap_or("absent")
}

/// Describes why no reboot is requested: it is unnecessary, or the machine may not come back.
fn no_reboot(plan: &Plan) -> String {
    let is_reported =
        plan.body.unknowns.iter().any(|unknown| {
            [BOOT_ENTRY, NEXT_COMMAND_LINE].contains(&unknown.subject.text.as_str())
        });
    match &plan.next_boot {
        NextBoot::Unsound { .. } => paint(BAD, "do not reboot: the default boot entry is broken"),
        NextBoot::Unknown { .. } if is_reported => {
            paint(WARN, "do not reboot: the default boot entry is unknown")
        }
        _ => "no reboot needed".to_owned(),
    }
}

/// Formats the last line: counts, blockers, the reboot.
pub(crate) fn summary(plan: &Plan) -> String {
    let body = &plan.body;
    let deferred = body.changes.iter().filter(|change| change.deferred.is_some()).count();
    let doable = body.changes.len() - deferred;
    let mut parts = Vec::new();
    if doable > 0 {
        parts.push(paint(HEAD, &counted(doable, "change")));
    } else if body.blockers.is_empty() {
        // Unreadable items never count as converged (design §5).
        parts.push(match body.unknowns.is_empty() {
            true => paint(GOOD, "no changes"),
            false => paint(WARN, "no changes; some items could not be read"),
        });
    } else {
        parts.push("no changes can be applied".into());
    }
    if deferred > 0 {
        parts.push(paint(WARN, &format!("{deferred} deferred")));
    }
    if !body.pending.is_empty() {
        parts.push(paint(WARN, &format!("{} pending reboot", body.pending.len())));
    }
    if !body.blockers.is_empty() {
        parts.push(paint(BAD, &counted(body.blockers.len(), "blocker")));
    }
    if !body.unknowns.is_empty() {
        parts.push(paint(WARN, &format!("{} unknown", body.unknowns.len())));
    }
    let reboot = match plan.reboot {
        RebootNeed::None => no_reboot(plan),
        RebootNeed::Reboot => paint(WARN, "reboot required"),
        RebootNeed::Cold => paint(
            WARN,
            "reboot required (through firmware; not kexec or soft-reboot)",
        ),
    };
    parts.push(reboot);
    format!("{}\n", parts.join(", "))
}
