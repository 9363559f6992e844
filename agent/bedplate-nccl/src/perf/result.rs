//! Compares the measurements of a run with its limit and with known-good machines.

use super::limit::{Limit, Pattern};
use super::thresholds::Expectation;
use super::verdict::{Finding, LARGE, LARGE_OF_PERFTEST, Verdict, bad, size};
use super::{Algorithm, Point, Run, Test};
use bedplate_base::counted;

/// Factor above the limit that rounding and clocks explain. bedplate's choice.
pub(super) const TOLERANCE: f64 = 1.02;
/// Minimum share of the best result at the largest size. bedplate's choice: bandwidth grows with size and levels off.
const DROP: f64 = 0.6;
/// Plateau of TCP sockets: GB/s between two hosts, and its flatness. NVIDIA/nccl issue 450 has 4 to 6 GB/s at 100 Gb/s;
/// 10 is bedplate's choice for faster networks.
const SOCKETS: (f64, f64) = (10.0, 1.15);

/// Returns the findings of a comparison. `is_doubtful`: good results of other tests contradict a bad one.
pub(super) fn compare(
    run: &Run,
    limit: Option<&Limit>,
    expectation: Option<&Expectation>,
    is_doubtful: bool,
) -> Option<Finding> {
    let unknown =
        |line: usize, text: String| Some(Finding { verdict: Verdict::CannotTell, line, text });
    if limit.is_none() && expectation.is_none() {
        return None;
    }
    let Some(peak) = run.peak() else {
        return unknown(run.line, "no measurements".to_owned());
    };
    let ceiling = limit.map_or(f64::MAX, |limit| limit.with_switches.unwrap_or(limit.most));
    if peak.best() > ceiling * TOLERANCE {
        let text = format!(
            "{:.2} GB/s is implausible: this host's links carry {ceiling:.2}. The run used another host or other ports, or \
             did not cross hosts",
            peak.best()
        );
        return Some(bad(peak.line, text));
    }
    let large = large(run);
    let largest = run.points.iter().max_by_key(|point| point.bytes).map_or(peak, |point| point);
    if largest.bytes < large {
        let text = format!(
            "the largest size is {}: this shows latency; measure {} or more",
            size(largest.bytes),
            size(large)
        );
        return unknown(largest.line, text);
    }
    // A fast small size proves nothing, but a large size that is slower than smaller ones is a finding.
    let peak = peak_of_large(run).unwrap_or(peak);
    if largest.best() < peak.best() * DROP {
        let text = format!(
            "{:.2} GB/s at {}, after {:.2} at {}: another workload ran, or a link fails under load; rerun",
            largest.best(),
            size(largest.bytes),
            peak.best(),
            size(peak.bytes)
        );
        return Some(bad(largest.line, text));
    }
    let expectation = expectation?;
    match expectation.verdict(peak.best()) {
        Verdict::Good => above_rings(peak, limit, expectation),
        Verdict::CannotTell => unknown(peak.line, between(run, peak, limit, expectation)),
        Verdict::Bad if is_doubtful => {
            let why = "sendrecv measures one pair of ranks at a time between hosts, and other tests in this file are good";
            unknown(peak.line, format!("doubtful: {}: {why}", below(run, peak, expectation)))
        }
        Verdict::Bad => {
            let cause = likely_cause(run, peak, limit);
            Some(bad(peak.line, below(run, peak, expectation) + &cause))
        }
    }
}

/// Finds a result that the named algorithm cannot reach.
fn above_rings(peak: &Point, limit: Option<&Limit>, expectation: &Expectation) -> Option<Finding> {
    let limit = limit.filter(|limit| limit.pattern == Pattern::Ring)?;
    let is_above = peak.best() > limit.expected * TOLERANCE;
    (is_above && expectation.algorithm == Some(Algorithm::Ring)).then(|| Finding {
        verdict: Verdict::CannotTell,
        line: peak.line,
        text: format!(
            "{:.2} GB/s is above {:.2}, which rings can reach: another algorithm was used",
            peak.best(),
            limit.expected
        ),
    })
}

