//! Summary of outcomes: ready, not ready, or cannot tell, and the first action.

use std::collections::BTreeMap;

use serde::Serialize;

use super::outcome::Evidence;
use crate::plan::KindId;

use super::{
    CHECKS, Check, CheckInput, Finding, Group, Outcome, Override, Selection, Severity, Stage,
    Verdict, image,
};
use bedplate_base::Recovery;
use bedplate_host::HostKind;

/// A check and its result on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Judged {
    /// Check id.
    pub id: &'static str,
    /// Group.
    pub group: Group,
    /// Statement that a pass verifies.
    pub verifies: &'static str,
    /// Verdict.
    pub verdict: Verdict,
    /// Finding, in one sentence.
    pub finding: String,
    /// Evidence.
    pub evidence: Vec<Evidence>,
    /// Findings in machine-readable form.
    pub codes: Vec<Finding>,
    /// Fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// Whether the fix is a setting of the profile.
    #[serde(skip)]
    pub in_profile: bool,
    /// Severity if the host does not pass: `fail`, `warn` or `ignore`.
    pub severity: Severity,
    /// Reason in the profile for an overridden severity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity_reason: Option<String>,
}

/// Fix for unknown checks without one of their own.
const TO_KNOW: &str = "run `bedplate inspect` for the unreadable items. Not readable on this machine? Set the check's level \
                       under [verify.severity] in the profile";

impl Judged {
    fn new(
        check: &'static Check,
        level: Severity,
        outcome: Outcome,
        said: Option<&Override>,
    ) -> Self {
        let Outcome { verdict, finding, evidence, codes, fix, in_profile, at_most } = outcome;
        let is_unknown = verdict == Verdict::Unknown;
        let fix = fix.or_else(|| is_unknown.then(|| TO_KNOW.to_owned()));
        let severity = said.map_or(level.min(at_most), |said| said.level);
        let verdict = match (verdict, severity) {
            // A profile may raise the severity as well as lower it.
            (Verdict::Warn, Severity::Fail) if said.is_some() => Verdict::Fail,
            (Verdict::Fail, Severity::Warn) => Verdict::Warn,
            _ => verdict,
        };
        Judged {
            id: check.id,
            group: check.group,
            verifies: check.verifies,
            verdict,
            finding,
            evidence,
            codes,
            fix,
            in_profile,
            severity,
            severity_reason: said.map(|said| said.reason.clone()),
        }
    }

    /// Whether the profile ignores the check.
    pub fn is_ignored(&self) -> bool {
        self.severity == Severity::Ignore
    }

    /// Whether the check makes the host not ready.
    pub fn fails(&self) -> bool {
        self.verdict == Verdict::Fail && !self.is_ignored()
    }

    /// Returns the recovery action: the strongest one of its findings.
    pub fn recovery(&self) -> Recovery {
        self.codes.iter().map(Finding::recovery).max().unwrap_or_default()
    }

    /// Whether missing evidence could hide a failure that makes the host not ready. A check that can only warn cannot.
    pub fn is_inconclusive(&self) -> bool {
        self.verdict == Verdict::Unknown && self.severity == Severity::Fail
    }
}

/// The answer, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Every check that counts passed or does not apply to this host.
    Ready,
    /// No check failed, and at least one that counts could not be evaluated.
    CannotTell,
    /// At least one check failed.
    NotReady,
}

/// Check results of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Report {
    /// The answer.
    pub answer: Answer,
    /// First cause of the answer, human-readable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// First fix, human-readable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Ids of the checks that decided the answer; empty for a host that is ready.
    pub decided_by: Vec<&'static str>,
    /// Ids of the checks that warn.
    pub warned_by: Vec<&'static str>,
    /// Recovery action: the strongest one of the deciding checks.
    pub recovery: Recovery,
    /// Whether only some checks of the stage were selected: then the answer covers only those.
    pub partial: bool,
    /// Stage, if the answer covers only its checks and settings; absent: everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// Whether the host is an image: then the answer covers its files, and every other check is not applicable.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub image: bool,
    /// Whether a fix is a setting of the profile, and the host has no profile.
    #[serde(skip)]
    pub needs_profile: bool,
    /// Results of the checks, in order of priority.
    pub checks: Vec<Judged>,
}

impl Report {
    /// Whether there is a warning that is not ignored.
    pub fn warns(&self) -> bool {
        !self.warned_by.is_empty()
    }
}

