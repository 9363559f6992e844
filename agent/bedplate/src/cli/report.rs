//! `bedplate report`: one page about a host, for a ticket. Uses a snapshot of the host like that of `bedplate
//! snapshot`, so the page contains nothing that a snapshot would not contain.

use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;

use super::{CliError, Exit, HostArgs, host, output, verify};
use crate::report::host_page::{self, HostPage};
use crate::report::outline::outline;
use crate::report::topology::{Options, TopologyView};
use crate::report::verify::state;
use bedplate_core::engine::{self, HostReport};
use bedplate_core::record::{self, HostNames};
use bedplate_facts::names::Names;
use bedplate_facts::placement;
use bedplate_host::{HostKind, Reader};

/// `bedplate report`.
#[derive(Debug, Args)]
#[command(after_help = "Exit status: 0 written, with any verdict and profile; 1 error; 64 usage.")]
pub(crate) struct ReportArgs {
    /// New file to write; `-` for standard output.
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// Keep hardware addresses, GUIDs, serial numbers, UUIDs and machine ids. Other values not known to be harmless are
    /// always masked.
    #[arg(long)]
    with_identifiers: bool,
    /// Name the host by its hostname. Snapshots must be made with `bedplate snapshot --with-hostname`.
    #[arg(long, conflicts_with = "title")]
    with_hostname: bool,
    /// Name the host by this text.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    #[command(flatten)]
    host: HostArgs,
}

/// Writes the page of one host.
pub(crate) fn run(args: &ReportArgs) -> Result<Exit, CliError> {
    let opened = host::open_one(&args.host)?;
    if opened.reader.kind() == HostKind::Image {
        return Err(verify::not_running());
    }
    let outline = outline(opened.reader.as_ref());
    // Snapshots contain no time.
    let recorded_at = (opened.reader.kind() == HostKind::Live).then(Timestamp::now);
    let keep = HostNames { identifiers: args.with_identifiers, hostname: args.with_hostname };
    let (recorded, _) = record::record_and_say(opened.reader.as_ref(), keep);
    // From here on, the host itself is not read.
    drop(opened);
    let HostReport { facts, report, plan } = engine::host_report(&recorded);
    let reader = &recorded;
    let names = Names::new(reader, &facts);
    let tree = facts.pci.known();
    let placement = tree.map(|tree| placement::observe(reader, tree)).unwrap_or_default();
    let topology =
        tree.map(|tree| TopologyView::new(&facts, tree, &placement, &names, Options::default()));
    let name = match args.with_hostname {
        true => Some(hostname(reader)?),
        false => args.title.clone(),
    };
    let page = host_page::html(&HostPage {
        name: name.as_deref(),
        facts: &facts,
        recorded: recorded_at,
        verdict: &report,
        topology: topology.as_ref(),
        names: &names,
        plan: plan.as_ref().map(Option::as_ref).map_err(|why| *why),
        outline: &outline,
        with_identifiers: args.with_identifiers,
    });
    output::to(&args.out, &page)?;
    output::status(&state(&report));
    if args.out.as_os_str() != "-" {
        output::status(&format!("wrote {}", args.out.display()));
    }
    Ok(Exit::Done)
}

fn hostname(reader: &dyn Reader) -> Result<String, CliError> {
    reader.attribute(record::HOSTNAME).map_err(|_| {
        CliError::new("this snapshot has no hostname")
            .hinting("record the host with `bedplate snapshot --with-hostname`, or pass `--title`")
    })
}
