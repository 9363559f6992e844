//! Verdict on a log: whether GPU memory crosses the network directly, and the evidence against it, with line numbers.
//! Pure.

use bedplate_base::counted;
use serde::Serialize;

use super::finding::total;
use super::warning_meanings::WarningSeverity;
use super::{Carrier, Job, Log, completeness, findings};

pub use super::finding::{Finding, JobPath, Path, ranks};

/// Verdict on a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every connection between nodes uses GPUDirect RDMA.
    Direct,
    /// One node: the network was not used.
    OneNode,
    /// Connections between nodes use host memory or sockets.
    NotDirect,
    /// Faults are reported, and no connection is known to be indirect.
    Faults,
    /// The log does not show it.
    CannotTell,
}

impl Verdict {
    /// Returns the rank of the verdict, from good to bad.
    fn badness(self) -> u8 {
        match self {
            Verdict::OneNode => 0,
            Verdict::Direct => 1,
            Verdict::CannotTell => 2,
            Verdict::Faults => 3,
            Verdict::NotDirect => 4,
        }
    }
}

/// Verdict on a log, with its reason and findings.
#[derive(Debug)]
pub struct LogVerdict {
    /// Verdict.
    pub verdict: Verdict,
    /// Reason, one sentence.
    pub reason: String,
    /// Jobs, at least one.
    pub jobs: Vec<JobPath>,
    /// Findings, worst first.
    pub findings: Vec<Finding>,
}

/// Evaluates a log.
pub fn judge(log: &Log) -> LogVerdict {
    let jobs = log.jobs();
    let mut findings = findings::find(log, &jobs);
    let jobs: Vec<JobPath> = jobs.iter().map(|job| evaluate(log, job)).collect();
    findings.extend(findings::singletons(&jobs, log));
    findings.extend(findings::local_jobs(&jobs));
    findings.sort_by_key(|finding| {
        let first = finding.seen.map(|seen| seen.first);
        (std::cmp::Reverse(finding.weight), !finding.is_cause, first)
    });
    let (verdict, reason) = word(&jobs, &findings);
    LogVerdict { verdict, reason, jobs, findings }
}

fn evaluate(log: &Log, job: &Job) -> JobPath {
    let (path, text) = path(log, job);
    let missing = completeness::missing(log, job);
    JobPath {
        nodes: job.nodes(),
        ranks: job.ranks(),
        gpus: job.workers.len(),
        executions: job.executions(),
        path,
        text,
        missing,
    }
}

fn word(jobs: &[JobPath], findings: &[Finding]) -> (Verdict, String) {
    let failed = findings.iter().any(|finding| finding.weight == WarningSeverity::Fault);
    let of = |job: &JobPath| match (job.path, job.missing.first()) {
        (Path::NotDirect, _) => (Verdict::NotDirect, job.text.clone()),
        (Path::Direct, _) if failed => {
            (Verdict::Faults, format!("{}, but faults are reported", job.text))
        }
        _ if failed => (Verdict::Faults, "see the faults below".to_owned()),
        (Path::Unknown, _) => (Verdict::CannotTell, job.text.clone()),
        // A positive verdict requires the whole job.
        (_, Some(missing)) => {
            (Verdict::CannotTell, format!("{missing}; in the part shown, {}", job.text))
        }
        (Path::Direct, None) => (Verdict::Direct, job.text.clone()),
        (Path::OneNode, None) => (Verdict::OneNode, job.text.clone()),
    };
    let worst = jobs
        .iter()
        .map(of)
        .enumerate()
        .max_by_key(|(number, (verdict, _))| (verdict.badness(), std::cmp::Reverse(*number)));
    match worst {
        Some((_, judged)) if jobs.len() == 1 => judged,
        Some((number, (verdict, reason))) => {
            (verdict, format!("job {} of {}: {reason}", number + 1, jobs.len()))
        }
        None => (Verdict::CannotTell, WANTED.to_owned()),
    }
}

/// Settings that make NCCL report its connections.
const WANTED: &str =
    "run the job with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,DESTROY";

/// Returns the reason that a log shows nothing of NCCL.
fn without_nccl(log: &Log) -> String {
    let has_table = log.results.iter().any(|results| !results.runs.is_empty());
    match (log.lines, log.is_binary, has_table) {
        (0, _, _) => "the log is empty".to_owned(),
        (_, true, _) => "the file is binary, not a log".to_owned(),
        (_, _, true) => {
            format!("the output has a result table, but no line from NCCL: {WANTED}")
        }
        _ => format!("the log has no line from NCCL: {WANTED}"),
    }
}

fn path(log: &Log, job: &Job) -> (Path, String) {
    if log.said == 0 {
        return (Path::Unknown, without_nccl(log));
    }
    let total = |carrier: Carrier| total(job.workers.iter().copied(), carrier);
    let [direct, staged, sockets, fabric, peer, shm, other] = Carrier::ALL.map(total);
    let between = if job.is_local() { "between ranks" } else { "between nodes" };
    let is_one_node = log.hosts.len() == 1 || job.nodes().len() == 1;
    match () {
        () if sockets + staged > 0 => {
            let words = match (staged, sockets, direct) {
                (0, _, 0) => format!("all connections {between} use TCP sockets"),
                (_, 0, 0) => format!("all connections {between} go through host memory"),
                _ => format!(
                    "connections {between}: {direct} direct, {staged} through host memory, {sockets} TCP sockets"
                ),
            };
            (Path::NotDirect, words)
        }
        () if other > 0 => (
            Path::Unknown,
            format!(
                "bedplate does not know the transport of {}",
                counted(other as usize, "connection")
            ),
        ),
        () if direct > 0 => (Path::Direct, connections(direct, between) + " GPUDirect RDMA"),
        () if !is_one_node && fabric > 0 => (
            Path::Direct,
            "all connections use NVLink, including those between nodes (MNNVL)".to_owned(),
        ),
        () if is_one_node && fabric + peer + shm > 0 => {
            (Path::OneNode, "one node; all connections are within it".to_owned())
        }
        () if job.ranks() == Some(1) => {
            (Path::OneNode, "one rank, which needs no connections".to_owned())
        }
        () => {
            (Path::Unknown, format!("the log does not show how the ranks are connected: {WANTED}"))
        }
    }
}

fn connections(count: u64, which: &str) -> String {
    match count {
        1 => format!("the only connection {which} uses"),
        _ => format!("all {count} connections {which} use"),
    }
}
