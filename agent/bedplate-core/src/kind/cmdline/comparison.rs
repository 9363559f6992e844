//! Compares the configured, next-boot and running lines with the edit, parameter by parameter.

use std::collections::BTreeSet;

use super::tuned::Tuned;
use super::{NAME, ObservedLines};
use crate::desired::DesiredCmdline;
use crate::kind::{Context, dropped};
use crate::plan::{Effect, Item, KindPlan, NEXT_COMMAND_LINE, Pending, Rationale};
use bedplate_base::Reading;
use bedplate_cmdline::{
    CommandLine, Edit, Finding, KernelDefaults, Status, Token, iommu_passthrough,
};
use bedplate_facts::Facts;
use bedplate_facts::kernel_defaults::kernel_defaults;
use bedplate_host::HostKind;

/// Status of every desired and unwanted argument in each state. All lists are in the edit's order.
pub(crate) struct Comparison {
    configured: Reading<Vec<Finding>>,
    next: Reading<Vec<Finding>>,
    running: Reading<Vec<Finding>>,
    remarks: Vec<String>,
    /// Source of the arguments that [`Comparison::credit`] counts as configured.
    credited_source: Option<String>,
}

/// Reads /proc/cmdline and compares all three lines.
pub(crate) fn compare(context: &Context, edit: &Edit, observed: &ObservedLines) -> Comparison {
    let defaults = kernel_defaults(context.reader, context.facts);
    let findings = |line: &Reading<CommandLine>| {
        line.clone().map(|line| edit.satisfied_for_all(&line, &defaults))
    };
    Comparison {
        configured: findings(&observed.configured),
        next: findings(&observed.next),
        running: findings(&running(context)),
        remarks: observed.remarks.clone(),
        credited_source: None,
    }
}

fn running(context: &Context) -> Reading<CommandLine> {
    if context.facts.host == HostKind::Image {
        return Reading::Absent;
    }
    Reading::from_result(super::running_line(context.reader))
}

impl Comparison {
    /// Whether the configuration cannot be evaluated completely, so that it may have unknown arguments.
    fn is_incomplete(&self) -> bool {
        !self.remarks.is_empty() || matches!(self.configured, Reading::Unknown(_))
    }

    /// Whether the configuration or the default boot entry has to change. An absent state (an image without a grub.cfg)
    /// needs no change. Neither does an unreadable one, which is reported as unknown elsewhere.
    pub(super) fn needs_change(&self) -> bool {
        [&self.configured, &self.next].iter().any(|state| {
            state.known().is_some_and(|findings| {
                findings.iter().any(|finding| !finding.status.is_satisfied())
            })
        })
    }

    /// Whether the default boot entry has every argument of the edit that the configuration has, so it was regenerated
    /// since.
    pub(super) fn is_regenerated(&self) -> bool {
        let Reading::Known(next) = &self.next else { return false };
        let is_asked = |index: usize| {
            let configured = self.configured.known().and_then(|findings| findings.get(index));
            configured.is_none_or(|finding| finding.status.is_satisfied())
        };
        let is_right =
            |(index, finding): (usize, &Finding)| !is_asked(index) || finding.status.is_satisfied();
        next.iter().enumerate().all(is_right)
    }

    /// Returns when the change takes effect: [`Effect::Now`] if the running kernel already has all arguments that the
    /// files lack, since then only the files change.
    pub(super) fn effect(&self) -> Effect {
        let differs = |index: usize| {
            let at = |state: &Reading<Vec<Finding>>| {
                state.known().and_then(|findings| findings.get(index)).cloned()
            };
            let wrong = |finding: &Finding| !finding.status.is_satisfied();
            let running = at(&self.running);
            let found = at(&self.configured).filter(wrong).or_else(|| match &self.next {
                Reading::Known(_) => at(&self.next).filter(wrong),
                // The entry has yet to be generated.
                Reading::Absent | Reading::Unknown(_) => running.clone(),
            })?;
            running.is_none_or(|running| wrong(&running)).then_some(found)
        };
        let states = [&self.configured, &self.next].into_iter().filter_map(Reading::known);
        let waiting: Vec<Finding> =
            (0..states.map(Vec::len).max().unwrap_or(0)).filter_map(differs).collect();
        match waiting.is_empty() {
            true => Effect::Now,
            false => {
                super::effect_of(waiting.iter().flat_map(|one| &one.entries).map(Token::as_str))
            }
        }
    }

