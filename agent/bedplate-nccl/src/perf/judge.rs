//! Evaluates whether this host's links explain the results, and whether the results are plausible.

use serde::Serialize;

use super::limit::{self, CopyLimit, Limit, Nic, Pcie};
use super::machine::Machine;
use super::thresholds::{Expectation, expectation};
use super::{Algorithm, Point, Results, Run, Test, repeated, result};

/// Minimum size in bytes at which a collective shows bandwidth rather than latency. bedplate's choice.
pub const LARGE: u64 = 32 << 20;
/// The same for perftest, which sends messages without a pause. bedplate's choice.
pub const LARGE_OF_PERFTEST: u64 = 64 << 10;
/// Factor from which in place and out of place differ; they move the same bytes. bedplate's choice.
const APART: f64 = 1.5;
/// Verdict on a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As expected from this host's links.
    Good,
    /// Unknown.
    CannotTell,
    /// Below expectations or implausible.
    Bad,
}

/// A finding and its line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Verdict.
    pub verdict: Verdict,
    /// Line number.
    pub line: usize,
    /// Finding text.
    pub text: String,
}

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

/// Facts about the runs that their table does not show.
#[derive(Debug, Default, Clone)]
pub struct Assumptions {
    /// Bandwidth that the user expects, in GB/s, instead of the table of thresholds.
    pub expect: Option<f64>,
    /// Algorithm of the large sizes, by NCCL's log or the user; `None`: unknown.
    pub algorithm: Option<Algorithm>,
}

/// Evaluates a file.
pub fn judge(results: Results, links: &Links, assumptions: &Assumptions) -> Report {
    let runs = judge_runs(results.runs, |run, is_doubtful| {
        Some(judge_one(run, links, assumptions, is_doubtful))
    });
    let cannot = |line: &usize, text: &str| Finding {
        verdict: Verdict::CannotTell,
        line: *line,
        text: text.to_owned(),
    };
    let unread =
        results.unread.iter().map(|line| cannot(line, "resembles a result but is unreadable"));
    let latency =
        results.latency.iter().map(|line| cannot(line, "latency tests do not measure bandwidth"));
    let notes = results.notes.iter().map(|note| cannot(&note.line, &note.text));
    let mut findings: Vec<Finding> = unread.chain(latency).chain(notes).collect();
    if runs.is_empty() && findings.is_empty() {
        findings.push(cannot(&1, "no results"));
    }
    let verdicts =
        runs.iter().map(|run| run.verdict).chain(findings.iter().map(|finding| finding.verdict));
    let verdict = verdicts.max().unwrap_or(Verdict::CannotTell);
    Report { runs, nics: links.chosen.clone(), host: None, findings, verdict }
}

/// Evaluates a run by the links of one host. `is_doubtful`: a low result is unknown rather than bad.
pub(super) fn judge_one(
    run: Run,
    links: &Links,
    assumptions: &Assumptions,
    is_doubtful: bool,
) -> Judged {
    let nics = if run.device.is_some() { &links.all } else { &links.chosen };
    let limit = match &links.unknown {
        _ if run.device.is_none() && run.hosts().len() == 1 => Err(limit::ONE_HOST.to_owned()),
        // A port with an unknown state may carry as much as the rest.
        Some(why) if run.device.is_none() || nics.is_empty() => Err(why.clone()),
        _ => limit::limit(&run, nics, &links.gpus),
    };
    let expectation = expectation(&run, limit.as_ref().ok(), &links.machine, assumptions);
    judge_run(run, limit, expectation, is_doubtful)
}

/// Evaluates the runs of a file with `judged`, which gets whether a low result is doubtful, and compares equal runs.
pub(super) fn judge_runs(
    runs: Vec<Run>,
    judged: impl Fn(Run, bool) -> Option<Judged>,
) -> Vec<Judged> {
    // Other runs decide how certain the verdict on a sendrecv is.
    let (pairs, others): (Vec<_>, Vec<_>) =
        runs.into_iter().enumerate().partition(|(_, run)| run.test == Some(Test::Sendrecv));
    let mut all: Vec<(usize, Judged)> =
        others.into_iter().filter_map(|(nth, run)| Some((nth, judged(run, false)?))).collect();
    let is_doubtful = all.iter().any(|(_, other)| other.verdict == Verdict::Good);
    all.extend(pairs.into_iter().filter_map(|(nth, run)| Some((nth, judged(run, is_doubtful)?))));
    all.sort_by_key(|(nth, _)| *nth);
    let mut all: Vec<Judged> = all.into_iter().map(|(_, judged)| judged).collect();
    repeated::compare(&mut all);
    all
}

