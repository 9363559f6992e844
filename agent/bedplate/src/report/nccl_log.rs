//! Output of `bedplate nccl log`: the verdict with its findings, then the connections of the ranks.

mod markdown;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use bedplate_base::counted;
use serde::Serialize;

use super::style::{BAD, FAINT, GOOD, HEAD, WARN, paint};
use bedplate_nccl::log::verdict::{Finding, JobPath, LogVerdict, Verdict, ranks};
use bedplate_nccl::log::warning_meanings::WarningSeverity;
use bedplate_nccl::log::{CARRIERS, Carrier, Log, Place, Tally, Worker};

pub use markdown::markdown;

/// Cause found on a node of the log.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct OnNode {
    /// Name of the node.
    pub node: String,
    /// Affected ranks of the node.
    pub ranks: String,
    /// Severity.
    pub weight: WarningSeverity,
    /// Description of the cause.
    pub cause: String,
    /// Fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// A log with its verdict and file names.
pub struct LogView<'a> {
    /// The log.
    pub log: &'a Log,
    /// Evaluation of the log.
    pub judged: &'a LogVerdict,
    /// Files of the log, by index.
    pub files: &'a [String],
    /// Causes found on the nodes.
    pub on_nodes: &'a [OnNode],
}

/// Display names of the carriers.
const NAMES: [&str; CARRIERS] =
    ["GPUDirect RDMA", "host memory", "sockets", "NVLink (MNNVL)", "P2P", "SHM", "other"];

/// Number of network carriers, which come first.
const NETWORK: usize = 3;

fn sign(weight: WarningSeverity) -> String {
    match weight {
        WarningSeverity::Fault => paint(BAD, "✗"),
        WarningSeverity::Note => paint(WARN, "·"),
    }
}