    /// Returns the profile entries that all known states have by the kernel's build and not on their lines.
    pub(super) fn by_default(&self) -> BTreeSet<Token> {
        let mut entries = BTreeSet::new();
        let mut others = BTreeSet::new();
        for finding in
            [&self.configured, &self.next].into_iter().filter_map(Reading::known).flatten()
        {
            let list = if matches!(finding.status, Status::KernelDefault { .. }) {
                &mut entries
            } else {
                &mut others
            };
            list.extend(finding.entries.iter().cloned());
        }
        entries.difference(&others).cloned().collect()
    }

    /// Returns the differences of the configuration, or those of the default boot entry if the configuration has no
    /// differences.
    pub(super) fn items(&self, wanted: &DesiredCmdline) -> Vec<Item> {
        let configured = different(&self.configured);
        if !configured.is_empty() {
            return items_of(configured, wanted, None);
        }
        // Only a known configuration can have the arguments that a stale entry lacks.
        let is_stale = self.configured.known().is_some();
        items_of(different(&self.next), wanted, is_stale.then_some(&stale_entry_reason))
    }

    /// Whether an argument about the IOMMU is among [`Comparison::items`].
    pub(super) fn changes_iommu(&self) -> bool {
        let configured = different(&self.configured);
        let shown = if configured.is_empty() { different(&self.next) } else { configured };
        shown.into_iter().any(is_about_iommu)
    }
}

fn is_about_iommu(finding: &Finding) -> bool {
    finding.entries.iter().any(|entry| entry.as_str().contains("iommu"))
}

fn different(state: &Reading<Vec<Finding>>) -> Vec<&Finding> {
    let findings = state.known().into_iter().flatten();
    findings.filter(|finding| !finding.status.is_satisfied()).collect()
}

impl Comparison {
    /// Accounts for TuneD. Arguments that it adds count as configured. Arguments that bedplate gave up and TuneD still
    /// adds count as gone.
    pub(super) fn credit(&mut self, tuned: &Tuned, edit: &Edit, context: &Context) {
        let is_meant_to_go = |finding: &Finding| {
            let absent = &context.desired.cmdline.absent;
            finding.entries.iter().any(|entry| absent.iter().any(|arg| arg.token == *entry))
        };
        for (index, status) in tuned.statuses(edit).iter().enumerate() {
            if let Reading::Known(configured) = &mut self.configured
                && let Some(finding) = configured.get_mut(index)
                && finding.status == Status::Missing
                && status.is_satisfied()
            {
                finding.status = Status::Equivalent { by: tuned.source() };
            }
            if let Reading::Known(next) = &mut self.next
                && let Some(finding) = next.get_mut(index)
                && matches!(status, Status::Lingering { .. })
                && !is_meant_to_go(finding)
            {
                finding.status = Status::Gone;
            }
        }
        self.credited_source = Some(tuned.source());
    }

    /// Returns the profile entries that TuneD adds completely and the configuration lacks.
    pub(super) fn by_tuned(&self) -> BTreeSet<Token> {
        let is_credited = |finding: &&Finding| match (&finding.status, &self.credited_source) {
            (Status::Equivalent { by }, Some(source)) => by == source,
            _ => false,
        };
        let configured = self.configured.known().map(Vec::as_slice).unwrap_or_default();
        let (credited, others): (Vec<&Finding>, Vec<&Finding>) =
            configured.iter().partition(is_credited);
        let entries = |findings: Vec<&Finding>| -> BTreeSet<Token> {
            findings.into_iter().flat_map(|finding| finding.entries.clone()).collect()
        };
        entries(credited).difference(&entries(others)).cloned().collect()
    }
}

