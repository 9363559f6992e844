//! `bedplate report`: one page about a host: verdict, topology, plan, reboots, history. Its input was recorded and
//! thereby masked (`record`); nothing is read here. Pure.

use super::markup::Markup;
use super::topology::{self, TopologyView};
use super::verify::{rank, state};
use super::{diff, page, style, text};
use crate::report::outline::{Outline, Reboots, Run};
use bedplate_base::Reading;
use bedplate_base::terminal::one_line;
use bedplate_core::plan::{Plan, RebootNeed};
use bedplate_core::verify::{Answer, Judged, NOT_LOOKED_AT, NoPlan, Report, Verdict};
use bedplate_facts::names::Names;

/// Content of the page.
pub(crate) struct HostPage<'a> {
    /// Name of the host, if the page shows one.
    pub name: Option<&'a str>,
    /// The host: machine, operating system, kernel.
    pub label: &'a str,
    /// Results of the checks.
    pub verdict: &'a Report,
    /// Topology, if the PCI devices could be read and there are any.
    pub topology: Option<&'a TopologyView<'a>>,
    /// Names of devices.
    pub names: &'a Names<'a>,
    /// Difference from the host's profile. `None`: no profile; `Err`: reason why there is no plan.
    pub plan: Result<Option<&'a Plan>, NoPlan>,
    /// Changes and reboots by bedplate.
    pub outline: &'a Outline,
    /// Whether the page includes hardware addresses, serial numbers and ids.
    pub with_identifiers: bool,
}

/// Generates the page.
pub(crate) fn html(host: &HostPage) -> String {
    let name = host.name.map(|name| format!("{}, ", one_line(name))).unwrap_or_default();
    let title = format!("Host report: {name}{}", host.label);
    let mut page = page::open(&title);
    page.element("h1", &[], &title);
    let masked = match host.with_identifiers {
        true => {
            "Secrets are masked as in a snapshot; hardware addresses, serial numbers and ids are in it."
        }
        false => "Secrets, hardware addresses, serial numbers and ids are masked as in a snapshot.",
    };
    let about = format!("Made by bedplate {}. {masked}", env!("CARGO_PKG_VERSION"));
    page.element("p", &[("class", &"dim")], &about);
    verdict(host.verdict, &mut page);
    plan(host, &mut page);
    reboots(host, &mut page);
    history(&host.outline.history, &mut page);
    // The topology starts a new sheet.
    page.open("section", &[("class", &"sheet")]);
    page.element("h2", &[], "Topology");
    match host.topology {
        Some(shown) => topology::sections(shown, &mut page),
        None => page.element("p", &[("class", &"doubt")], "The PCI devices could not be read."),
    }
    page.close();
    page.finish()
}

fn verdict(report: &Report, page: &mut Markup) {
    page.element("h2", &[], "Is it ready for GPUDirect RDMA?");
    let class = match report.answer {
        Answer::Ready => "good",
        Answer::NotReady => "wrong",
        Answer::CannotTell => "doubt",
    };
    page.element("p", &[("class", &format_args!("answer {class}"))], &state(report));
    if let Some(next) = &report.next {
        page.element("p", &[], &format!("Next: {next}"));
    }
    let mut checks: Vec<&Judged> = report.checks.iter().collect();
    checks.sort_by_key(|judged| rank(judged));
    let rows = checks.iter().map(|judged| {
        let (class, word) = outcome(judged);
        let read = judged.evidence.iter().map(|seen| format!("{} ({})", seen.what, seen.at));
        let read = read.collect::<Vec<_>>().join("; ");
        let finding = match &judged.severity_reason {
            Some(reason) => format!(
                "{} (counts as `{}` in the profile: {reason})",
                judged.finding,
                judged.severity.name()
            ),
            None => judged.finding.clone(),
        };
        let needs = !matches!(judged.verdict, Verdict::Pass | Verdict::NotApplicable);
        let remedy = judged.remedy.clone().filter(|_| needs).unwrap_or_default();
        vec![
            ("", judged.id.to_owned()),
            (class, word.to_owned()),
            ("", finding),
            ("read", read),
            ("", remedy),
        ]
    });
    page.open("div", &[("class", &"checks")]);
    page::table(page, &["check", "outcome", "found", "read", "do"], rows);
    page.close();
    page.element("p", &[("class", &"dim")], &format!("Not looked at: {NOT_LOOKED_AT}."));
}