impl LogView<'_> {
    fn place(&self, place: Place) -> String {
        let file = self.files.get(place.file).map_or("log", String::as_str);
        format!("{file}:{}", place.line)
    }

    fn seen(&self, seen: Option<Tally>) -> String {
        match seen {
            None => String::new(),
            Some(Tally { count: 0 | 1, first }) => format!(" ({})", self.place(first)),
            Some(Tally { count, first }) => format!(" ({}, {count} times)", self.place(first)),
        }
    }

    /// Formats the report for operators; `verbose` shows everything.
    pub fn text(&self, verbose: bool) -> String {
        let mut out = self.head();
        let (word, paint_as) = match self.judged.verdict {
            Verdict::Direct => ("direct", GOOD),
            Verdict::OneNode => ("one node", GOOD),
            Verdict::NotDirect => ("not direct", BAD),
            Verdict::Faults => ("faults", BAD),
            Verdict::CannotTell => ("unknown", WARN),
        };
        let _ = writeln!(out, "{}: {}", paint(paint_as, word), self.judged.reason);
        self.findings(&mut out);
        let network = self.network();
        if !network.is_empty() {
            let _ = writeln!(out, "\n{}\n  {network}", paint(HEAD, "Network"));
        }
        self.connections(&mut out, verbose);
        if verbose {
            self.environment(&mut out);
        }
        out
    }

    fn plugins(&self) -> impl Iterator<Item = &str> {
        let good = self.log.plugins.keys().filter(|(_, failed)| !failed);
        good.map(|(name, _)| name.as_str())
    }

    /// Formats the first line: versions, size, and the jobs if there are several.
    pub(super) fn head(&self) -> String {
        let log = self.log;
        let versions = log
            .versions
            .keys()
            .map(|(version, rccl)| format!("{} {version}", if *rccl { "RCCL" } else { "NCCL" }));
        let versions: Vec<String> = versions.take(4).collect();
        let versions = match versions.is_empty() {
            true => "NCCL of unknown version".to_owned(),
            false => versions.join(", "),
        };
        let job = |job: &JobPath| {
            let of =
                job.ranks.map(|ranks| format!(" of a job of {}", counted(ranks as usize, "rank")));
            let nodes = counted(job.nodes.len(), "node");
            format!("{} on {nodes}{}", counted(job.gpus, "GPU"), of.unwrap_or_default())
        };
        let jobs = match self.judged.jobs.as_slice() {
            [one] => job(one),
            several => {
                let each: Vec<String> = several.iter().take(4).map(job).collect();
                let more = if several.len() > each.len() { "; …" } else { "" };
                format!("{} jobs: {}{more}", several.len(), each.join("; "))
            }
        };
        format!(
            "{} {versions}, {jobs}; {} of {} lines are from NCCL\n",
            paint(HEAD, "log"),
            log.said,
            log.lines
        )
    }

    /// Formats the network: the plugins, link layers and libraries that the log names.
    pub(super) fn network(&self) -> String {
        let networks = self.log.processes.values().filter_map(|one| one.network.as_ref());
        let networks: BTreeSet<&str> = networks.map(|(name, _)| name.as_str()).collect();
        let layers = self.log.processes.values().flat_map(|one| one.hcas.iter());
        let layers: BTreeSet<&str> =
            layers.filter_map(|hca| Some(hca.rsplit_once('/')?.1)).collect();
        let words = networks.into_iter().map(str::to_owned);
        let words = words
            .chain((!layers.is_empty()).then(|| {
                format!("ports {}", layers.into_iter().collect::<Vec<_>>().join(" and "))
            }));
        let words = words.chain(self.plugins().map(|name| format!("plugin {name}")));
        let words = words.chain(self.log.gdrcopy.keys().map(|name| format!("GDRCopy {name}")));
        words.take(16).collect::<Vec<_>>().join(", ")
    }

    /// Formats the findings, and the causes found on nodes.
    pub(super) fn findings(&self, out: &mut String) {
        for finding in &self.judged.findings {
            self.finding(out, finding);
        }
        for one in self.on_nodes {
            let sign = sign(one.weight);
            let _ = writeln!(out, "  {sign} {} on {}: {}", one.ranks, one.node, one.cause);
            if let Some(fix) = &one.fix {
                let _ = writeln!(out, "      fix: {fix}");
            }
        }
    }

    fn finding(&self, out: &mut String, finding: &Finding) {
        let sign = sign(finding.weight);
        let _ = writeln!(out, "  {sign} {}{}", finding.text, self.seen(finding.seen));
        if let Some(fix) = &finding.fix {
            let _ = writeln!(out, "      fix: {fix}");
        }
    }

    /// Lists the ranks, grouped by equal connections.
    fn connections(&self, out: &mut String, verbose: bool) {
        type Signature<'s> = (usize, Vec<&'s str>, Vec<Option<u64>>);
        let mut groups: BTreeMap<Signature, Vec<&Worker>> = BTreeMap::new();
        for worker in self.log.workers.iter().filter(|one| one.takes_part()) {
            let counts = worker.carriers.iter().map(|seen| seen.map(|seen| seen.count)).collect();
            let nics = worker.nics.keys().filter_map(|(_, nic)| self.log.nic(worker, *nic));
            let mut nics: Vec<&str> = nics.collect();
            nics.sort_unstable();
            nics.dedup();
            groups.entry((worker.host, nics, counts)).or_default().push(worker);
        }
        let most = if verbose { usize::MAX } else { 24 };
        if !groups.is_empty() {
            let _ = writeln!(out, "\n{}", paint(HEAD, "Connections set up"));
        }
        for ((host, nics, counts), workers) in groups.iter().take(most) {
            let kind = |(count, name): (&Option<u64>, &str)| Some(format!("{} {name}", (*count)?));
            let mut kinds: Vec<String> = counts.iter().zip(NAMES).filter_map(kind).collect();
            // Network carriers come first, and NICs belong to them.
            let network = counts.iter().take(NETWORK).flatten().count();
            if let Some(last) = network.checked_sub(1).and_then(|last| kinds.get_mut(last))
                && !nics.is_empty()
            {
                *last += &format!(" over {}", nics.join(" "));
            }
            let kinds = if kinds.is_empty() { "none shown".to_owned() } else { kinds.join(", ") };
            let who = ranks(workers.iter().copied());
            let each = if workers.len() > 1 { ", each" } else { "" };
            let _ = writeln!(out, "  {} {who}{each}: {kinds}", self.log.hosts[*host]);
        }
        if groups.len() > most {
            let more = groups.len() - most;
            let _ = writeln!(
                out,
                "  {}",
                paint(FAINT, &format!("and {more} more groups (-v shows all)"))
            );
        }
    }

    fn environment(&self, out: &mut String) {
        if !self.log.environment.is_empty() {
            let _ = writeln!(out, "\n{}", paint(HEAD, "Environment variables"));
        }
        for (name, values) in &self.log.environment {
            for (value, seen) in values {
                let _ = writeln!(out, "  {name}={value}{}", self.seen(Some(*seen)));
            }
        }
    }

    /// Returns the output for programs.
    pub(crate) fn document(&self) -> Document<'_> {
        Document {
            bedplate_nccl_log: 2,
            verdict: self.judged.verdict,
            reason: &self.judged.reason,
            lines: self.log.lines,
            nccl_lines: self.log.said,
            versions: self.log.versions.keys().map(|(version, _)| version.as_str()).collect(),
            plugins: self.plugins().collect(),
            gdrcopy: self.log.gdrcopy.keys().map(String::as_str).collect(),
            findings: self.found(),
            on_nodes: self.on_nodes,
            ranks: self
                .log
                .workers
                .iter()
                .filter(|one| one.takes_part())
                .map(|worker| self.rank(worker))
                .collect(),
            environment: self
                .log
                .environment
                .iter()
                .map(|(name, values)| (name.as_str(), values.keys().map(String::as_str).collect()))
                .collect(),
        }
    }

    /// Returns the findings for programs.
    fn found(&self) -> Vec<Found<'_>> {
        let findings = self.judged.findings.iter();
        let found = findings.map(|finding| Found {
            weight: finding.weight,
            text: &finding.text,
            node: finding.node.map(|node| self.log.hosts[node].as_str()),
            at: finding.seen.map(|seen| self.place(seen.first)),
            count: finding.seen.map(|seen| seen.count),
            fix: finding.fix.as_deref(),
        });
        found.collect()
    }

    fn rank(&self, worker: &Worker) -> Rank<'_> {
        let count =
            |carrier: Carrier| worker.carriers[carrier as usize].map_or(0, |seen| seen.count);
        let nics = worker.nics.keys().map(|(_, nic)| *nic);
        let mut nics: Vec<String> = nics
            .map(|nic| self.log.nic(worker, nic).map_or_else(|| nic.to_string(), str::to_owned))
            .collect();
        nics.sort();
        nics.dedup();
        let process = self.log.processes.get(&(worker.host, worker.pid));
        Rank {
            node: &self.log.hosts[worker.host],
            pid: worker.pid,
            device: worker.device,
            rank: worker.rank.map(|(rank, _)| rank),
            ranks: worker.rank.map(|(_, ranks)| ranks).filter(|ranks| *ranks > 0),
            complete: worker.complete,
            network: process.and_then(|one| Some(one.network.as_ref()?.0.as_str())),
            hcas: process.map(|one| one.hcas.as_ref()).unwrap_or_default(),
            direct: count(Carrier::Direct),
            staged: count(Carrier::Staged),
            sockets: count(Carrier::Sockets),
            fabric: count(Carrier::Fabric),
            peer: count(Carrier::Peer),
            shared_memory: count(Carrier::SharedMemory),
            other: count(Carrier::Other),
            nics,
        }
    }
}

