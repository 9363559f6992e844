//! Findings of a log, and the path of each of its jobs.

use std::collections::BTreeSet;

use serde::Serialize;

use super::warning_meanings::WarningSeverity;
use super::{Carrier, Tally, Worker};

/// How the ranks of a job reach other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// Every connection between nodes uses GPUDirect RDMA, or NVLink that spans nodes.
    Direct,
    /// One node: the network was not used.
    OneNode,
    /// The log does not show it.
    Unknown,
    /// Connections between nodes use host memory or sockets.
    NotDirect,
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Severity.
    pub weight: WarningSeverity,
    /// Whether it may explain other findings.
    pub is_cause: bool,
    /// Whether it proves that the job failed or was ended.
    pub is_failure: bool,
    /// Finding text, one sentence.
    pub text: String,
    /// Node, an index into [`Log::hosts`](super::Log::hosts); `None`: of the whole job.
    pub node: Option<usize>,
    /// First line that reports it, and the number of occurrences.
    pub seen: Option<Tally>,
    /// Fix.
    pub fix: Option<String>,
}

/// Path and completeness of one job of a log.
#[derive(Debug)]
pub struct JobPath {
    /// Nodes, as indices into [`Log::hosts`](super::Log::hosts).
    pub nodes: BTreeSet<usize>,
    /// Number of ranks that the log announces; `None`: not in the log.
    pub ranks: Option<u32>,
    /// Number of GPUs in the log.
    pub gpus: usize,
    /// How often its program ran: the processes that had the same rank.
    pub executions: usize,
    /// Path.
    pub path: Path,
    /// Reason for the path, one sentence.
    pub text: String,
    /// Parts that a whole log would have; empty: complete.
    pub missing: Vec<String>,
}

/// Returns the number of connections with this carrier.
pub(super) fn total<'w>(workers: impl Iterator<Item = &'w Worker>, carrier: Carrier) -> u64 {
    workers.map(|one| one.carriers[carrier as usize].map_or(0, |seen| seen.count)).sum()
}

/// Returns the human-readable ranks: `ranks 0-3 7`; GPUs with an unknown rank are counted.
pub fn ranks<'w>(workers: impl Iterator<Item = &'w Worker>) -> String {
    let (mut known, mut unknown) = (BTreeSet::new(), 0);
    for worker in workers {
        match worker.rank {
            Some((rank, _)) => _ = known.insert(rank),
            None => unknown += 1,
        }
    }
    let single = known.len() == 1;
    let spans = bedplate_base::ranges(known);
    match spans.len() {
        0 => format!("{} with unknown ranks", bedplate_base::counted(unknown, "GPU")),
        1 if single => format!("rank {}", spans[0]),
        1..=16 => format!("ranks {}", spans.join(" ")),
        _ => format!("ranks {} …", spans[..16].join(" ")),
    }
}
