//! Evaluates results by the links of one or several hosts. The slowest host limits a run.

use std::collections::BTreeSet;

use super::copies;
use super::gpu_address::is_at;
use super::judge::{self, Finding, Judged, Links, Report, Verdict};
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
pub fn judge(results: Results, hosts: &[Host]) -> Report {
    let Results { runs, unread, latency, notes } = results;
    let alone = hosts.first().filter(|_| hosts.len() == 1);
    let mut nics = alone.map(|host| (None, host.links.chosen.clone()));
    let mut judged_runs = Vec::new();
    for run in runs {
        let Some((mut judged, host)) = slowest(&run, hosts) else { continue };
        if run.is_collective() && judged.limit.is_some() && nics.is_none() {
            nics = Some((Some(host.name.clone()), host.links.chosen.clone()));
        }
        judged.findings.extend(missing_gpus(&run, hosts));
        judged.findings.sort_by_key(|finding| finding.line);
        judged.verdict = worst(judged.verdict, &judged.findings);
        judged_runs.push(judged);
    }
    let rest = Results { runs: Vec::new(), unread, latency, notes };
    let findings = match judged_runs.is_empty() || !rest.is_empty() {
        true => judge::judge(rest, &Links::default()).findings,
        false => Vec::new(),
    };
    let verdict = judged_runs.iter().map(|judged| judged.verdict).fold(Verdict::Good, Verdict::max);
    let verdict = worst(verdict, &findings);
    let (host, nics) = nics.unwrap_or_default();
    Report { runs: judged_runs, nics, host, findings, verdict }
}

fn worst(verdict: Verdict, findings: &[Finding]) -> Verdict {
    findings.iter().map(|finding| finding.verdict).fold(verdict, Verdict::max)
}

/// Evaluates a run by the links of one host.
fn judge_run(run: Run, links: &Links) -> Option<Judged> {
    if !run.copies.is_empty() {
        return Some(copies::judge(run, links));
    }
    judge::judge(Results { runs: vec![run], ..Results::default() }, links).runs.pop()
}

/// Evaluates a run by the host with the lowest limit. A host with an unknown limit may be the slowest.
fn slowest<'h>(run: &Run, hosts: &'h [Host]) -> Option<(Judged, &'h Host)> {
    let (mut least, mut is_known): (Option<(Judged, &Host)>, bool) = (None, false);
    let order = |judged: &Judged| bound(judged).unwrap_or((f64::NEG_INFINITY, 0.0));
    for host in participants(run, hosts) {
        let Some(judged) = judge_run(run.clone(), &host.links) else { continue };
        is_known |= bound(&judged).is_some();
        if least.as_ref().is_none_or(|(least, _)| order(&judged) < order(least)) {
            least = Some((judged, host));
        }
    }
    let (mut judged, host) = least?;
    judged.host = (is_known && hosts.len() > 1).then(|| host.name.clone());
    Some((judged, host))
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
