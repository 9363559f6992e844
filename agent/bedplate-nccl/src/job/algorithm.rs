//! Algorithm of the large operations of a job, by its log.

use crate::log::Log;
use crate::perf::Algorithm;

/// Returns the algorithm of large all_reduces; `None`: the log does not show it. In order of certainty: NCCL's report
/// (`AllReduce: … Bytes -> Algo RING`), a forced algorithm (NCCL_ALGO), connections through switches, trees that NVLink
/// SHARP builds between nodes.
pub fn algorithm_of_log(log: &Log) -> Option<Algorithm> {
    let reported = log.algorithm.as_ref().and_then(|(_, name)| name.parse().ok());
    let connected = match (log.collnet, log.nvls_tree) {
        (Some(_), _) => Some(Algorithm::CollnetDirect),
        // One node has this tree, too.
        (None, Some(_)) if log.hosts.len() > 1 => Some(Algorithm::NvlsTree),
        (None, _) => None,
    };
    reported.or_else(|| forced(log)).or(connected)
}

/// Returns the only value of NCCL_ALGO. Lists and exclusions (`^Tree`) leave a choice, and fail to parse.
fn forced(log: &Log) -> Option<Algorithm> {
    let values = log.environment.get("NCCL_ALGO")?;
    let (value, _) = values.iter().next().filter(|_| values.len() == 1)?;
    value.parse().ok()
}
