//! `bedplate nccl log`: analyzes NCCL logs.

use clap::Args;

use super::logs::{names, read_logs};
use super::nodes::on_nodes;
use crate::cli::{CliError, Exit, HostArgs, output};
use crate::report::nccl_log::{LogView, SCHEMA};
use bedplate_nccl::log::verdict::{Verdict, judge};

/// `bedplate nccl log`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 all connections between nodes are direct, or there is only one node; 4 some are not, or a fault is \
reported; 5 unknown: the log does not show it, or not for every rank; 1 error; 64 usage."
)]
pub(crate) struct LogArgs {
    /// Logs of one job, in order; plain, gzip or zstd; `-` for standard input.
    #[arg(value_name = "FILE", required_unless_present = "json_schema")]
    files: Vec<String>,
    #[command(flatten)]
    host: HostArgs,
    /// List every group of ranks, and the environment variables that were set.
    #[arg(long, short)]
    verbose: bool,
    /// Print JSON (schema: `bedplate nccl log --json-schema`).
    #[arg(long)]
    json: bool,
    /// Print the JSON Schema of `--json` and exit.
    #[arg(long, exclusive = true)]
    json_schema: bool,
}

/// Reads the logs and prints the analysis.
pub(crate) fn run(args: &LogArgs) -> Result<Exit, CliError> {
    if args.json_schema {
        return output::data(SCHEMA).map(|()| Exit::Done);
    }
    let log = read_logs(&args.files, &mut |_, _| {})?;
    let judged = judge(&log);
    let on_nodes = match judged.verdict {
        Verdict::NotDirect | Verdict::Faults | Verdict::CannotTell => {
            on_nodes(&args.host, &log, &judged)?
        }
        Verdict::Direct | Verdict::OneNode => Vec::new(),
    };
    let files = names(&args.files);
    let shown = LogView { log: &log, judged: &judged, files: &files, on_nodes: &on_nodes };
    match args.json {
        true => output::json(&shown.document())?,
        false => output::report(&shown.text(args.verbose))?,
    }
    Ok(match judged.verdict {
        Verdict::Direct | Verdict::OneNode => Exit::Done,
        Verdict::NotDirect | Verdict::Faults => Exit::Blocked,
        Verdict::CannotTell => Exit::CannotTell,
    })
}
