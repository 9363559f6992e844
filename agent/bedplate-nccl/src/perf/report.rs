//! Evaluated results.

use serde::Serialize;

use super::Run;
use super::limit::{CopyLimit, Limit, Nic, Pcie};
use super::machine::Machine;
use super::thresholds::Expectation;
use super::verdict::{Finding, Verdict};

/// Evaluation of one run.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Judged {
    /// Measured results.
    pub run: Run,
    /// Limit of the run; absent: unknown, with a finding that says why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Host whose links limit the run, of several; absent: there is one host, or no limit is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Limit of each copy, in order of `run.copies`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<CopyLimit>,
    /// Bandwidth that decides; absent: the limit is unknown, and the user set no expectation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expectation: Option<Expectation>,
    /// Findings in order of line.
    pub findings: Vec<Finding>,
    /// Worst verdict of the findings.
    pub verdict: Verdict,
}

/// Evaluation of a whole file.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Report {
    /// Evaluated runs.
    pub runs: Vec<Judged>,
    /// NICs that NCCL would use on this host.
    pub nics: Vec<Nic>,
    /// Host of these NICs, of several; absent: there is one host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Findings outside of runs.
    pub findings: Vec<Finding>,
    /// Worst verdict of all.
    pub verdict: Verdict,
}

/// Known links of a host.
#[derive(Debug, Default)]
pub struct Links {
    /// NICs that NCCL would use.
    pub chosen: Vec<Nic>,
    /// All NICs with an ACTIVE port.
    pub all: Vec<Nic>,
    /// Links through which data reaches GPUs.
    pub gpus: Vec<Pcie>,
    /// Links of NVMe drives; `None`: unknown.
    pub drives: Option<Vec<Pcie>>,
    /// Reason that the NICs are unknown.
    pub unknown: Option<String>,
    /// Properties that decide which bandwidth is expected.
    pub machine: Machine,
}

impl Judged {
    /// Sorts the findings and derives the verdict.
    pub(super) fn conclude(&mut self) {
        self.findings.sort_by_key(|finding| finding.line);
        let verdicts = self.findings.iter().map(|finding| finding.verdict);
        self.verdict = verdicts.max().unwrap_or(Verdict::Good);
    }
}
