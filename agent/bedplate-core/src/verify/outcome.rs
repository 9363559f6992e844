//! The outcome of a check, with its evidence and remedy.

use serde::Serialize;

use super::finding::{self, Finding};
use super::{Severity, Verdict};

/// One thing that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "Seen"))]
pub struct Evidence {
    /// What was read, as a few words: `port 0000:17:00.0: RR CR on`.
    pub what: String,
    /// Where: a file, or a register.
    pub at: String,
}

impl Evidence {
    /// What was read, and where.
    pub(crate) fn new(what: impl Into<String>, at: impl Into<String>) -> Self {
        Evidence { what: what.into(), at: at.into() }
    }
}

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Pass or not.
    pub verdict: Verdict,
    /// Finding, in one sentence without its full stop.
    pub finding: String,
    /// Evidence.
    pub evidence: Vec<Evidence>,
    /// The same for programs.
    pub codes: Vec<Finding>,
    /// Remedy: a command, a line of the profile.
    pub remedy: Option<String>,
    /// The highest severity of this outcome, where that is below its check's.
    pub at_most: Severity,
}

impl Outcome {
    fn new(verdict: Verdict, finding: impl Into<String>) -> Self {
        Outcome {
            verdict,
            finding: finding.into(),
            evidence: Vec::new(),
            codes: Vec::new(),
            remedy: None,
            at_most: Severity::Fail,
        }
    }

    /// As it should be.
    pub fn pass(finding: impl Into<String>) -> Self {
        Outcome::new(Verdict::Pass, finding)
    }

    /// Not as it should be, in the words of these codes; there is one at least.
    pub fn fail(codes: impl IntoIterator<Item = impl Into<Finding>>) -> Self {
        Outcome::with_findings(Verdict::Fail, codes)
    }

    /// Not as it should be, and no reason to call the host not ready; in the words of these codes, of which there is one at
    /// least.
    pub fn warn(codes: impl IntoIterator<Item = impl Into<Finding>>) -> Self {
        Outcome::with_findings(Verdict::Warn, codes)
    }

    /// An outcome in the words of these codes, with the remedy of the first; there is one at least.
    pub fn with_findings(
        verdict: Verdict,
        codes: impl IntoIterator<Item = impl Into<Finding>>,
    ) -> Self {
        let codes: Vec<Finding> = codes.into_iter().map(Into::into).collect();
        let (finding, remedy) = (finding::format_findings(&codes), finding::remedy(&codes));
        Outcome { codes, remedy, ..Outcome::new(verdict, finding) }
    }

    /// Not known.
    pub fn unknown(finding: impl Into<String>) -> Self {
        Outcome::new(Verdict::Unknown, finding)
    }

    /// There is nothing that it is about.
    pub fn not_applicable(finding: impl Into<String>) -> Self {
        Outcome::new(Verdict::NotApplicable, finding)
    }

    /// With more codes, for programs: its sentence says nothing of them.
    #[must_use]
    pub fn also(mut self, codes: impl IntoIterator<Item = impl Into<Finding>>) -> Self {
        self.codes.extend(codes.into_iter().map(Into::into));
        self
    }

    /// The host may be ready all the same.
    #[must_use]
    pub fn minor(mut self) -> Self {
        self.at_most = Severity::Warn;
        self
    }

    /// With one more thing that was read.
    #[must_use]
    pub fn evidence(mut self, what: impl Into<String>, at: impl Into<String>) -> Self {
        self.evidence.push(Evidence::new(what, at));
        self
    }

    /// With several.
    #[must_use]
    pub fn all_evidence(mut self, seen: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(seen);
        self
    }

    /// With what to do where there is no finding, whose codes have the remedy: how to get to know more, above all.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        debug_assert!(self.codes.is_empty(), "the remedy of a finding is that of its codes");
        self.remedy = Some(hint.into());
        self
    }
}
