//! Output of `bedplate nccl log`: the verdict with its findings, then the connections of the ranks.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bedplate_base::counted;
use serde::Serialize;

use super::style::{BAD, FAINT, GOOD, HEAD, WARN, paint};
use bedplate_nccl::log::failures::FAILURES;
use bedplate_nccl::log::verdict::{Finding, LogVerdict, Verdict, ranks};
use bedplate_nccl::log::warning_meanings::{MEANINGS, STATUSES, WarningSeverity};
use bedplate_nccl::log::{CARRIERS, Carrier, Log, Place, Tally, Worker};

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
        for finding in &self.judged.findings {
            self.finding(&mut out, finding);
        }
        for one in self.on_nodes {
            let sign = sign(one.weight);
            let _ = writeln!(out, "  {sign} {} on {}: {}", one.ranks, one.node, one.cause);
            if let Some(fix) = &one.fix {
                let _ = writeln!(out, "      fix: {fix}");
            }
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

    fn head(&self) -> String {
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
        let ranks = log.workers.iter().filter_map(|one| one.rank).map(|(_, ranks)| ranks).max();
        let of = ranks.filter(|ranks| *ranks > 0);
        let of = of.map(|ranks| format!(" of a job of {ranks} ranks")).unwrap_or_default();
        let nodes = log.hosts.len();
        let (gpus, lines) = (log.workers.len(), log.lines);
        format!(
            "{} {}, {} on {}{of}; {} of {lines} lines are from NCCL\n",
            paint(HEAD, "log"),
            versions,
            counted(gpus, "GPU"),
            counted(nodes, "node"),
            log.said
        )
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
        for worker in &self.log.workers {
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
        let found = self.plugins().map(|name| format!("network plugin {name}"));
        let found = found.chain(self.log.gdrcopy.keys().map(|name| format!("GDRCopy {name}")));
        let found: Vec<String> = found.collect();
        if !found.is_empty() {
            let _ = writeln!(out, "\n{}\n  {}", paint(HEAD, "Found"), found.join("\n  "));
        }
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
    pub fn document(&self) -> impl Serialize + use<'_> {
        let place = |seen: &Tally| self.place(seen.first);
        Document {
            bedplate_nccl_log: 2,
            verdict: self.judged.verdict,
            reason: &self.judged.reason,
            lines: self.log.lines,
            nccl_lines: self.log.said,
            versions: self.log.versions.keys().map(|(version, _)| version.as_str()).collect(),
            plugins: self.plugins().collect(),
            gdrcopy: self.log.gdrcopy.keys().map(String::as_str).collect(),
            findings: self
                .judged
                .findings
                .iter()
                .map(|finding| Found {
                    weight: finding.weight,
                    text: &finding.text,
                    at: finding.seen.as_ref().map(place),
                    count: finding.seen.map(|seen| seen.count),
                    fix: finding.fix.as_deref(),
                })
                .collect(),
            on_nodes: self.on_nodes,
            ranks: self.log.workers.iter().map(|worker| self.rank(worker)).collect(),
            environment: self
                .log
                .environment
                .iter()
                .map(|(name, values)| (name.as_str(), values.keys().map(String::as_str).collect()))
                .collect(),
        }
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

/// Generates the tables of `docs/nccl-log.md`.
pub fn markdown() -> String {
    let mut out = "# Reading NCCL's log\n\n\
         `bedplate nccl log FILE…` analyzes the output of a job with `NCCL_DEBUG=INFO`, from NCCL 2.4 to 2.30 and RCCL. It accepts many ranks in one \
         file or one file per rank, prefixes of mpirun, srun and kubectl, colors and timestamps, gzip, zstd and UTF-16, and \
         `-` for standard input. Memory use does not grow with the log.\n\n\
         ```console\n\
         $ NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH mpirun … 2>&1 | tee job.log\n\
         $ bedplate nccl log job.log\n\
         $ bedplate nccl log job.log.1.gz job.log --json\n\
         $ bedplate nccl log job.log --snapshot 'nodes/*.bp'      # with causes found on the nodes\n\
         ```\n\n\
         The verdict is based on the lines `Channel … via NET/…`, which are the same in every version: with `/GDRDMA` the NIC accesses GPU \
         memory directly, without it data go through host memory, `NET/Socket` is TCP. `NET/IB : Using` alone proves nothing. Every \
         finding names its first line, `FILE:LINE`. A snapshot belongs to the node that its file is named after \
         (`nodes/node-7.bp`). Without snapshots, the node's own facts are used if the log is from this machine.\n\n\
         A positive verdict requires a whole log without a sign of a failure:\n\n\
         - connections of every rank, and on several nodes a connection of every node to another one (with one file \
         per rank or node, pass all files);\n\
         - as many `[send]` as `[receive]` lines, because each end reports a connection;\n\
         - connections of every communicator, and a complete setup of each;\n\
         - no unreadable lines, and none without node and process id. Such lines can only prove that a connection is not direct;\n\
         - no warning after the setup that bedplate does not know.\n\n\
         If one is missing, the verdict is *unknown*. The last line of a file may be incomplete while the job runs: it \
         does not prove a connection through host memory.\n\n\
         A known fault decides: a warning in the table below, a trace of a failed call (`proxy.cc:679 -> 6 [Proxy Thread]`) \
         after the setup of its rank or without a complete one, or a line of a launcher or program. A job that was cancelled, or reached its time \
         limit, has not ended well either.\n\n\
         Exit status: 0 all connections between nodes are direct, or there is only one node; 4 some are not, or a fault is reported; \
         5 unknown: the log does not show it, or not for every rank; 1 error; 64 usage.\n\n\
         Not tested with a log of real GPUs: none was available. Line formats are taken from NCCL's source.\n\n\
         ## Known warnings\n\n\
         | text | meaning | fix |\n|---|---|---|\n"
        .to_owned();
    for row in MEANINGS.iter() {
        let (has, fix) = (row.has.replace('|', "\\|"), row.fix.unwrap_or("none needed"));
        let _ = writeln!(out, "| `{}` | {} | {fix} |", has.trim(), row.means);
    }
    out += "\n## Lines of launchers and programs\n\n| text | meaning |\n|---|---|\n";
    for row in FAILURES.iter() {
        let _ = writeln!(out, "| `{}` | {} |", row.has.trim(), row.means);
    }
    out += "\n## Completion statuses\n\n| number | name | meaning |\n|---|---|---|\n";
    for (number, name, means) in STATUSES {
        let _ = writeln!(out, "| {number} | {name} | {means} |");
    }
    out
}
