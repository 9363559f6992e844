//! Output of `bedplate nccl job`: the verdict with its parts, the nodes, the findings.

use std::fmt::Write as _;

use bedplate_base::counted;
use bedplate_base::terminal::one_line;
use serde::Serialize;

use super::nccl_log::{self, LogView};
use super::style::{BAD, FAINT, GOOD, HEAD, WARN, paint};
use bedplate_nccl::job::{Completeness, End, FileReport, JobVerdict, NodeVerdict, ResultState};
use bedplate_nccl::log::verdict::Path;
use bedplate_nccl::perf::judge::Verdict;

/// Maximum number of nodes in the text, without `-v`.
const MOST_NODES: usize = 24;

/// A job with its verdict.
pub struct JobView<'a> {
    /// Its log.
    pub log: LogView<'a>,
    /// Verdict.
    pub verdict: &'a JobVerdict,
    /// Evaluated result tables, by file.
    pub reports: &'a [FileReport],
    /// Origin of the rates that the tables are compared with.
    pub ceiling: &'a str,
}

fn word(verdict: Verdict) -> String {
    match verdict {
        Verdict::Good => paint(GOOD, "good"),
        Verdict::CannotTell => paint(WARN, "unknown"),
        Verdict::Bad => paint(BAD, "bad"),
    }
}

fn sign(verdict: Verdict) -> String {
    match verdict {
        Verdict::Good => paint(GOOD, "✓"),
        Verdict::CannotTell => paint(WARN, "?"),
        Verdict::Bad => paint(BAD, "✗"),
    }
}

fn path_word(path: Path) -> &'static str {
    match path {
        Path::Direct => "direct",
        Path::OneNode => "one node",
        Path::Unknown => "unknown",
        Path::NotDirect => "not direct",
    }
}

impl JobView<'_> {
    /// Formats the report for operators; `verbose` shows every node.
    pub fn text(&self, verbose: bool) -> String {
        let mut out = self.log.head();
        let verdict = self.verdict;
        let reason = match verdict.reason.as_str() {
            "" => "every rank is known, connected directly, and ended well".to_owned(),
            reason => one_line(reason),
        };
        let _ = writeln!(out, "{}: {reason}", word(verdict.verdict));
        self.parts(&mut out);
        let network = self.log.network();
        if !network.is_empty() {
            let _ = writeln!(out, "  {:<13} {network}", "network");
        }
        self.nodes(&mut out, verbose);
        if !self.log.judged.findings.is_empty() || !self.log.on_nodes.is_empty() {
            let _ = writeln!(out, "\n{}", paint(HEAD, "Findings"));
            self.log.findings(&mut out);
        }
        out
    }

    fn parts(&self, out: &mut String) {
        let mut part = |verdict: Verdict, name: &str, state: &str, text: &str| {
            let _ = writeln!(out, "{} {name:<13} {state}: {}", sign(verdict), one_line(text));
        };
        for job in self.verdict.jobs.iter().take(MOST_NODES) {
            let path = &job.path;
            part(path.verdict, "path", path_word(path.state), &path.text);
            let state = match job.completeness.state {
                Completeness::Complete => "complete",
                Completeness::Incomplete => "incomplete",
            };
            let gpus = counted(job.gpus, "GPU");
            let ranks =
                job.ranks.map(|ranks| format!(" of a job of {}", counted(ranks as usize, "rank")));
            let text = format!("{gpus}{}; {}", ranks.unwrap_or_default(), job.missing_or_all());
            part(job.completeness.verdict, "completeness", state, &text);
        }
        let end = &self.verdict.end;
        let state = match end.state {
            End::Well => "well",
            End::Failed => "failed",
            End::Unknown => "unknown",
        };
        part(end.verdict, "end", state, &end.text);
        if let Some(results) = &self.verdict.results {
            let state = match results.state {
                ResultState::AsExpected => "as expected",
                ResultState::OneHost => "not judged",
                ResultState::Unknown => "unknown",
                ResultState::NotAsExpected => "not as expected",
            };
            let text = match results.state {
                ResultState::OneHost => "all ranks are on one host".to_owned(),
                _ => format!("{} (limit: {})", results.text, self.ceiling),
            };
            part(results.verdict, "results", state, &text);
        }
    }

    /// Lists the nodes, those at fault first.
    fn nodes(&self, out: &mut String, verbose: bool) {
        let mut nodes: Vec<&NodeVerdict> = self.verdict.nodes.iter().collect();
        nodes.sort_by_key(|node| std::cmp::Reverse(node.verdict));
        if nodes.is_empty() {
            return;
        }
        let _ = writeln!(out, "\n{}", paint(HEAD, "Nodes"));
        let most = if verbose { usize::MAX } else { MOST_NODES };
        for node in nodes.iter().take(most) {
            let ports = match (node.used.len(), node.hcas.len()) {
                (0, 0) => String::new(),
                (0, found) => format!("; {} found", counted(found, "RDMA port")),
                (used, 0) => format!("; uses {}", counted(used, "RDMA port")),
                (used, found) if used <= 4 || verbose => {
                    let names: Vec<&str> = node.used.iter().map(String::as_str).collect();
                    format!("; uses {used} of {found} RDMA ports: {}", names.join(" "))
                }
                (used, found) => format!("; uses {used} of {found} RDMA ports"),
            };
            let networks: Vec<&str> = node.networks.iter().map(String::as_str).collect();
            let over = match networks.is_empty() {
                true => String::new(),
                false => format!(" over {}", networks.join(", ")),
            };
            let reason = match node.reason.is_empty() {
                true => String::new(),
                false => format!(": {}", one_line(&node.reason)),
            };
            let _ = writeln!(
                out,
                "  {} {} {}: {}{over}{ports}{reason}",
                sign(node.verdict),
                node.node,
                node.ranks,
                path_word(node.path)
            );
        }
        if nodes.len() > most {
            let more = counted(nodes.len() - most, "more node");
            let _ = writeln!(out, "  {}", paint(FAINT, &format!("and {more} (-v shows all)")));
        }
    }

    /// Returns the output for programs.
    pub fn document(&self) -> impl Serialize + use<'_> {
        Document {
            bedplate_nccl_job: 1,
            files: self.log.files,
            verdict: self.verdict,
            ceiling: self.ceiling,
            reports: self.reports,
            log: self.log.document(),
        }
    }
}

/// Output of `bedplate nccl job --json`.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schemars", schemars(title = "bedplate nccl job"))]
pub(crate) struct Document<'a> {
    /// Version of this format.
    bedplate_nccl_job: u32,
    /// Input files.
    files: &'a [String],
    /// Verdict with its parts and nodes.
    #[serde(flatten)]
    verdict: &'a JobVerdict,
    /// Origin of the rates that the result tables are compared with.
    ceiling: &'a str,
    /// Evaluated result tables, by file.
    reports: &'a [FileReport],
    /// Analysis of the log, with findings, ranks and variables, as from `bedplate nccl log --json`.
    log: nccl_log::Document<'a>,
}

/// JSON Schema (draft 2020-12) of [`JobView::document`].
pub const SCHEMA: &str = include_str!("../../schemas/nccl-job.json");