fn outcome(judged: &Judged) -> (&'static str, &'static str) {
    match judged.verdict {
        Verdict::Pass => ("good", "pass"),
        Verdict::NotApplicable => ("dim", "not applicable"),
        _ if judged.is_ignored() => ("dim", "ignored"),
        Verdict::Fail => ("wrong", "fail"),
        Verdict::Warn => ("doubt", "warn"),
        Verdict::Unknown => ("doubt", "unknown"),
    }
}

fn plan(host: &HostPage, page: &mut Markup) {
    page.element("h2", &[], "What its profile would change");
    let plan = match host.plan {
        Ok(Some(plan)) => plan,
        Ok(None) => {
            let none = "No profile on this host: nothing to compare with.";
            return page.element("p", &[], none);
        }
        Err(why) => {
            let class = if why == NoPlan::Unusable { "wrong" } else { "doubt" };
            let text = format!("There is no plan: {}; {}.", why.description(), why.command());
            return page.element("p", &[("class", &class)], &text);
        }
    };
    let detail = text::Detail { verbose: true };
    lines(&text::with_names(plan, host.label, detail, Some(host.names)), page);
    let diff = diff::plan(plan);
    if !diff.is_empty() {
        page.element("h3", &[], "The same as a diff");
        lines(&diff, page);
    }
}

/// Adds a terminal report line by line, with additions and removals colored.
fn lines(report: &str, page: &mut Markup) {
    page.open("div", &[("class", &"lines")]);
    for line in style::strip_marks(report).lines() {
        match line.as_bytes().first() {
            Some(b'+') => page.element("span", &[("class", &"good")], line),
            Some(b'-') => page.element("span", &[("class", &"wrong")], line),
            _ => page.element("span", &[], line),
        }
    }
    page.close();
}

fn reboots(host: &HostPage, page: &mut Markup) {
    page.element("h2", &[], "Reboots");
    let need = host.plan.ok().flatten().map(|plan| match plan.reboot {
        RebootNeed::None => "No reboot is needed for the profile.",
        RebootNeed::Reboot => "The profile needs a reboot.",
        RebootNeed::Cold => "The profile needs a reboot through firmware.",
    });
    need.into_iter().for_each(|need| page.element("p", &[], need));
    match &host.outline.reboots {
        Reading::Absent => page.element("p", &[], "bedplate has asked for no reboot."),
        Reading::Unknown(why) => {
            page.element(
                "p",
                &[("class", &"dim")],
                &format!("bedplate's record of reboots: {why}."),
            );
        }
        Reading::Known(known) => asked_for(known, page),
    }
}

fn asked_for(known: &Reboots, page: &mut Markup) {
    let count = known.attempts.len();
    page.element("p", &[], &format!("Asked for since the host was last right: {count}."));
    let rows = known.attempts.iter().map(|(at, how)| vec![("", at.clone()), ("", how.clone())]);
    if count > 0 {
        page::table(page, &["when", "how"], rows);
    }
    let more = [
        ("An operator wants one, not before", &known.asked),
        ("The fleet's lock is held, or may be, since", &known.lock),
        ("The last boot followed", &known.came),
    ];
    for (what, value) in more {
        if let Some(value) = value {
            page.element("p", &[], &format!("{what}: {value}."));
        }
    }
}

fn history(history: &Reading<Vec<Run>>, page: &mut Markup) {
    page.element("h2", &[], "What bedplate did");
    let runs = match history {
        Reading::Known(runs) => runs.as_slice(),
        Reading::Absent => &[],
        Reading::Unknown(why) => {
            return page.element("p", &[("class", &"dim")], &format!("The history: {why}."));
        }
    };
    if runs.is_empty() {
        return page.element("p", &[], "bedplate has not changed anything on this host.");
    }
    // Newest first: readers usually need recent changes.
    let rows = runs.iter().rev().map(|run| {
        let results = run.results.iter().map(|(result, subject)| format!("{result}: {subject}"));
        vec![
            ("", run.at.clone()),
            ("", run.command.clone()),
            ("", run.profile.clone().unwrap_or_default()),
            ("", results.collect::<Vec<_>>().join("; ")),
        ]
    });
    page::table(page, &["when", "command", "profile", "changes"], rows);
}
