//! Evaluates results by the links of one or several hosts. The slowest host limits a run.

use std::collections::BTreeSet;

use super::copies;
use super::gpu_address::is_at;
use super::judge::{self, Assumptions, Finding, Judged, Links, Report, Verdict};
use super::{NamedGpu, Results, Run};
use bedplate_base::value::PciAddress;

/// A host whose links limit a run.
#[derive(Debug, Default)]
pub struct Host {
    /// Name in reports: hostname, or snapshot file.
    pub name: String,
    /// Hostname, if known.
    pub hostname: Option<String>,
    /// Links.
    pub links: Links,
    /// Addresses of GPUs, if known.
    pub gpus: Option<Vec<PciAddress>>,
}

/// Evaluates a file by the links of the hosts; at least one.
pub fn judge(results: Results, hosts: &[Host], assumptions: &Assumptions) -> Report {
    let Results { runs, unread, latency, notes } = results;
    let runs = judge::judge_runs(runs, |run, is_doubtful| {
        let missing = missing_gpus(&run, hosts);
        let mut judged = slowest(&run, hosts, assumptions, is_doubtful)?;
        judged.findings.extend(missing);
        judged.conclude();
        Some(judged)
    });
    let rest = Results { runs: Vec::new(), unread, latency, notes };
    let findings = match runs.is_empty() || !rest.is_empty() {
        true => judge::judge(rest, &Links::default(), assumptions).findings,
        false => Vec::new(),
    };
    let verdict = runs.iter().map(|judged| judged.verdict).fold(Verdict::Good, Verdict::max);
    let verdict = worst(verdict, &findings);
    let with_limit = |one: &&Judged| one.run.is_collective() && one.limit.is_some();
    let host = match hosts {
        [alone] => Some((None, alone)),
        several => runs.iter().filter(with_limit).find_map(|judged| {
            let name = judged.host.clone();
            let host = several.iter().find(|host| Some(&host.name) == name.as_ref())?;
            Some((name, host))
        }),
    };
    let (host, nics) =
        host.map(|(name, host)| (name, host.links.chosen.clone())).unwrap_or_default();
    Report { runs, nics, host, findings, verdict }
}

fn worst(verdict: Verdict, findings: &[Finding]) -> Verdict {
    findings.iter().map(|finding| finding.verdict).fold(verdict, Verdict::max)
}

/// Evaluates a run by the links of one host.
fn judge_run(run: Run, links: &Links, assumptions: &Assumptions, is_doubtful: bool) -> Judged {
    match run.copies.is_empty() {
        true => judge::judge_one(run, links, assumptions, is_doubtful),
        false => copies::judge(run, links),
    }
}

/// Evaluates a run by the host with the lowest limit. A host with an unknown limit may be the slowest.
fn slowest(
    run: &Run,
    hosts: &[Host],
    assumptions: &Assumptions,
    is_doubtful: bool,
) -> Option<Judged> {
    let (mut least, mut is_known): (Option<(Judged, &Host)>, bool) = (None, false);
    let order = |judged: &Judged| bound(judged).unwrap_or((f64::NEG_INFINITY, 0.0));
    for host in participants(run, hosts) {
        let judged = judge_run(run.clone(), &host.links, assumptions, is_doubtful);
        is_known |= bound(&judged).is_some();
        if least.as_ref().is_none_or(|(least, _)| order(&judged) < order(least)) {
            least = Some((judged, host));
        }
    }
    let (mut judged, host) = least?;
    judged.host = (is_known && hosts.len() > 1).then(|| host.name.clone());
    Some(judged)
}

/// Returns the lowest limit of a run, and the expected bandwidth; `None`: unknown.
fn bound(judged: &Judged) -> Option<(f64, f64)> {
    match (&judged.limit, judged.copies.is_empty()) {
        (Some(limit), _) => Some((limit.most, limit.expected)),
        (None, true) => None,
        (None, false) => {
            let mut limits = judged.copies.iter().map(|copy| copy.limit);
            let least = limits.try_fold(f64::INFINITY, |least, one| Some(least.min(one?)))?;
            Some((least, least))
        }
    }
}

/// Returns the hosts that the run names, or all if it names other hosts only.
fn participants<'h>(run: &Run, hosts: &'h [Host]) -> Vec<&'h Host> {
    let names: BTreeSet<&str> = names(run).map(short).collect();
    let is_named =
        |host: &&Host| host.hostname.as_deref().is_some_and(|own| names.contains(short(own)));
    let named: Vec<&Host> = hosts.iter().filter(is_named).collect();
    if named.is_empty() { hosts.iter().collect() } else { named }
}

fn names(run: &Run) -> impl Iterator<Item = &str> {
    let gpus = run.gpus.iter().map(|gpu| gpu.host.as_str());
    run.ranks.iter().map(String::as_str).chain(gpus)
}

/// Returns a hostname without its domain, which nccl-tests omits.
fn short(hostname: &str) -> &str {
    hostname.split('.').next().unwrap_or(hostname)
}

/// Finds GPUs in the run that the hosts lack. A host without a recorded name may be any host of the run, unless it lacks
/// GPUs of each. A missing GPU of a copy is the reason of its unknown limit.
fn missing_gpus(run: &Run, hosts: &[Host]) -> Vec<Finding> {
    let of = |host: &Host| {
        let own = host.gpus.as_ref()?;
        let is_missing = |gpu: &&NamedGpu| !own.iter().any(|own| is_at(*own, &gpu.address));
        let is_of = |gpu: &&NamedGpu| {
            host.hostname.as_deref().is_none_or(|name| short(&gpu.host) == short(name))
        };
        let missing: Vec<&NamedGpu> = run.gpus.iter().filter(is_of).filter(is_missing).collect();
        let lacking: BTreeSet<&str> = missing.iter().map(|gpu| gpu.host.as_str()).collect();
        let all: BTreeSet<&str> = run.gpus.iter().map(|gpu| gpu.host.as_str()).collect();
        if host.hostname.is_none() && lacking != all {
            return None;
        }
        let addresses: BTreeSet<&str> = missing.iter().map(|gpu| gpu.address.as_str()).collect();
        let addresses: Vec<&str> = addresses.into_iter().collect();
        Some(Finding {
            verdict: Verdict::CannotTell,
            line: missing.first()?.line,
            text: format!(
                "{} has no GPU at {}: the results are of another host, or the GPU is gone",
                host.name,
                addresses.join(", ")
            ),
        })
    };
    if run.is_collective() { hosts.iter().filter_map(of).collect() } else { Vec::new() }
}