/// Evaluates every selected check.
pub(crate) fn judge(
    input: &CheckInput<'_>,
    selection: &Selection,
    overrides: &BTreeMap<String, Override>,
) -> Report {
    let wanted = CHECKS.iter().filter(|check| selection.has(check));
    let outcome = |check: &'static Check| {
        let (Ok(outcome) | Err(outcome)) =
            image::not_applicable(check, input).map_or_else(|| (check.judge)(input), Ok);
        let outcome = of_image(with_due_fix(outcome, check.group, input), input);
        let level = image::severity(check, input, outcome.verdict);
        Judged::new(check, level, outcome, overrides.get(check.id))
    };
    let mut report = conclude(wanted.map(outcome).collect(), selection.is_partial());
    report.stage = Some(selection.stage()).filter(|stage| *stage != Stage::default());
    report.image = input.facts.host == HostKind::Image;
    report.needs_profile &= matches!(input.profile, Ok(None));
    if let (true, Some(next)) = (report.needs_profile, &mut report.next) {
        next.push_str("; no profile yet: create one with `bedplate profile init`");
    }
    report
}

/// Adds the option that selects an image to a fix: without it the command would change the machine that builds the image.
fn of_image(outcome: Outcome, input: &CheckInput<'_>) -> Outcome {
    if input.facts.host != HostKind::Image {
        return outcome;
    }
    let of_image = |fix: String| {
        fix.replace("`bedplate apply`", "`bedplate apply --root DIR`")
            .replace("`bedplate plan`", "`bedplate plan --root DIR`")
    };
    Outcome { fix: outcome.fix.map(of_image), ..outcome }
}

/// Replaces a fix that asks for a setting that the profile already has: the setting is not in effect yet.
fn with_due_fix(outcome: Outcome, group: Group, input: &CheckInput<'_>) -> Outcome {
    let Ok(Some(in_effect)) = &input.profile else { return outcome };
    if !outcome.in_profile {
        return outcome;
    }
    let body = &in_effect.plan.body;
    let is_planned = |kind| body.changes.iter().any(|change| change.kind == kind);
    let waits = |kind| body.pending.iter().any(|pending| pending.kind == kind);
    let (is_planned, waits) = match group {
        Group::Acs => (is_planned(KindId::Acs), waits(KindId::Acs)),
        Group::Modules => (is_planned(KindId::Modules), waits(KindId::Modules)),
        Group::Iommu => (body.iommu.changes, body.iommu.pending),
        _ => (false, false),
    };
    let fix = match (is_planned, waits) {
        (true, _) => {
            "the profile has this setting, but it is not in effect: run `bedplate apply`. Enforced by the daemon? Run \
             `bedplate status` for the cause"
        }
        (false, true) => {
            "the profile has this setting, which waits for a reboot: run `bedplate reboot status`"
        }
        (false, false) => return outcome,
    };
    Outcome { fix: Some(fix.to_owned()), in_profile: false, ..outcome }
}

/// Derives the answer from the results. They are in order of priority: an earlier fault can block the fix of a later one.
fn conclude(checks: Vec<Judged>, partial: bool) -> Report {
    let failed = checks.iter().find(|judged| judged.fails());
    let hidden = checks.iter().find(|judged| judged.is_inconclusive());
    let answer = match (failed, hidden) {
        (Some(_), _) => Answer::NotReady,
        (None, Some(_)) => Answer::CannotTell,
        (None, None) => Answer::Ready,
    };
    let first = failed.or(hidden);
    let decides = |judged: &&Judged| match answer {
        Answer::NotReady => judged.fails(),
        Answer::CannotTell => judged.is_inconclusive(),
        Answer::Ready => false,
    };
    let decisive = || checks.iter().filter(decides);
    let recovery = decisive().map(Judged::recovery).max().unwrap_or_default();
    let decided_by = decisive().map(|judged| judged.id).collect();
    let warned = |judged: &&Judged| judged.verdict == Verdict::Warn && !judged.is_ignored();
    let to_do = checks.iter().filter(|judged| judged.fails());
    let to_do = to_do.chain(checks.iter().filter(|judged| judged.is_inconclusive()));
    let mut to_do = to_do.chain(checks.iter().filter(warned));
    let warned_by = checks.iter().filter(warned).map(|judged| judged.id).collect();
    let next = to_do.find(|judged| judged.fix.is_some());
    let needs_profile = next.is_some_and(|judged| judged.in_profile);
    let next = next.and_then(|judged| Some(format!("{} ({})", judged.fix.as_ref()?, judged.id)));
    let reason = first.map(|judged| format!("{} ({})", judged.finding, judged.id));
    Report {
        answer,
        reason,
        next,
        decided_by,
        warned_by,
        recovery,
        partial,
        stage: None,
        image: false,
        needs_profile,
        checks,
    }
}
