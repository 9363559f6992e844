//! From a symptom to its cause on this host: a table of symptoms ([`SYMPTOMS`]), each with the checks of `verify` that can
//! explain it. A cause is named only where its check found it here; what could not be read is said apart. Pure.

mod conditions;
mod log;
mod matching;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde::Serialize;

pub(crate) use log::Citation;
pub use log::{Recognised, Recogniser};
pub use matching::{find, matching, nearest};
pub use table::SYMPTOMS;

use crate::verify::{Evidence, Judged, Report, Verdict};
use bedplate_facts::Facts;

/// Something that people complain of.
#[derive(Debug)]
pub struct Symptom {
    /// Stable name.
    pub id: &'static str,
    /// As people say it.
    pub title: &'static str,
    /// What it means, in one sentence without its full stop.
    pub means: &'static str,
    /// Words by which it is recognised in what people type, in small letters.
    pub phrases: &'static [&'static str],
    /// Lines of logs that show it.
    pub lines: &'static [Pattern],
    /// What can cause it, the likeliest first.
    pub causes: &'static [Cause],
}

/// A line of NCCL's debug output, or of the kernel's log.
#[derive(Debug)]
pub struct Pattern {
    /// All of this is in it.
    pub has: &'static [&'static str],
    /// None of this is.
    pub lacks: &'static [&'static str],
}

/// What can cause a symptom.
#[derive(Debug)]
pub struct Cause {
    /// The check that finds it, by its id.
    pub check: &'static str,
    /// How what it finds leads to the symptom, in one sentence without its full stop.
    pub explains: &'static str,
    /// Whether what the check found on this host leads to the symptom.
    pub when: Condition,
    /// Another check that has to have found something; alone this one explains nothing.
    pub beside: Option<&'static str>,
}

/// Whether what a check found leads to a symptom.
pub(crate) type Condition = fn(&Facts, &Judged) -> bool;

/// Whether the cause was found, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// None of the known causes is present on this host.
    NotFound,
    /// None was found, and something could not be read.
    CannotTell,
    /// There is one.
    Found,
}

/// A check that was asked, and what it came to.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "Asked"))]
pub struct CheckAnswer {
    /// Its id.
    pub check: &'static str,
    /// Verdict.
    pub verdict: Verdict,
    /// Finding, in one sentence.
    pub finding: String,
    /// How that leads to the symptom; of causes only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explains: Option<&'static str>,
    /// Evidence.
    pub evidence: Vec<Evidence>,
    /// Remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// What a symptom comes to on a host.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Diagnosis {
    /// The symptom's id.
    pub symptom: &'static str,
    /// As people say it.
    pub title: &'static str,
    /// Meaning.
    pub means: &'static str,
    /// Whether its cause was found.
    pub answer: Answer,
    /// Causes that are present, the likeliest first.
    pub causes: Vec<CheckAnswer>,
    /// Causes that are not: their checks pass, are about nothing here, or found something else.
    pub excluded: Vec<CheckAnswer>,
    /// Those of which it is not known.
    pub unknown: Vec<CheckAnswer>,
    /// Lines of the log that show it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<Citation>,
    /// How many lines there are in all.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub line_count: u64,
}

/// Serde hands it over by reference.
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Symptom {
    /// What it comes to by what `verify` found.
    pub fn diagnose(&self, report: &Report, facts: &Facts) -> Diagnosis {
        let mut diagnosis = Diagnosis {
            symptom: self.id,
            title: self.title,
            means: self.means,
            answer: Answer::NotFound,
            causes: Vec::new(),
            excluded: Vec::new(),
            unknown: Vec::new(),
            lines: Vec::new(),
            line_count: 0,
        };
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
        // A check may be a cause in two ways.
        let causes: Vec<&str> = diagnosis.causes.iter().map(|cause| cause.check).collect();
        diagnosis.excluded.retain(|asked| !causes.contains(&asked.check));
        for list in [&mut diagnosis.excluded, &mut diagnosis.unknown] {
            let mut seen = BTreeSet::new();
            list.retain(|asked| seen.insert(asked.check));
        }
        // Stable: of equal findings the likelier one stays first.
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
            remedy: judged.remedy.clone(),
        }
    }
}
