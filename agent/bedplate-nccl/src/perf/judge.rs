//! Evaluates whether this host's links explain the results, and whether the results are plausible.

use super::limit::{self, Limit};
use super::thresholds::{Expectation, expectation};
use super::verdict::bad;
use super::{Point, Results, Run, Test, repeated, result};

pub use super::report::{Judged, Links, Report};
pub use super::verdict::{Assumptions, Finding, LARGE, LARGE_OF_PERFTEST, Verdict, size};

/// Factor from which in place and out of place differ; they move the same bytes. bedplate's choice.
const APART: f64 = 1.5;
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
