//! Verdict on each node of a job.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::log::verdict::{LogVerdict, Path, ranks};
use crate::log::warning_meanings::WarningSeverity;
use crate::log::{Carrier, Log, Worker};
use crate::perf::judge::Verdict;

/// Verdict on a node.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct NodeVerdict {
    /// Name, as its processes report it.
    pub node: String,
    /// Verdict: bad if a fault of this node is known.
    pub verdict: Verdict,
    /// Reason; empty if the verdict is good.
    pub reason: String,
    /// Ranks: `ranks 0-7`.
    pub ranks: String,
    /// Number of GPUs in the output.
    pub gpus: usize,
    /// How its ranks reach other nodes.
    pub path: Path,
    /// Networks that its ranks use: `IB`, `Socket` or a plugin's name.
    pub networks: BTreeSet<String>,
    /// RDMA ports that its processes found, with their link layer: `mlx5_0:1/IB`.
    pub hcas: BTreeSet<String>,
    /// RDMA ports that its ranks used.
    pub used: BTreeSet<String>,
}

/// Returns the verdicts on the nodes that take part, in order of appearance.
pub(super) fn nodes(log: &Log, judged: &LogVerdict) -> Vec<NodeVerdict> {
    let mut by_node: BTreeMap<usize, Vec<&Worker>> = BTreeMap::new();
    for one in log.workers.iter().filter(|one| one.takes_part()) {
        by_node.entry(one.host).or_default().push(one);
    }
    // The first fault of each node; findings are sorted. If causes are known, effects prove no fault of a node.
    let all = || judged.findings.iter().filter(|one| one.weight == WarningSeverity::Fault);
    let has_cause = all().any(|one| one.is_failure && one.is_cause);
    let has_failed = all().any(|one| one.is_failure);
    let mut faults: BTreeMap<usize, &str> = BTreeMap::new();
    let blamed = all().filter(|one| one.is_cause || !one.is_failure || !has_cause);
    for (node, text) in blamed.filter_map(|one| Some((one.node?, one.text.as_str()))) {
        faults.entry(node).or_insert(text);
    }
    let mut complete: BTreeMap<usize, &str> = BTreeMap::new();
    for job in &judged.jobs {
        for (node, missing) in
            job.nodes.iter().filter_map(|node| Some((*node, job.missing.first()?)))
        {
            complete.entry(node).or_insert(missing);
        }
    }
    let is_local = judged.jobs.iter().all(|job| job.path == Path::OneNode);
    let of = |(host, workers): (usize, Vec<&Worker>)| {
        let path = path(&workers, is_local);
        let (verdict, reason) = match (faults.get(&host), complete.get(&host), path) {
            (Some(fault), _, _) => (Verdict::Bad, (*fault).to_owned()),
            (None, _, Path::NotDirect) => (Verdict::Bad, "connections are not direct".to_owned()),
            (None, Some(missing), _) => (Verdict::CannotTell, (*missing).to_owned()),
            (None, None, _) if has_failed && !workers.iter().all(|one| one.destroyed > 0) => {
                (Verdict::CannotTell, "the job failed; no fault of this node is known".to_owned())
            }
            (None, None, Path::Unknown) => {
                (Verdict::CannotTell, "its connections are not in the output".to_owned())
            }
            (None, None, Path::Direct | Path::OneNode) => (Verdict::Good, String::new()),
        };
        let processes = || workers.iter().filter_map(|one| log.processes.get(&(one.host, one.pid)));
        NodeVerdict {
            node: log.hosts[host].clone(),
            verdict,
            reason,
            ranks: ranks(workers.iter().copied()),
            gpus: workers.len(),
            path,
            networks: processes()
                .filter_map(|one| one.network.as_ref().map(|(name, _)| name.clone()))
                .collect(),
            hcas: processes().flat_map(|one| one.hcas.iter().cloned()).collect(),
            used: used(log, &workers),
        }
    };
    by_node.into_iter().map(of).collect()
}

fn path(workers: &[&Worker], is_local: bool) -> Path {
    let has = |carrier: Carrier| workers.iter().any(|one| one.carriers[carrier as usize].is_some());
    match () {
        () if has(Carrier::Staged) || has(Carrier::Sockets) => Path::NotDirect,
        () if has(Carrier::Direct) || has(Carrier::Fabric) => Path::Direct,
        () if is_local => Path::OneNode,
        () => Path::Unknown,
    }
}

/// Returns the names of the ports that the ranks used; numbers where the list of ports is not in the output.
fn used(log: &Log, workers: &[&Worker]) -> BTreeSet<String> {
    let numbers = |one: &Worker| one.nics.keys().map(|(_, nic)| *nic).collect::<Vec<_>>();
    let name =
        |one: &Worker, nic: u32| log.nic(one, nic).map_or_else(|| nic.to_string(), str::to_owned);
    workers.iter().flat_map(|one| numbers(one).into_iter().map(|nic| name(one, nic))).collect()
}