/// Returns the reason for a change where only the default boot entry differs: it has an argument too many, or lacks
/// one.
fn stale_entry_reason(status: &Status) -> Rationale {
    Rationale::because(match status {
        Status::Lingering { .. } => {
            "in the default boot entry, not in the configuration: not regenerated"
        }
        _ => "in the configuration, not in the default boot entry: not regenerated",
    })
}

fn items_of(
    different: Vec<&Finding>,
    wanted: &DesiredCmdline,
    extra: Option<&dyn Fn(&Status) -> Rationale>,
) -> Vec<Item> {
    different
        .into_iter()
        .map(|finding| {
            let subject = finding.entries.join(" ");
            let mut why: Vec<Rationale> =
                extra.map(|extra| extra(&finding.status)).into_iter().collect();
            for reason in finding
                .entries
                .iter()
                .flat_map(|entry| why_of(wanted, entry, finding.key.is_some()))
            {
                // The parts of one sequence of arguments often share their reason.
                if !why.contains(&reason) {
                    why.push(reason);
                }
            }
            if let Status::Reordered { rule, source, .. } = &finding.status {
                why.insert(0, Rationale::new(format!("only the order changes: {rule}"), *source));
            }
            let (before, after) = match &finding.status {
                Status::Other { found } | Status::Reordered { found, .. } => {
                    (Some(found.clone()), Some(subject.clone()))
                }
                Status::Lingering { found } => (Some(found.clone()), None),
                _ => (None, Some(subject.clone())),
            };
            Item { subject, before, after, why }
        })
        .collect()
}

fn why_of(wanted: &DesiredCmdline, entry: &Token, set: bool) -> Vec<Rationale> {
    let args = if set { &wanted.set } else { &wanted.absent };
    let named = args.iter().filter(|arg| arg.token == *entry);
    let mut why: Vec<Rationale> = named.flat_map(|arg| arg.why.clone()).collect();
    if why.is_empty() && !set {
        why.push(dropped());
    }
    why
}

/// Reports converged and pending parameters, unreadable states, and files that were not understood.
pub(crate) fn report(
    context: &Context,
    edit: &Edit,
    comparison: &Comparison,
    section: &mut KindPlan,
) {
    for (state, subject) in
        [(&comparison.configured, "configured command line"), (&comparison.next, NEXT_COMMAND_LINE)]
    {
        if let Reading::Unknown(reason) = state {
            section.unknowns.push(NAME.unknown(subject, reason.to_string()));
        }
    }
    // An image may get its entry at installation. A running host was booted from some entry.
    let nowhere =
        matches!((&comparison.configured, &comparison.next), (Reading::Known(_), Reading::Absent));
    if nowhere && context.facts.host != HostKind::Image {
        let reason = "no boot entry found; check that /boot is mounted".to_owned();
        section.unknowns.push(NAME.unknown(NEXT_COMMAND_LINE, reason));
    }
    if let Reading::Unknown(reason) = &comparison.running {
        let subject = "running command line";
        section.unknowns.push(NAME.unknown(subject, reason.to_string()));
    }
    // For an unknown line the note is already reported as the reason.
    let in_part = matches!(comparison.configured, Reading::Known(_));
    for remark in comparison.remarks.iter().filter(|_| in_part) {
        section.unknowns.push(NAME.unknown("configured command line", remark.clone()));
    }
    let count = edit.wanted().len() + edit.unwanted().len();
    for index in 0..count {
        plan_argument(context, comparison, index, section);
    }
}

