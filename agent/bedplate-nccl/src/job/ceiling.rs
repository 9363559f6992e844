//! Links of the nodes, from the port rates in a log.

use std::collections::{BTreeMap, BTreeSet};

use bedplate_base::counted;

use crate::log::Log;
use crate::log::verdict::LogVerdict;
use crate::perf::judge::Links;
use crate::perf::limit::{Nic, Port};

/// Returns the links of the slowest node: the ports that its ranks used. NCCL reports port rates from 2.27 on, with
/// NCCL_DEBUG_SUBSYS=NET. Fewer used ports than GPUs may be missing ones.
pub fn links_of_log(log: &Log, judged: &LogVerdict) -> Links {
    let unknown =
        |why: String| Links { unknown: Some(format!("{why}: {REMEDY}")), ..Links::default() };
    // Ranks that are not in the log use ports, too.
    if judged.jobs.iter().any(|job| !job.missing.is_empty()) {
        return unknown("the log is not complete".to_owned());
    }
    let mut nodes: BTreeMap<usize, (usize, BTreeSet<&str>)> = BTreeMap::new();
    for one in log.workers.iter().filter(|one| one.takes_part()) {
        let (gpus, used) = nodes.entry(one.host).or_default();
        *gpus += 1;
        for (_, number) in one.nics.keys() {
            let Some(name) = log.nic(one, *number) else {
                return unknown("the log does not list the RDMA ports".to_owned());
            };
            used.insert(name);
        }
    }
    let mut slowest: Option<Vec<Nic>> = None;
    let rate = |nics: &[Nic]| nics.iter().filter_map(Nic::wire).sum::<f64>();
    // A slow port would be its own yardstick.
    let mut first: Option<(f64, String)> = None;
    for (host, (gpus, used)) in nodes {
        let node = &log.hosts[host];
        if used.len() < gpus {
            let ports = counted(used.len(), "RDMA port");
            return unknown(format!("{} on {node} use {ports}", counted(gpus, "GPU")));
        }
        let nics: Option<Vec<Nic>> = used.iter().map(|hca| port(log, host, hca)).collect();
        let Some(nics) = nics else {
            return unknown(format!("the log does not contain the port rates of {node}"));
        };
        for nic in &nics {
            let Some(own) = nic.wire() else { continue };
            let named = format!("{} on {node} has {} Gb/s", nic.name(), own * 8.0);
            match &first {
                Some((rate, other)) if *rate != own => {
                    return unknown(format!("the ports have unequal rates: {other}, {named}"));
                }
                Some(_) => {}
                None => first = Some((own, named)),
            }
        }
        if slowest.as_ref().is_none_or(|before| rate(&nics) < rate(before)) {
            slowest = Some(nics);
        }
    }
    match slowest {
        Some(nics) => Links { chosen: nics.clone(), all: nics, ..Links::default() },
        None => unknown("the log does not list the RDMA ports".to_owned()),
    }
}

/// How to get the links of a node.
const REMEDY: &str = "record the nodes with `bedplate snapshot`, and pass --snapshot FILE";

/// Returns the NIC of `mlx5_0:1/IB`.
fn port(log: &Log, host: usize, hca: &str) -> Option<Nic> {
    let (name, layer) = hca.rsplit_once('/')?;
    let rate = *log.rates.get(&(host, name.to_owned()))?;
    let name = name.replace(':', "/");
    let port = Port { name, rate: Some(rate), ethernet: layer != "IB" };
    Some(Nic { ports: vec![port], pcie: None })
}