/// Returns the minimum size that shows bandwidth.
fn large(run: &Run) -> u64 {
    if run.device.is_some() { LARGE_OF_PERFTEST } else { LARGE }
}

/// Returns the fastest large size.
pub(super) fn peak_of_large(run: &Run) -> Option<&Point> {
    let of_large = run.points.iter().filter(|point| point.bytes >= large(run));
    of_large.max_by(|a, b| a.best().total_cmp(&b.best()))
}

/// Formats a result below the expectation: `best 193.66 GB/s at 32 MiB or more, below 300.00; …`.
fn below(run: &Run, peak: &Point, expectation: &Expectation) -> String {
    let Expectation { good, bad, .. } = expectation;
    let best = format!("best {:.2} GB/s at {} or more", peak.best(), size(large(run)));
    if expectation.is_set() {
        return format!("{best}, below {bad:.2}; --expect is {good:.2}");
    }
    format!("{best}, below {bad:.2}; known-good machines reach {good:.2}")
}

/// Formats a result between bad and good, with its possible causes and the command that decides.
fn between(run: &Run, peak: &Point, limit: Option<&Limit>, expectation: &Expectation) -> String {
    let best = format!("best {:.2} GB/s at {} or more", peak.best(), size(large(run)));
    if expectation.is_set() {
        return format!("{best}, below --expect {:.2}", expectation.good);
    }
    let unknown = if expectation.algorithm_matters { ", algorithm unknown" } else { "" };
    let start = format!("below known-good machines{unknown}: {best}, of {:.2}", expectation.good);
    let (Some(limit), true) = (limit, expectation.algorithm_matters) else {
        return start + &likely_cause(run, peak, limit);
    };
    // Number of NICs with which known-good machines would reach this.
    let used = (peak.best() / expectation.good * limit.nics as f64).round().max(1.0) as usize;
    let nics = counted(limit.nics, "NIC");
    let one = match limit.nics.saturating_sub(used) {
        0 => format!("NVLSTree uses all {nics} on a slower path"),
        missing => format!("NVLSTree uses {used} of {nics} ({missing} missing)"),
    };
    let other = if peak.best() <= limit.expected { "rings" } else { "trees" };
    let why = expectation
        .unknown
        .as_ref()
        .map_or_else(String::new, |why| format!(" NVLink SHARP of this host is unknown: {why}."));
    format!(
        "{start}. Either {one}, or {other} use all.{why} To decide, run the test with NCCL_DEBUG=INFO and \
         NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,TUNING,DESTROY, then `bedplate nccl job LOG`; or pass the algorithm with --algo"
    )
}

/// Returns the likely cause of a low rate, as the end of a sentence.
fn likely_cause(run: &Run, peak: &Point, limit: Option<&Limit>) -> String {
    let is_slow = limit.is_none_or(|limit| peak.best() < limit.expected / 2.0);
    let one_by_one = limit.is_some_and(|limit| limit.pattern == Pattern::Pairs);
    match run.device {
        None if is_level(run) && is_slow => {
            ": flat, as with TCP sockets; confirm with `bedplate nccl log` on the job's log, and find the cause with \
             `bedplate doctor socket-fallback`"
        }
        None if one_by_one => {
            ": a slower path or another bottleneck; `bedplate nccl log` on the job's log names the NICs used"
        }
        None => {
            ": fewer NICs than this host has, a slower path or another bottleneck; `bedplate nccl log` on the job's log \
             names the NICs used"
        }
        Some(_) if run.test == Some(Test::IbReadBw) => {
            ": too few outstanding read requests, or a slower path (`bedplate verify`)"
        }
        Some(_) => ": congestion, a slower path or slow memory at its end (`bedplate verify`)",
    }
    .to_owned()
}

/// Whether all large sizes are on the plateau of sockets.
fn is_level(run: &Run) -> bool {
    let large: Vec<f64> =
        run.points.iter().filter(|point| point.bytes >= LARGE).map(Point::best).collect();
    let most = large.iter().copied().fold(0.0, f64::max);
    let least = large.iter().copied().fold(f64::MAX, f64::min);
    large.len() > 1 && most <= SOCKETS.0 && most <= least * SOCKETS.1
}