fn judge_run(
    run: Run,
    limit: Result<Limit, String>,
    expectation: Option<Expectation>,
    is_doubtful: bool,
) -> Judged {
    let mut findings = wrong_results(&run);
    findings.extend(in_place_difference(&run));
    match &limit {
        Ok(limit) => findings.extend(degraded_links(&run, limit)),
        Err(why) => findings.push(Finding {
            // The user's expectation decides without a limit.
            verdict: if expectation.is_some() { Verdict::Good } else { Verdict::CannotTell },
            line: run.line,
            text: format!("cannot determine the limit: {why}"),
        }),
    }
    let limit = limit.ok();
    findings.extend(result::compare(&run, limit.as_ref(), expectation.as_ref(), is_doubtful));
    let mut judged = Judged {
        run,
        limit,
        host: None,
        copies: Vec::new(),
        expectation,
        findings,
        verdict: Verdict::Good,
    };
    judged.conclude();
    judged
}

impl Judged {
    /// Sorts the findings and derives the verdict.
    pub(super) fn conclude(&mut self) {
        self.findings.sort_by_key(|finding| finding.line);
        let verdicts = self.findings.iter().map(|finding| finding.verdict);
        self.verdict = verdicts.max().unwrap_or(Verdict::Good);
    }
}

pub(super) fn bad(line: usize, text: String) -> Finding {
    Finding { verdict: Verdict::Bad, line, text }
}

/// Finds results that the program itself reports as wrong.
fn wrong_results(run: &Run) -> Vec<Finding> {
    let of_point = |point: &Point| {
        let count: f64 = point.measures().filter_map(|one| one.wrong).sum();
        (count > 0.0)
            .then(|| bad(point.line, format!("{count} wrong elements at {}", size(point.bytes))))
    };
    let mut findings: Vec<Finding> = run.points.iter().filter_map(of_point).collect();
    if let Some(claim) =
        run.out_of_bounds.as_ref().filter(|claim| claim.failed || claim.value > 0.0)
    {
        findings.push(bad(
            claim.line,
            format!("{} values out of bounds: the data is wrong", claim.value),
        ));
    }
    if let Some(claim) = run.average.as_ref().filter(|claim| claim.failed) {
        findings.push(bad(
            claim.line,
            format!("{} GB/s on average, below the program's configured minimum", claim.value),
        ));
    }
    findings
}

/// Finds the size with the largest difference between in place and out of place.
fn in_place_difference(run: &Run) -> Option<Finding> {
    let ratio = |point: &Point| {
        let (out, within) = (point.out.as_ref()?.bandwidth, point.within.as_ref()?.bandwidth);
        let ratio = out.max(within) / out.min(within);
        (point.bytes >= LARGE && ratio.is_finite() && ratio >= APART)
            .then_some((ratio, out, within))
    };
    let found = run.points.iter().filter_map(|point| Some((point, ratio(point)?)));
    let (point, (_, out, within)) = found.max_by(|(_, a), (_, b)| a.0.total_cmp(&b.0))?;
    Some(bad(
        point.line,
        format!(
            "{out:.2} GB/s out of place but {within:.2} in place at {}: another workload ran, or a link retrains; \
             rerun",
            size(point.bytes)
        ),
    ))
}

fn degraded_links(run: &Run, limit: &Limit) -> Vec<Finding> {
    let finding = |link: &String| {
        let fix = "run `bedplate verify --check pcie` to find the limiting end";
        bad(run.line, format!("{link}: {fix}"))
    };
    limit.degraded.iter().map(finding).collect()
}

/// Returns the human-readable size: `64 MiB`.
pub fn size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.iter().find(|(shift, _)| bytes >> shift > 0) {
        Some((shift, unit)) if bytes.is_multiple_of(1 << shift) => {
            format!("{} {unit}", bytes >> shift)
        }
        Some((shift, unit)) => format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}
