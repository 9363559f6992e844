//! From a symptom to its cause on this host: a table of symptoms ([`SYMPTOMS`]), each with the checks of `verify` that
//! can explain it. A cause is reported only if its check found it here; unreadable evidence is listed separately. Pure.

mod conditions;
mod log;
mod matching;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde::Serialize;

pub(crate) use log::Citation;
pub use log::{Lines, Recognised, Recogniser};
pub use matching::{find, matching, nearest};
pub use table::SYMPTOMS;

use crate::verify::{Evidence, Judged, Report, Verdict};
use bedplate_facts::Facts;

/// A symptom that operators report.
#[derive(Debug)]
pub struct Symptom {
    /// Stable name.
    pub id: &'static str,
    /// Title, as operators describe the symptom.
    pub title: &'static str,
    /// Meaning, in one sentence without a full stop.
    pub means: &'static str,
    /// Phrases that identify the symptom in an operator's text, in lower case.
    pub phrases: &'static [&'static str],
    /// Patterns of log lines that show the symptom.
    pub lines: &'static [Pattern],
    /// Possible causes, the likeliest first.
    pub causes: &'static [Cause],
}

/// Pattern of a line of NCCL's debug output, or of the kernel log.
#[derive(Debug)]
pub struct Pattern {
    /// Texts that the line must contain.
    pub has: &'static [&'static str],
    /// Texts that the line must not contain.
    pub lacks: &'static [&'static str],
}

/// A possible cause of a symptom.
#[derive(Debug)]
pub struct Cause {
    /// Id of the check that finds the cause.
    pub check: &'static str,
    /// How the finding leads to the symptom, in one sentence without a full stop.
    pub explains: &'static str,
    /// Whether the finding on this host leads to the symptom.
    pub when: Condition,
    /// Second check that must have a finding too, or this cause explains nothing.
    pub beside: Option<&'static str>,
}

/// Whether a check's finding leads to a symptom.
pub(crate) type Condition = fn(&Facts, &Judged) -> bool;

/// Whether the cause was found, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// No known cause is present on this host.
    NotFound,
    /// No cause was found, and some evidence could not be read.
    CannotTell,
    /// A cause was found.
    Found,
}

/// A check and its result.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct CheckAnswer {
    /// Check id.
    pub check: &'static str,
    /// Verdict.
    pub verdict: Verdict,
    /// Finding, in one sentence.
    pub finding: String,
    /// How the finding leads to the symptom; only for causes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explains: Option<&'static str>,
    /// Evidence.
    pub evidence: Vec<Evidence>,
    /// Fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// Diagnosis of a symptom on a host.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Diagnosis {
    /// Symptom id.
    pub symptom: &'static str,
    /// Title, as operators describe the symptom.
    pub title: &'static str,
    /// Meaning.
    pub means: &'static str,
    /// Whether a cause was found.
    pub answer: Answer,
    /// Causes that are present, the likeliest first.
    pub causes: Vec<CheckAnswer>,
    /// Causes that are not present: their checks pass, do not apply here, or found something else.
    pub excluded: Vec<CheckAnswer>,
    /// Causes whose checks are unknown.
    pub unknown: Vec<CheckAnswer>,
    /// Lines of the log that show the symptom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<Citation>,
    /// Total number of such lines.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub line_count: u64,
}

/// Takes a reference, as serde requires.
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Symptom {
    /// Returns the symptom without a diagnosis, for a log of another host.
    pub fn undiagnosed(&self) -> Diagnosis {
        Diagnosis {
            symptom: self.id,
            title: self.title,
            means: self.means,
            answer: Answer::CannotTell,
            causes: Vec::new(),
            excluded: Vec::new(),
            unknown: Vec::new(),
            lines: Vec::new(),
            line_count: 0,
        }
    }

    /// Diagnoses the symptom from the results of `verify`.
    pub fn diagnose(&self, report: &Report, facts: &Facts) -> Diagnosis {
        let mut diagnosis = self.undiagnosed();
        let has_found = |id: &str| {
            let check = report.checks.iter().find(|judged| judged.id == id);
            check.is_some_and(|judged| matches!(judged.verdict, Verdict::Fail | Verdict::Warn))
        };
        for cause in self.causes {
            let Some(judged) = report.checks.iter().find(|judged| judged.id == cause.check) else {
                continue;
            };
            let asked = CheckAnswer::new(judged);
            match judged.verdict {
                Verdict::Fail | Verdict::Warn
                    if (cause.when)(facts, judged) && cause.beside.is_none_or(has_found) =>
                {
                    diagnosis.causes.push(CheckAnswer { explains: Some(cause.explains), ..asked });
                }
                Verdict::Unknown => diagnosis.unknown.push(asked),
                _ => diagnosis.excluded.push(asked),
            }
        }
        // A check may explain a symptom in two ways.
        let causes: Vec<&str> = diagnosis.causes.iter().map(|cause| cause.check).collect();
        diagnosis.excluded.retain(|asked| !causes.contains(&asked.check));
        for list in [&mut diagnosis.excluded, &mut diagnosis.unknown] {
            let mut seen = BTreeSet::new();
            list.retain(|asked| seen.insert(asked.check));
        }
        // A stable sort keeps the likelier of two equal findings first.
        diagnosis.causes.sort_by_key(|cause| cause.verdict != Verdict::Fail);
        diagnosis.answer = match (diagnosis.causes.is_empty(), diagnosis.unknown.is_empty()) {
            (false, _) => Answer::Found,
            (true, false) => Answer::CannotTell,
            (true, true) => Answer::NotFound,
        };
        diagnosis
    }
}

impl CheckAnswer {
    fn new(judged: &Judged) -> Self {
        CheckAnswer {
            check: judged.id,
            verdict: judged.verdict,
            finding: judged.finding.clone(),
            explains: None,
            evidence: judged.evidence.clone(),
            fix: judged.fix.clone(),
        }
    }
}
