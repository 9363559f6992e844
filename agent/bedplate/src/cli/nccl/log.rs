//! `bedplate nccl log`: analyzes NCCL logs.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use clap::Args;

use super::unpack::{PIECE, open};
use crate::cli::{CliError, Context as _, Exit, HostArgs, host, output, verify};
use crate::report::nccl_log::{LogView, OnNode, SCHEMA};
use bedplate_base::terminal::brief;
use bedplate_core::doctor::{Answer, find};
use bedplate_core::verify::Selection;
use bedplate_facts::Facts;
use bedplate_host::{DirReader, Reader as HostReader};
use bedplate_nccl::log::verdict::{Finding, Verdict, judge, ranks};
use bedplate_nccl::log::warning_meanings::WarningSeverity;
use bedplate_nccl::log::{Carrier, Log, Reader, Worker};
use bedplate_nccl::ports;

/// Number of pieces to read ahead.
const AHEAD: usize = 4;
/// File with the hostname, as the host's processes see it.
const HOSTNAME: &str = "/proc/sys/kernel/hostname";

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
    let mut reader = Reader::default();
    for file in &args.files {
        read(file, &mut reader).context(format!("cannot read log {}", brief(file, 200)))?;
        reader.end_file();
    }
    let log = reader.finish();
    let judged = judge(&log);
    let is_cause = |finding: &Finding| finding.is_cause && finding.weight == WarningSeverity::Fault;
    let explained = judged.findings.iter().any(is_cause);
    let on_nodes = match judged.verdict {
        Verdict::NotDirect | Verdict::Faults | Verdict::CannotTell => {
            on_nodes(args, &log, explained)?
        }
        Verdict::Direct | Verdict::OneNode => Vec::new(),
    };
    let names = |file: &String| if file == "-" { "stdin".to_owned() } else { brief(file, 200) };
    let files: Vec<String> = args.files.iter().map(names).collect();
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

/// Reads one file; its first bytes select the decoder. Another thread reads and decompresses it while this one parses:
/// each takes about as long.
fn read(file: &str, into: &mut Reader) -> std::io::Result<()> {
    let (full, pieces) = std::sync::mpsc::sync_channel::<Vec<u8>>(AHEAD);
    let (empty, used) = std::sync::mpsc::channel::<Vec<u8>>();
    std::thread::scope(|scope| {
        let source = scope.spawn(move || -> std::io::Result<()> {
            let mut unpacked = open(file)?;
            loop {
                let mut piece = used.try_recv().unwrap_or_default();
                piece.resize(PIECE, 0);
                match unpacked.read(&mut piece) {
                    Ok(0) => return Ok(()),
                    Ok(length) => piece.truncate(length),
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error),
                }
                if full.send(piece).is_err() {
                    return Ok(());
                }
            }
        });
        for piece in pieces {
            into.feed(&piece);
            // The other thread may have finished.
            let _ = empty.send(piece);
        }
        source.join().unwrap_or_else(|_| Err(std::io::Error::other("reading was interrupted")))
    })
}

