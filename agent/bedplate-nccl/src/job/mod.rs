//! One verdict on a job and on each of its nodes, from its output: path, completeness, end, and result table. Pure.

mod algorithm;
mod ceiling;
mod end;
mod node;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde::Serialize;

use crate::log::Log;
use crate::log::verdict::{JobPath, LogVerdict, Path};
use crate::log::warning_meanings::WarningSeverity;
use crate::perf::judge::{Report, Verdict};
use crate::perf::limit::ONE_HOST;
use crate::perf::{Run, Test};

pub use algorithm::algorithm_of_log;
pub use ceiling::links_of_log;
pub use node::NodeVerdict;

/// Maximum number of results in a text.
const MOST_RESULTS: usize = 4;

/// A verdict with its state and reason.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Part<S> {
    /// Verdict.
    pub verdict: Verdict,
    /// State.
    pub state: S,
    /// Reason, one sentence.
    pub text: String,
}

/// Whether the output shows the whole job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Completeness {
    /// Every rank, node, direction and communicator.
    Complete,
    /// Parts are missing.
    Incomplete,
}

/// End of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Ended without a failure.
    Well,
    /// Failed, or was ended.
    Failed,
    /// Not in the output.
    Unknown,
}

/// One of the jobs of the output.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct OneJob {
    /// Number of ranks that the job announces; absent: not in the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u32>,
    /// Number of GPUs in the output.
    pub gpus: usize,
    /// Number of nodes.
    pub nodes: usize,
    /// How its ranks reach other nodes.
    pub path: Part<Path>,
    /// Whether the output shows the whole job.
    pub completeness: Part<Completeness>,
    /// Missing parts.
    pub missing: Vec<String>,
}

/// Verdict on the output of a job.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct JobVerdict {
    /// Verdict on everything.
    pub verdict: Verdict,
    /// First cause, or the first missing part; empty if the verdict is good.
    pub reason: String,
    /// Jobs of the output, at least one.
    pub jobs: Vec<OneJob>,
    /// End of the job, or of all jobs.
    pub end: Part<End>,
    /// Verdict on the result tables; absent: the output has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results: Option<Part<ResultState>>,
    /// Nodes, in order of appearance.
    pub nodes: Vec<NodeVerdict>,
}

/// State of the result tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ResultState {
    /// As expected from the links.
    AsExpected,
    /// Not measured over a network: all ranks are on one host.
    OneHost,
    /// Unknown.
    Unknown,
    /// Below expectations or implausible.
    NotAsExpected,
}

/// Evaluated result tables of a file.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct FileReport {
    /// File, by its position in the input.
    pub file: usize,
    /// Evaluation.
    #[serde(flatten)]
    pub report: Report,
}

/// Evaluates a job. `reports` are the evaluated result tables.
pub fn evaluate(log: &Log, judged: &LogVerdict, reports: &[FileReport]) -> JobVerdict {
    let jobs: Vec<OneJob> = judged.jobs.iter().map(one_job).collect();
    let end = end::end(log, judged, reports);
    let results = results(log, judged, reports);
    let nodes = node::nodes(log, judged);
    let parts = || {
        let of_jobs = jobs.iter().flat_map(|job| {
            let path = (job.path.verdict, job.path.text.as_str());
            let whole = (job.completeness.verdict, job.completeness.text.as_str());
            // An unknown path follows from missing parts, unless there is nothing of NCCL.
            if job.path.state == Path::Unknown && job.gpus > 0 {
                [whole, path]
            } else {
                [path, whole]
            }
        });
        let last = [(end.verdict, end.text.as_str())];
        let results = results.as_ref().map(|part| (part.verdict, part.text.as_str()));
        of_jobs.chain(last).chain(results)
    };
    let fault = judged.findings.first().filter(|one| one.weight == WarningSeverity::Fault);
    let verdict = match fault {
        Some(_) => Verdict::Bad,
        None => parts().map(|(verdict, _)| verdict).max().unwrap_or(Verdict::CannotTell),
    };
    let reason = match (verdict, fault) {
        (Verdict::Good, _) => String::new(),
        (_, Some(fault)) => fault.text.clone(),
        (_, None) => {
            let worst = parts().find(|(part, _)| *part == verdict);
            worst.map(|(_, text)| text.to_owned()).unwrap_or_default()
        }
    };
    JobVerdict { verdict, reason, jobs, end, results, nodes }
}

