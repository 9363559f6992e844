//! Evaluates whether this host's links explain the results, and whether the results are plausible.

use serde::Serialize;

use super::limit::{self, CopyLimit, Limit, Nic, Pcie};
use super::{Point, Results, Run, Test};

/// Minimum size in bytes at which a collective shows bandwidth rather than latency. bedplate's choice.
pub const LARGE: u64 = 32 << 20;
/// The same for perftest, which sends messages without a pause. bedplate's choice.
pub const LARGE_OF_PERFTEST: u64 = 64 << 10;
/// Minimum share of the expected bandwidth. bedplate's choice: rings and packet headers cost some, a missing NIC more.
pub const ENOUGH: f64 = 0.75;
/// Factor above the limit that rounding and clocks explain. bedplate's choice.
pub(super) const TOLERANCE: f64 = 1.02;
/// Factor from which in place and out of place differ; they move the same bytes. bedplate's choice.
const APART: f64 = 1.5;
/// Minimum share of the best result at the largest size. bedplate's choice: bandwidth grows with size and levels off.
const DROP: f64 = 0.6;
/// Plateau of TCP sockets: GB/s between two hosts with NCCL's defaults, and its flatness. bedplate's choice.
const SOCKETS: (f64, f64) = (6.0, 1.15);

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
}

/// Evaluates a file.
pub fn judge(results: Results, links: &Links) -> Report {
    let runs: Vec<Judged> = results
        .runs
        .into_iter()
        .map(|run| {
            let nics = if run.device.is_some() { &links.all } else { &links.chosen };
            let limit = match &links.unknown {
                // A port with an unknown state may carry as much as the rest.
                Some(why) if run.device.is_none() || nics.is_empty() => Err(why.clone()),
                _ => limit::limit(&run, nics, &links.gpus),
            };
            judge_run(run, limit)
        })
        .collect();
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

fn judge_run(run: Run, limit: Result<Limit, String>) -> Judged {
    let mut findings = wrong_results(&run);
    findings.extend(in_place_difference(&run));
    match &limit {
        Ok(limit) => findings.extend(compare_with_limit(&run, limit)),
        Err(why) => findings.push(Finding {
            verdict: Verdict::CannotTell,
            line: run.line,
            text: format!("cannot determine the limit: {why}"),
        }),
    }
    findings.sort_by_key(|finding| finding.line);
    let verdict = findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Good);
    Judged { run, limit: limit.ok(), host: None, copies: Vec::new(), findings, verdict }
}

fn bad(line: usize, text: String) -> Finding {
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

fn compare_with_limit(run: &Run, limit: &Limit) -> Vec<Finding> {
    let mut findings = Vec::new();
    for link in &limit.degraded {
        findings.push(bad(
            run.line,
            format!("{link}: run `bedplate verify --check pcie` to find the limiting end"),
        ));
    }
    findings.extend(limit_reached(run, limit));
    findings
}

fn limit_reached(run: &Run, limit: &Limit) -> Vec<Finding> {
    let Some(peak) = run.peak() else {
        let text = "no measurements".to_owned();
        return vec![Finding { verdict: Verdict::CannotTell, line: run.line, text }];
    };
    let ceiling = limit.with_switches.unwrap_or(limit.most);
    if peak.best() > ceiling * TOLERANCE {
        return vec![bad(
            peak.line,
            format!(
                "{:.2} GB/s is implausible: this host's links carry {ceiling:.2}. The run used another host or other \
                 ports, or did not cross hosts",
                peak.best()
            ),
        )];
    }
    let large = if run.device.is_some() { LARGE_OF_PERFTEST } else { LARGE };
    let largest = run.points.iter().max_by_key(|point| point.bytes).map_or(peak, |point| point);
    if largest.bytes < large {
        let text = format!(
            "the largest size is {}: this shows latency; measure {} or more",
            size(largest.bytes),
            size(large)
        );
        return vec![Finding { verdict: Verdict::CannotTell, line: largest.line, text }];
    }
    // A fast small size proves nothing, but a large size that is slower than smaller ones is a finding.
    let of_large = run.points.iter().filter(|point| point.bytes >= large);
    let peak = of_large.max_by(|a, b| a.best().total_cmp(&b.best())).unwrap_or(peak);
    if largest.best() < peak.best() * DROP {
        let text = format!(
            "{:.2} GB/s at {}, after {:.2} at {}: another workload ran, or a link fails under load; rerun",
            largest.best(),
            size(largest.bytes),
            peak.best(),
            size(peak.bytes)
        );
        return vec![bad(largest.line, text)];
    }
    if peak.best() >= limit.expected * ENOUGH {
        return Vec::new();
    }
    let share = 100.0 * peak.best() / limit.expected;
    let text = format!(
        "best {:.2} GB/s at {} or more, {share:.0} % of the expected {:.2}",
        peak.best(),
        size(large),
        limit.expected
    );
    vec![bad(peak.line, text + likely_cause(run, peak, limit))]
}

/// Returns the likely cause of a low rate, as the end of a sentence.
fn likely_cause(run: &Run, peak: &Point, limit: &Limit) -> &'static str {
    match run.device {
        None if is_level(run) && peak.best() < limit.expected / 4.0 => {
            ": flat, as with TCP sockets; confirm with `bedplate nccl log` on the job's log, and find the cause with \
             `bedplate doctor socket-fallback`"
        }
        None => {
            ": fewer NICs than this host has, a slower path or another bottleneck; `bedplate nccl log` on the job's \
             log names the NICs used"
        }
        Some(_) if run.test == Some(Test::IbReadBw) => {
            ": too few outstanding read requests, or a slower path (`bedplate verify`)"
        }
        Some(_) => ": congestion, a slower path or slow memory at its end (`bedplate verify`)",
    }
}

/// Whether all large sizes are on the plateau of sockets.
fn is_level(run: &Run) -> bool {
    let large: Vec<f64> =
        run.points.iter().filter(|point| point.bytes >= LARGE).map(Point::best).collect();
    let most = large.iter().copied().fold(0.0, f64::max);
    let least = large.iter().copied().fold(f64::MAX, f64::min);
    large.len() > 1 && most <= SOCKETS.0 && most <= least * SOCKETS.1
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