/// Diagnoses the nodes of the log: from snapshots with a node's name, or on this machine if it is one of the nodes.
fn on_nodes(args: &LogArgs, log: &Log, explained: bool) -> Result<Vec<OnNode>, CliError> {
    let named = args.host.snapshot.is_empty();
    let mut found = Vec::new();
    if named && args.host.demo.is_none() && args.host.root.is_none() {
        let own = DirReader::live().text(HOSTNAME).unwrap_or_default();
        let Some(at) = log.hosts.iter().position(|host| same(host, own.trim())) else {
            return Ok(found);
        };
        host::each(&args.host, |opened| diagnose_node(opened, log, at, explained, &mut found))?;
        return Ok(found);
    }
    let mut met = BTreeSet::new();
    host::each(&args.host, |opened| {
        let stem = opened.snapshot.as_deref().map(Path::new).and_then(Path::file_stem);
        let name = stem.map(|stem| stem.to_string_lossy().into_owned());
        let at = name.and_then(|name| log.hosts.iter().position(|host| same(host, &name)));
        // A demo host stands for the first node.
        let at = at.or(args.host.demo.is_some().then_some(0).filter(|_| !log.hosts.is_empty()));
        let Some(at) = at else {
            let file = opened.snapshot.as_deref().unwrap_or("the host");
            output::warn(&format!("{file} is not named after a node of the log; not used"));
            return Ok(());
        };
        met.insert(at);
        diagnose_node(opened, log, at, explained, &mut found)
    })?;
    let slow = [Carrier::Sockets, Carrier::Staged].map(|carrier| carrier as usize);
    let is_slow = |worker: &&Worker| slow.iter().any(|at| worker.carriers[*at].is_some());
    let missing: BTreeSet<usize> = log.workers.iter().filter(is_slow).map(|one| one.host).collect();
    for at in missing.difference(&met) {
        output::warn(&format!(
            "no snapshot is named after {}; the node's own state is unknown",
            log.hosts[*at]
        ));
    }
    Ok(found)
}

/// Compares host names: `node-7` and `node-7.cluster.example` are equal.
fn same(a: &str, b: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    !b.is_empty() && (a == b || short(a) == short(b))
}

/// Adds the causes on the node for the slow connections of its ranks.
fn diagnose_node(
    opened: &host::OpenHost,
    log: &Log,
    at: usize,
    explained: bool,
    found: &mut Vec<OnNode>,
) -> Result<(), CliError> {
    let verified = verify::verified(opened, None, &Selection::default())?;
    let uses = |carrier: Carrier| {
        log.workers
            .iter()
            .filter(move |one| one.host == at && one.carriers[carrier as usize].is_some())
    };
    for (symptom, carrier) in
        [("socket-fallback", Carrier::Sockets), ("gdr-disabled", Carrier::Staged)]
    {
        let Some(symptom) = find(symptom).filter(|_| uses(carrier).next().is_some()) else {
            continue;
        };
        let diagnosis = symptom.diagnose(&verified.report, &verified.facts);
        let ranks = ranks(uses(carrier));
        let node = log.hosts[at].clone();
        let down = match carrier {
            Carrier::Sockets => ports_down(opened.reader.as_ref(), &verified.facts),
            _ => None,
        };
        if let Some(cause) = &down {
            found.push(OnNode {
                node: node.clone(),
                ranks: ranks.clone(),
                weight: WarningSeverity::Fault,
                cause: cause.clone(),
                fix: Some("run `bedplate doctor nic-down` on the node".to_owned()),
            });
        }
        if diagnosis.answer != Answer::Found && down.is_none() && !explained {
            found.push(OnNode {
                node: node.clone(),
                ranks: ranks.clone(),
                weight: WarningSeverity::Note,
                cause: "no known cause is present on the node now".to_owned(),
                fix: None,
            });
        }
        found.extend(diagnosis.causes.into_iter().map(|asked| OnNode {
            node: node.clone(),
            ranks: ranks.clone(),
            weight: WarningSeverity::Fault,
            cause: format!("{} ({})", asked.finding, asked.check),
            fix: asked.fix,
        }));
    }
    Ok(())
}

/// Returns the RDMA ports that jobs cannot use: `mlx5_3/1 is DOWN`.
fn ports_down(reader: &dyn HostReader, facts: &Facts) -> Option<String> {
    let ports = ports::of_host(reader, facts.pci.known()?);
    let down = ports.iter().filter_map(|one| {
        let state = one.port.state.known().filter(|_| !one.port.is_active())?;
        // The state has the form `1: DOWN`.
        let word = state.split(": ").last().unwrap_or(state);
        Some(format!("{} is {}", one.port.name, brief(word, 40)))
    });
    let down: Vec<String> = down.collect();
    (!down.is_empty()).then(|| down.join(", "))
}