impl OneJob {
    /// Returns the missing parts as text.
    pub fn missing_or_all(&self) -> String {
        match self.missing.is_empty() {
            true => self.completeness.text.clone(),
            false => self.missing.join("; "),
        }
    }
}

fn one_job(job: &JobPath) -> OneJob {
    let verdict = match job.path {
        Path::Direct | Path::OneNode => Verdict::Good,
        Path::Unknown => Verdict::CannotTell,
        Path::NotDirect => Verdict::Bad,
    };
    let completeness = match job.missing.first() {
        None => Part {
            verdict: Verdict::Good,
            state: Completeness::Complete,
            text: "every rank, node, direction and communicator".to_owned(),
        },
        Some(first) => Part {
            verdict: Verdict::CannotTell,
            state: Completeness::Incomplete,
            text: first.clone(),
        },
    };
    OneJob {
        ranks: job.ranks,
        gpus: job.gpus,
        nodes: job.nodes.len(),
        path: Part { verdict, state: job.path, text: job.text.clone() },
        completeness,
        missing: job.missing.clone(),
    }
}

/// Returns the best results, each with the rate from which on it is good.
fn in_numbers(reports: &[FileReport]) -> String {
    let runs = reports.iter().flat_map(|one| &one.report.runs);
    let best = runs.filter_map(|judged| {
        let (good, peak) = (judged.expectation.as_ref()?.good, judged.run.peak()?.best());
        let test = judged.run.test.map_or("best", Test::program);
        Some(format!("{test} {peak:.2} GB/s, good from {good:.2} on"))
    });
    let best: Vec<String> = best.take(MOST_RESULTS).collect();
    best.join("; ")
}

fn results(log: &Log, judged: &LogVerdict, reports: &[FileReport]) -> Option<Part<ResultState>> {
    let reports_only = || reports.iter().map(|one| &one.report);
    let runs = || reports_only().flat_map(|report| &report.runs);
    let all = || {
        let findings = runs().flat_map(|one| &one.findings);
        findings.chain(reports_only().flat_map(|report| &report.findings))
    };
    let mut worst = reports_only().map(|report| report.verdict).max()?;
    let of_other_hosts = other_host(log, runs().map(|one| &one.run));
    if of_other_hosts.is_some() {
        worst = worst.max(Verdict::CannotTell);
    }
    // NVLink and similar links are not judged. The network remains known.
    let is_local = judged.jobs.iter().all(|job| job.path == Path::OneNode)
        && of_other_hosts.is_none()
        && all().filter(|one| one.verdict == worst).all(|one| one.text.ends_with(ONE_HOST));
    let (verdict, state) = match worst {
        Verdict::Good => (worst, ResultState::AsExpected),
        Verdict::CannotTell if is_local => (Verdict::Good, ResultState::OneHost),
        Verdict::CannotTell => (worst, ResultState::Unknown),
        Verdict::Bad => (worst, ResultState::NotAsExpected),
    };
    let text = all().find(|one| one.verdict == worst).map(|one| one.text.clone());
    let text = text.or(of_other_hosts).unwrap_or_else(|| in_numbers(reports));
    Some(Part { verdict, state, text })
}

/// Returns the finding that a table names a host that the log does not.
fn other_host<'r>(log: &Log, mut runs: impl Iterator<Item = &'r Run>) -> Option<String> {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let known: BTreeSet<String> = log.hosts.iter().map(|host| short(host)).collect();
    let other = runs.find_map(|run| run.ranks.iter().find(|host| !known.contains(&short(host))));
    let host = other.filter(|_| log.said > 0)?;
    Some(format!(
        "a result table names {host}, of which the log has no line: they may be of two jobs"
    ))
}
