//! Compares equal runs in one file.

use std::collections::BTreeSet;

use super::Run;
use super::report::Judged;
use super::result::peak_of_large;
use super::verdict::{bad, size};

/// Minimum share of the best of equal runs. bedplate's choice: equal runs differ by a few percent.
const EQUAL: f64 = 0.75;

/// Maximum number of runs that are compared with each other.
const MOST_RUNS: usize = 1 << 10;

/// Adds a finding to each run that is far below an equal one: the same test and shape, on any hosts.
pub(super) fn compare(all: &mut [Judged]) {
    let best = |judged: &Judged| peak_of_large(&judged.run).map(|peak| (peak.best(), peak.line));
    let compared: Vec<(&Judged, Shape)> =
        all.iter().take(MOST_RUNS).map(|judged| (judged, shape(&judged.run))).collect();
    let findings: Vec<_> = compared
        .iter()
        .map(|(judged, own_shape)| {
            let (own, line) = best(judged)?;
            let equal = compared.iter().filter(|(other, shape)| {
                shape == own_shape && judged.run.test.is_some() && is_equal(&other.run, &judged.run)
            });
            let (fastest, most) = equal
                .filter_map(|(other, _)| Some((*other, best(other)?.0)))
                .max_by(|a, b| a.1.total_cmp(&b.1))?;
            (own < most * EQUAL)
                .then(|| (line, own, most, hosts(judged, fastest), fastest.run.line))
        })
        .collect();
    for (judged, found) in all.iter_mut().zip(findings) {
        let Some((line, own, most, hosts, other)) = found else { continue };
        let bytes = peak_of_large(&judged.run).map_or_else(String::new, |peak| size(peak.bytes));
        let text = format!(
            "{own:.2} GB/s at {bytes}, but {most:.2} in an equal run (line {other}){hosts}: rerun to tell a slow host from \
             another workload"
        );
        judged.findings.push(bad(line, text));
        judged.conclude();
    }
}

/// Ranks of each host, whether they were split, and the largest size.
type Shape = (Vec<usize>, bool, Option<u64>);

fn shape(run: &Run) -> Shape {
    let mut ranks: Vec<usize> = run.hosts().values().copied().collect();
    ranks.sort_unstable();
    (ranks, run.split, run.points.iter().map(|point| point.bytes).max())
}

/// Whether two runs of one shape should show the same bandwidth.
fn is_equal(a: &Run, b: &Run) -> bool {
    a.test == b.test && a.device == b.device
}

/// Returns the hosts of the slower run, if the faster one has others.
fn hosts(slow: &Judged, fast: &Judged) -> String {
    let names = |judged: &Judged| -> BTreeSet<String> { judged.run.hosts().into_keys().collect() };
    let (slow, fast) = (names(slow), names(fast));
    let only: Vec<&str> = slow.difference(&fast).map(String::as_str).collect();
    if only.is_empty() { String::new() } else { format!(", without {}", only.join(", ")) }
}
