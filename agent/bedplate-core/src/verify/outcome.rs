//! The outcome of a check, with its evidence and fix.

use serde::Serialize;

use super::finding::{self, Finding};
use super::{Severity, Verdict};

/// One item of evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// Value in a few words: `port 0000:17:00.0: RR CR on`.
    pub value: String,
    /// Its source: a file, or a register.
    pub source: String,
}

impl Evidence {
    /// Combines a value and its source.
    pub(crate) fn new(value: impl Into<String>, source: impl Into<String>) -> Self {
        Evidence { value: value.into(), source: source.into() }
    }
}

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Verdict.
    pub verdict: Verdict,
    /// Finding, in one sentence without a full stop.
    pub finding: String,
    /// Evidence.
    pub evidence: Vec<Evidence>,
    /// The finding in machine-readable form.
    pub codes: Vec<Finding>,
    /// Fix: a command, or a line of the profile.
    pub fix: Option<String>,
    /// Whether the fix is a setting of the profile.
    pub in_profile: bool,
    /// Highest severity of this outcome, if lower than its check's.
    pub at_most: Severity,
}

impl Outcome {
    fn new(verdict: Verdict, finding: impl Into<String>) -> Self {
        Outcome {
            verdict,
            finding: finding.into(),
            evidence: Vec::new(),
            codes: Vec::new(),
            fix: None,
            in_profile: false,
            at_most: Severity::Fail,
        }
    }

    /// Returns a pass.
    pub fn pass(finding: impl Into<String>) -> Self {
        Outcome::new(Verdict::Pass, finding)
    }

    /// Returns a failure with the text of these codes; at least one is required.
    pub fn fail(codes: impl IntoIterator<Item = impl Into<Finding>>) -> Self {
        Outcome::with_findings(Verdict::Fail, codes)
    }

    /// Returns a warning with the text of these codes: no reason to call the host not ready. At least one code is
    /// required.
    pub fn warn(codes: impl IntoIterator<Item = impl Into<Finding>>) -> Self {
        Outcome::with_findings(Verdict::Warn, codes)
    }

    /// Returns an outcome with the text of these codes and the fix of the first; at least one is required.
    pub fn with_findings(
        verdict: Verdict,
        codes: impl IntoIterator<Item = impl Into<Finding>>,
    ) -> Self {
        let codes: Vec<Finding> = codes.into_iter().map(Into::into).collect();
        let finding = finding::format_findings(&codes);
        let (fix, in_profile) = finding::fix(&codes).unzip();
        let in_profile = in_profile.unwrap_or_default();
        Outcome { codes, fix, in_profile, ..Outcome::new(verdict, finding) }
    }

    /// Returns an unknown outcome.
    pub fn unknown(finding: impl Into<String>) -> Self {
        Outcome::new(Verdict::Unknown, finding)
    }

    /// Returns an outcome for a check that does not apply to this host.
    pub fn not_applicable(finding: impl Into<String>) -> Self {
        Outcome::new(Verdict::NotApplicable, finding)
    }

    /// Adds codes for programs; the finding's text does not mention them.
    #[must_use]
    pub fn also(mut self, codes: impl IntoIterator<Item = impl Into<Finding>>) -> Self {
        self.codes.extend(codes.into_iter().map(Into::into));
        self
    }

    /// Limits the severity to a warning: the host may still be ready.
    #[must_use]
    pub fn minor(mut self) -> Self {
        self.at_most = Severity::Warn;
        self
    }

    /// Adds one item of evidence.
    #[must_use]
    pub fn evidence(mut self, what: impl Into<String>, at: impl Into<String>) -> Self {
        self.evidence.push(Evidence::new(what, at));
        self
    }

    /// Adds several items of evidence.
    #[must_use]
    pub fn all_evidence(mut self, seen: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(seen);
        self
    }

    /// Adds a fix to an outcome without codes (a finding has the fix of its codes): above all, how to obtain the
    /// missing evidence.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        debug_assert!(self.codes.is_empty(), "a finding takes its fix from its codes");
        self.fix = Some(hint.into());
        self
    }

    /// Adds a fix that is a setting of the profile, as [`Outcome::hint`] does: `[nccl] set = { … }`.
    #[must_use]
    pub fn setting_hint(mut self, setting: &str) -> Self {
        self.in_profile = true;
        self.hint(finding::setting_fix(setting, ""))
    }
}