fn plan_argument(context: &Context, comparison: &Comparison, index: usize, section: &mut KindPlan) {
    let at = |state: &'_ Reading<Vec<Finding>>| {
        state.known().and_then(|findings| findings.get(index)).cloned()
    };
    let (configured, next, running) =
        (at(&comparison.configured), at(&comparison.next), at(&comparison.running));
    let satisfied =
        |finding: &Option<Finding>| finding.as_ref().map(|finding| finding.status.is_satisfied());
    let Some(shown) = configured.clone().or(next.clone()).or(running.clone()) else { return };
    let subject = match shown.key {
        Some(_) => shown.entries.join(" "),
        None => format!("no {}", shown.entries.join(" ")),
    };
    match (satisfied(&configured), satisfied(&next), satisfied(&running)) {
        (Some(false), ..) | (_, Some(false), _) => {}
        // The files are converged and the kernel was booted before. An unknown entry proves nothing.
        (_, Some(true), Some(false)) => {
            section.iommu.passthrough_pending |= turns_passthrough_on(&shown, context.facts);
            section.iommu.pending |= is_about_iommu(&shown);
            section.pending.push(Pending {
                kind: NAME,
                effect: super::effect_of(shown.entries.iter().map(Token::as_str)),
                running: running.and_then(|finding| found(&finding.status)),
                next: next.or(configured).and_then(|finding| shown_as(&finding)),
                subject,
            });
        }
        (_, _, Some(false)) => {}
        // An incomplete configuration never proves an argument gone.
        _ if shown.key.is_none() && comparison.is_incomplete() => {}
        (configured, next, running) => section.unchanged.push(NAME.up_to_date(
            subject,
            places(context, configured, next, running) + &manner(&shown.status),
        )),
    }
}

/// Whether a desired argument enables IOMMU passthrough by itself.
fn turns_passthrough_on(wanted: &Finding, facts: &Facts) -> bool {
    let line = CommandLine::from_tokens(wanted.entries.clone());
    let on = iommu_passthrough(&line, &KernelDefaults::default(), super::arch(facts));
    wanted.key.is_some() && on == Some(true)
}

fn found(status: &Status) -> Option<String> {
    match status {
        Status::Equivalent { by } | Status::KernelDefault { by } => Some(by.clone()),
        other => other.found().map(str::to_owned),
    }
}

fn shown_as(finding: &Finding) -> Option<String> {
    match &finding.status {
        Status::Gone | Status::Missing => None,
        Status::Present => Some(finding.entries.join(" ")),
        other => found(other),
    }
}

fn places(
    context: &Context,
    configured: Option<bool>,
    next: Option<bool>,
    running: Option<bool>,
) -> String {
    let mut places = Vec::new();
    for (state, place) in [(configured, "configured"), (next, "next boot"), (running, "running")] {
        if state == Some(true) {
            places.push(place);
        }
    }
    if places.is_empty() && context.facts.host == HostKind::Image {
        return "converged".into();
    }
    places.join(", ")
}

fn manner(status: &Status) -> String {
    match status {
        Status::Equivalent { by } => format!(" (by {by})"),
        Status::KernelDefault { by } => format!(" (kernel default: {by})"),
        _ => String::new(),
    }
}

/// Reports the running line alone, for hosts whose boot loader is not managed.
pub(crate) fn running_only(context: &Context, edit: &Edit, section: &mut KindPlan) {
    let nothing =
        ObservedLines { configured: Reading::Absent, next: Reading::Absent, remarks: Vec::new() };
    let comparison = compare(context, edit, &nothing);
    report(context, edit, &comparison, section);
    let findings = comparison.running.known().map(Vec::as_slice).unwrap_or_default();
    for finding in findings.iter().filter(|finding| !finding.status.is_satisfied()) {
        let text = match found(&finding.status) {
            Some(found) => format!("the running kernel has {found}"),
            None => "the running kernel lacks it".to_owned(),
        };
        section.notes.push(NAME.note(finding.entries.join(" "), text));
    }
}
