//! Links of the nodes, from the port rates in a log.

use std::collections::BTreeMap;

use crate::log::Log;
use crate::perf::judge::Links;
use crate::perf::limit::{Nic, Port};

/// Returns the links of the slowest node. NCCL reports port rates from 2.27 on, with NCCL_DEBUG_SUBSYS=NET.
pub fn links_of_log(log: &Log) -> Links {
    let unknown = |why: String| Links { unknown: Some(why), ..Links::default() };
    let remedy = "record the nodes with `bedplate snapshot`, and pass --snapshot FILE";
    let mut nodes: BTreeMap<usize, Vec<Nic>> = BTreeMap::new();
    for ((host, _), process) in &log.processes {
        if nodes.contains_key(host) || process.hcas.is_empty() {
            continue;
        }
        let ports = process.hcas.iter().map(|hca| port(log, *host, hca));
        match ports.collect::<Option<Vec<Nic>>>() {
            Some(nics) => _ = nodes.insert(*host, nics),
            None => {
                let node = &log.hosts[*host];
                return unknown(format!(
                    "the log does not contain the port rates of {node}: {remedy}"
                ));
            }
        }
    }
    let rate = |nics: &[Nic]| nics.iter().filter_map(Nic::wire).sum::<f64>();
    let slowest = nodes.into_values().min_by(|a, b| rate(a).total_cmp(&rate(b)));
    match slowest {
        Some(nics) => Links { chosen: nics.clone(), all: nics, ..Links::default() },
        None => unknown(format!("the log does not list the RDMA ports: {remedy}")),
    }
}

/// Returns the NIC of `mlx5_0:1/IB`.
fn port(log: &Log, host: usize, hca: &str) -> Option<Nic> {
    let (name, layer) = hca.rsplit_once('/')?;
    let rate = *log.rates.get(&(host, name.to_owned()))?;
    let name = name.replace(':', "/");
    let port = Port { name, rate: Some(rate), ethernet: layer != "IB" };
    Some(Nic { ports: vec![port], pcie: None })
}
