//! `bedplate nccl job`: judges a job from its output.

use clap::Args;

use super::logs::{names, read_logs};
use super::nodes::{on_nodes, own_node};
use super::perf::{self, AssumptionArgs};
use crate::cli::{CliError, Exit, HostArgs, output};
use crate::report::nccl_job::{JobView, SCHEMA};
use crate::report::nccl_log::{LogView, OnNode};
use bedplate_nccl::job::{FileReport, JobVerdict, evaluate, links_of_log};
use bedplate_nccl::log::Log;
use bedplate_nccl::log::verdict::{LogVerdict, Verdict as LogVerdictWord, judge};
use bedplate_nccl::perf::hosts::{self, Host};
use bedplate_nccl::perf::judge::{Assumptions, Verdict};
use bedplate_nccl::perf::ranks;

/// `bedplate nccl job`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 every rank is known and connected directly, the job ended well, and its results, if any, are as expected; 4 a fault, with the \
first cause; 5 unknown, with the missing part; 1 error; 64 usage."
)]
pub(crate) struct JobArgs {
    /// Output of one job, in order: NCCL_DEBUG=INFO, results of nccl-tests; plain, gzip or zstd; `-` for standard input.
    #[arg(value_name = "LOG", required_unless_present = "json_schema")]
    files: Vec<String>,
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    assumptions: AssumptionArgs,
    /// List every node with its ports.
    #[arg(long, short)]
    verbose: bool,
    /// Print JSON (schema: `bedplate nccl job --json-schema`).
    #[arg(long)]
    json: bool,
    /// Print the JSON Schema of `--json` and exit.
    #[arg(long, exclusive = true)]
    json_schema: bool,
}

/// Reads the output of the job, judges it and prints the report.
pub(crate) fn run(args: &JobArgs) -> Result<Exit, CliError> {
    if args.json_schema {
        return output::data(SCHEMA).map(|()| Exit::Done);
    }
    let log = read_logs(&args.files, &mut |_, _| {})?;
    let assumptions = args.assumptions.assumptions(&log);
    let judged = JudgedJob::new(log, &args.files, &args.host, &assumptions)?;
    let judged = judged.with_nodes(&args.host)?;
    let shown = judged.view();
    match args.json {
        true => output::json(&shown.document())?,
        false => output::report(&shown.text(args.verbose))?,
    }
    Ok(judged.exit())
}

/// The output of a job with its verdict.
pub(in crate::cli) struct JudgedJob {
    pub log: Log,
    judged: LogVerdict,
    reports: Vec<FileReport>,
    ceiling: &'static str,
    pub verdict: JobVerdict,
    files: Vec<String>,
    on_nodes: Vec<OnNode>,
}

impl JudgedJob {
    /// Judges the output of a job.
    pub(in crate::cli) fn new(
        mut log: Log,
        files: &[String],
        host: &HostArgs,
        assumptions: &Assumptions,
    ) -> Result<Self, CliError> {
        let judged = judge(&log);
        let results = std::mem::take(&mut log.results);
        let has_results = results.iter().any(|results| !results.is_empty());
        let (own, ceiling) = match !has_results {
            true => (Vec::new(), ""),
            false => links_of(host, &log, &judged)?,
        };
        let judge_results = |(file, mut results)| {
            ranks::complete(&mut results, &ranks::Options::default()).map_err(CliError::new)?;
            Ok(FileReport { file, report: hosts::judge(results, &own, assumptions) })
        };
        let results = results.into_iter().enumerate().filter(|(_, one)| !one.is_empty());
        let reports: Vec<FileReport> =
            results.map(judge_results).collect::<Result<_, CliError>>()?;
        let verdict = evaluate(&log, &judged, &reports);
        let files = names(files);
        Ok(JudgedJob { log, judged, reports, ceiling, verdict, files, on_nodes: Vec::new() })
    }

    /// Adds causes found on the nodes, unless the verdict is good.
    fn with_nodes(self, host: &HostArgs) -> Result<Self, CliError> {
        let on_nodes = match self.verdict.verdict {
            Verdict::Good => Vec::new(),
            Verdict::CannotTell | Verdict::Bad => on_nodes(host, &self.log, &self.judged)?,
        };
        Ok(JudgedJob { on_nodes, ..self })
    }

    /// Whether the log proves that the ranks are connected directly, without a fault.
    pub(in crate::cli) fn is_sound(&self) -> bool {
        matches!(self.judged.verdict, LogVerdictWord::Direct | LogVerdictWord::OneNode)
    }

    /// Returns the report.
    pub(in crate::cli) fn view(&self) -> JobView<'_> {
        let Self { log, judged, files, on_nodes, .. } = self;
        JobView {
            log: LogView { log, judged, files, on_nodes },
            verdict: &self.verdict,
            reports: &self.reports,
            ceiling: self.ceiling,
        }
    }

    /// Returns the exit status.
    pub(in crate::cli) fn exit(&self) -> Exit {
        match self.verdict.verdict {
            Verdict::Good => Exit::Done,
            Verdict::Bad => Exit::Blocked,
            Verdict::CannotTell => Exit::CannotTell,
        }
    }
}

/// Returns the hosts whose links limit the results, and their origin: the named hosts, this machine if it is one of the
/// nodes, or the rates in the log.
fn links_of(
    args: &HostArgs,
    log: &Log,
    judged: &LogVerdict,
) -> Result<(Vec<Host>, &'static str), CliError> {
    let is_named = !args.is_this_host();
    if !is_named && own_node(log).is_none() {
        let links = links_of_log(log, judged);
        return Ok((vec![Host { links, ..Host::default() }], "the port rates in the log"));
    }
    let (hosts, unusable) = perf::hosts_of(args)?;
    if !unusable.is_empty() {
        return Err(CliError::new(format!("cannot use {}", unusable.join(", "))));
    }
    Ok((hosts, if is_named { "the links of the given host" } else { "the links of this machine" }))
}
