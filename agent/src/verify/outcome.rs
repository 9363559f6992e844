//! The outcome of a check, with its evidence and remedy.

use schemars::JsonSchema;
use serde::Serialize;

use super::code::{self, Code, Finding};
use super::{Severity, Verdict};
use crate::value::PciAddress;

/// One thing that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Seen {
    /// What was read, as a few words: `port 0000:17:00.0: RR CR on`.
    pub what: String,
    /// Where: a file, or a register.
    pub at: String,
}

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Pass or not.
    pub verdict: Verdict,
    /// Finding, in one sentence without its full stop.
    pub finding: String,
    /// Evidence.
    pub evidence: Vec<Seen>,
    /// The same for programs.
    pub codes: Vec<Code>,
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
    pub fn fail(codes: impl IntoIterator<Item = impl Into<Code>>) -> Self {
        Outcome::found(Verdict::Fail, codes)
    }

    /// Not as it should be, and no reason to call the host not ready; in the words of these codes, of which there is one at
    /// least.
    pub fn warn(codes: impl IntoIterator<Item = impl Into<Code>>) -> Self {
        Outcome::found(Verdict::Warn, codes)
    }

    /// An outcome in the words of these codes, with the remedy of the first; there is one at least.
    pub fn found(verdict: Verdict, codes: impl IntoIterator<Item = impl Into<Code>>) -> Self {
        let codes: Vec<Code> = codes.into_iter().map(Into::into).collect();
        let (finding, remedy) = (code::words(&codes), code::remedy(&codes));
        Outcome { codes, remedy, ..Outcome::new(verdict, finding) }
    }

    /// Not as it should be; `id` names the finding for programs.
    pub fn fail_as(id: &'static str, finding: impl Into<String>) -> Self {
        Outcome::unnamed(Verdict::Fail, id, finding)
    }

    /// Not as it should be, and no reason to call the host not ready; `id` names the finding for programs.
    pub fn warn_as(id: &'static str, finding: impl Into<String>) -> Self {
        Outcome::unnamed(Verdict::Warn, id, finding)
    }

    fn unnamed(verdict: Verdict, id: &'static str, finding: impl Into<String>) -> Self {
        let code = Code::Unnamed(Finding { id, functions: Vec::new() });
        Outcome { codes: vec![code], ..Outcome::new(verdict, finding) }
    }

    /// With the functions that the finding is about.
    #[must_use]
    pub fn on(mut self, about: impl IntoIterator<Item = PciAddress>) -> Self {
        if let Some(Code::Unnamed(Finding { functions, .. })) = self.codes.first_mut() {
            functions.extend(about);
        }
        self
    }

    /// Not known.
    pub fn unknown(finding: impl Into<String>) -> Self {
        Outcome::new(Verdict::Unknown, finding)
    }

    /// There is nothing that it is about.
    pub fn not_applicable(finding: impl Into<String>) -> Self {
        Outcome::new(Verdict::NotApplicable, finding)
    }

    /// With codes that say more than the id of the finding.
    #[must_use]
    pub fn codes(mut self, codes: impl IntoIterator<Item = impl Into<Code>>) -> Self {
        let codes: Vec<Code> = codes.into_iter().map(Into::into).collect();
        if !codes.is_empty() {
            self.codes = codes;
        }
        self
    }

    /// With more codes, for programs: its sentence says nothing of them.
    #[must_use]
    pub fn also(mut self, codes: impl IntoIterator<Item = impl Into<Code>>) -> Self {
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
    pub fn seen(mut self, what: impl Into<String>, at: impl Into<String>) -> Self {
        self.evidence.push(Seen { what: what.into(), at: at.into() });
        self
    }

    /// With several.
    #[must_use]
    pub fn all_seen(mut self, seen: impl IntoIterator<Item = Seen>) -> Self {
        self.evidence.extend(seen);
        self
    }

    /// With what to do.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}