/// Output of `bedplate nccl log --json`.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schemars", schemars(title = "bedplate nccl log"))]
pub(crate) struct Document<'a> {
    /// Version of this format, 1.
    bedplate_nccl_log: u32,
    /// Verdict that the log supports.
    verdict: Verdict,
    /// Reason for the verdict.
    reason: &'a str,
    /// Lines read.
    lines: u64,
    /// Number of lines that NCCL wrote.
    nccl_lines: u64,
    /// NCCL versions.
    versions: Vec<&'a str>,
    /// Network plugins that were loaded or have started, including NCCL's own.
    plugins: Vec<&'a str>,
    /// GDRCopy library and driver, if used.
    gdrcopy: Vec<&'a str>,
    /// Findings, the most severe first.
    findings: Vec<Found<'a>>,
    /// Causes found on the nodes.
    on_nodes: &'a [OnNode],
    /// GPUs, in order of their first line.
    ranks: Vec<Rank<'a>>,
    /// Environment variables with their values.
    environment: BTreeMap<&'a str, Vec<&'a str>>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct Found<'a> {
    /// Severity.
    weight: WarningSeverity,
    /// Description in one sentence.
    text: &'a str,
    /// Node; absent: of the whole job.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
    /// First line with the finding, `FILE:LINE`.
    at: Option<String>,
    /// Number of occurrences.
    count: Option<u64>,
    /// Fix.
    fix: Option<&'a str>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct Rank<'a> {
    /// Node of the GPU.
    node: &'a str,
    /// Process of the rank.
    pid: u32,
    /// CUDA number of the GPU.
    device: u32,
    /// Rank in the largest communicator of the log.
    rank: Option<u32>,
    /// Number of ranks in that communicator.
    ranks: Option<u32>,
    /// Whether the log reports its setup as complete.
    complete: bool,
    /// Network that the rank uses.
    network: Option<&'a str>,
    /// RDMA ports that its process found.
    hcas: &'a [String],
    /// Connections by GPUDirect RDMA.
    direct: u64,
    /// Connections over an RDMA network through host memory.
    staged: u64,
    /// Connections by TCP.
    sockets: u64,
    /// Connections by NVLink between GPUs of several nodes (MNNVL).
    fabric: u64,
    /// Connections between GPUs of a node.
    peer: u64,
    /// Connections through shared memory.
    shared_memory: u64,
    /// Other connections.
    other: u64,
    /// RDMA ports that the rank used.
    nics: Vec<String>,
}

/// JSON Schema (draft 2020-12) of [`LogView::document`].
pub const SCHEMA: &str = include_str!("../../schemas/nccl-log.json");
