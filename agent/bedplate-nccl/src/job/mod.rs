//! One verdict on a job and on each of its nodes, from its output: path, completeness, end, and result table. Pure.

mod algorithm;
mod ceiling;
mod node;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::log::Log;
use crate::log::verdict::{Finding, JobPath, LogVerdict, Path};
use crate::log::warning_meanings::WarningSeverity;
use crate::perf::Test;
use crate::perf::judge::{Report, Verdict};

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

/// Evaluates a job. `reports` are the evaluated result tables, one per file.
pub fn evaluate(log: &Log, judged: &LogVerdict, reports: &[Report]) -> JobVerdict {
    let jobs: Vec<OneJob> = judged.jobs.iter().map(one_job).collect();
    let end = end(log, judged, reports);
    let results = results(reports);
    let nodes = node::nodes(log, judged);
    let parts = || {
        let of_jobs = jobs.iter().flat_map(|job| {
            let (path, whole) = (&job.path, &job.completeness);
            [(path.verdict, path.text.as_str()), (whole.verdict, whole.text.as_str())]
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
    /// Returns the missing parts in words.
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

/// Determines how the job ended. Programs report a regular end by destroying their communicators, or by the summary of
/// a benchmark.
fn end(log: &Log, judged: &LogVerdict, reports: &[Report]) -> Part<End> {
    let is_failure = |finding: &&Finding| finding.is_failure;
    if let Some(failure) = judged.findings.iter().find(is_failure) {
        return Part { verdict: Verdict::Bad, state: End::Failed, text: failure.text.clone() };
    }
    let ranks = || log.workers.iter().filter(|one| one.rank.is_some());
    let ended = ranks().filter(|one| one.destroyed > 0).count();
    let all = ranks().count();
    let runs = reports.iter().flat_map(|report| &report.runs).map(|judged| &judged.run);
    let summaries = runs.filter(|run| run.out_of_bounds.is_some() || run.average.is_some());
    let (verdict, state, text) = match () {
        () if all > 0 && ended == all => {
            (Verdict::Good, End::Well, "every rank destroyed its communicators".to_owned())
        }
        () if summaries.count() >= judged.jobs.len() => {
            (Verdict::Good, End::Well, "the benchmark printed its summary".to_owned())
        }
        () => {
            let text = format!(
                "the output does not show how the job ended ({ended} of {all} ranks destroyed their communicators): add \
                 the end of the output, with NCCL_DEBUG=INFO, of every rank"
            );
            (Verdict::CannotTell, End::Unknown, text)
        }
    };
    Part { verdict, state, text }
}

/// Returns the best results with their share of the expected ones.
fn in_numbers(reports: &[Report]) -> String {
    let runs = reports.iter().flat_map(|report| &report.runs);
    let best = runs.filter_map(|judged| {
        let (limit, peak) = (judged.limit.as_ref()?, judged.run.peak()?.best());
        let share = 100.0 * peak / limit.expected;
        let test = judged.run.test.map_or("best", Test::program);
        Some(format!("{test} {peak:.2} GB/s, {share:.0} % of the expected {:.2}", limit.expected))
    });
    let best: Vec<String> = best.take(MOST_RESULTS).collect();
    best.join("; ")
}

fn results(reports: &[Report]) -> Option<Part<ResultState>> {
    let runs = || reports.iter().flat_map(|report| &report.runs);
    let worst = reports.iter().map(|report| report.verdict).max().filter(|_| runs().count() > 0)?;
    let is_local =
        |verdict| verdict == Verdict::CannotTell && runs().all(|one| one.run.hosts().len() == 1);
    let state = match worst {
        Verdict::Good => ResultState::AsExpected,
        Verdict::CannotTell if is_local(worst) => ResultState::OneHost,
        Verdict::CannotTell => ResultState::Unknown,
        Verdict::Bad => ResultState::NotAsExpected,
    };
    let findings = runs().flat_map(|one| &one.findings);
    let mut findings = findings.chain(reports.iter().flat_map(|report| &report.findings));
    let text = findings.find(|one| one.verdict == worst).map(|one| one.text.clone());
    // NVLink and similar links are not judged, which is no doubt about the network.
    let verdict = if state == ResultState::OneHost { Verdict::Good } else { worst };
    Some(Part { verdict, state, text: text.unwrap_or_else(|| in_numbers(reports)) })
}
