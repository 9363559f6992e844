//! `bedplate topology`: shows distances between devices, and recommended pairs of GPUs with NICs and disks.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;

use super::host::{self, OpenHost};
use super::{CliError, Context as _, Exit, HostArgs, output};
use crate::report::topology::{self, Options, TopologyView};
use bedplate_base::Reading;
use bedplate_facts::names::Names;
use bedplate_facts::{Depth, placement};
use bedplate_nccl::topology_file::{self, ImportedTopology};

/// Note about properties that sysfs does not have.
const LEFT_OUT: &str = "sysfs does not know NVLink, the GPUs' compute capability and ranks, the NICs' GUIDs in NCCL's form, and \
    whether GPUDirect RDMA works: they are left out, and NCCL adds them when it reads the file on this host. It numbers nets \
    itself.";

/// `bedplate topology`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 shown; 2 --import found a disagreement; 5 the PCI devices cannot be read, or \
        for --nccl-xml not all of them; 1 error; 64 usage. Of \
        several hosts: 1 if one could not be shown, otherwise the first of 2, 5, 0 that applies."
)]
pub(crate) struct TopologyArgs {
    #[command(flatten)]
    host: HostArgs,
    /// VFs of NICs, too.
    #[arg(long)]
    vfs: bool,
    /// Rows for NICs and disks as well, not for GPUs alone.
    #[arg(long, short)]
    all: bool,
    /// Machine-readable, with the bridges above each device (its JSON Schema: `bedplate topology --json-schema`).
    #[arg(long)]
    json: bool,
    /// Print the JSON Schema of `--json` and exit.
    #[arg(long, exclusive = true)]
    json_schema: bool,
    /// The file that NCCL dumps and reads (NCCL_TOPO_FILE), as far as it can be derived from sysfs; for one host.
    #[arg(long, conflicts_with_all = ["json", "all", "vfs"])]
    nccl_xml: bool,
    /// Say where FILE and sysfs disagree: an XML topology of NCCL, or the text of `nvidia-smi topo -m`. Exit with 2 if they do.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "all", "vfs", "nccl_xml"])]
    import: Option<PathBuf>,
    /// A standalone picture that shows what was read when you point at something; for one host.
    #[arg(long, conflicts_with_all = ["json", "all", "vfs", "nccl_xml", "import"])]
    svg: bool,
    /// A page with the picture, the matrix, and the pairs with their reasons: one file without script; for one host.
    #[arg(long, conflicts_with_all = ["json", "all", "vfs", "nccl_xml", "import", "svg"])]
    html: bool,
    /// File to write the picture or page to, a new one; without, or `-`: standard output.
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Say on stderr what reading cost: system calls and config-space dwords.
    #[arg(long)]
    cost: bool,
}

/// Shows every named host.
pub(crate) fn run(args: &TopologyArgs) -> Result<Exit, CliError> {
    if args.json_schema {
        return output::data(topology::SCHEMA).map(|()| Exit::Done);
    }
    if args.out.is_some() && !args.svg && !args.html {
        return Err(CliError::new("-o is for --svg and --html; the rest goes to standard output"));
    }
    args.host.needs_machine("a root directory has no PCI devices to compare")?;
    let imported = args.import.as_deref().map(read).transpose()?;
    let imported = imported.as_ref();
    if args.nccl_xml || args.svg || args.html {
        // Two concatenated documents would be invalid.
        let opened = host::open_one(&args.host)?;
        return show_host(args, imported, &opened);
    }
    host::worst(&args.host, |opened| show_host(args, imported, opened))
}

/// Reads a file for the comparison.
fn read(path: &Path) -> Result<(String, ImportedTopology), CliError> {
    let shown = path.display().to_string();
    let mut text = Vec::new();
    let file = File::open(path).and_then(|file| {
        // A device or a pipe may never end.
        file.take(topology_file::LARGEST as u64 + 1).read_to_end(&mut text)
    });
    file.context(format!("cannot read {shown}"))?;
    let imported = topology_file::parse(&String::from_utf8_lossy(&text));
    let imported = imported.context(format!("{shown} cannot be compared"))?;
    Ok((shown, imported))
}

/// Shows one host.
fn show_host(
    args: &TopologyArgs,
    imported: Option<&(String, ImportedTopology)>,
    opened: &OpenHost,
) -> Result<Exit, CliError> {
    let reader = opened.reader.as_ref();
    let facts = opened.facts(Depth::Thorough);
    let tree = match &facts.pci {
        Reading::Known(tree) => tree,
        Reading::Absent => {
            output::warn(&format!("{}this host has no PCI", named(opened)));
            return Ok(Exit::Done);
        }
        Reading::Unknown(why) => {
            output::warn(&format!("{}the PCI devices cannot be read: {why}", named(opened)));
            return Ok(Exit::CannotTell);
        }
    };
    let placement = placement::observe(reader, tree);
    let names = Names::new(reader, &facts);
    // The imported file may contain VFs.
    let options = Options { vfs: args.vfs || imported.is_some(), all: args.all };
    let shown = TopologyView::new(&facts, tree, &placement, &names, options);
    let exit = match imported {
        Some(imported) => compared(&shown, imported, opened)?,
        None => show(args, &shown, options, opened)?,
    };
    if args.cost {
        output::cost(reader.cost(), &facts);
    }
    Ok(exit)
}

fn compared(
    shown: &TopologyView,
    (file, imported): &(String, ImportedTopology),
    opened: &OpenHost,
) -> Result<Exit, CliError> {
    let (text, agrees) = topology::imported(shown, imported, file, output::columns());
    output::lines(&format!("{}{text}", opened.heading()))?;
    Ok(if agrees { Exit::Done } else { Exit::Changes })
}

fn show(
    args: &TopologyArgs,
    shown: &TopologyView,
    options: Options,
    opened: &OpenHost,
) -> Result<Exit, CliError> {
    let out = args.out.as_deref().unwrap_or(Path::new("-"));
    if args.nccl_xml {
        output::data(&topology::nccl_xml(shown))?;
        output::status(LEFT_OUT);
        // NCCL trusts the file: a job would not use a GPU that is missing from it.
        if let Some(unread) = topology::unread(shown) {
            output::warn(&format!("{}{unread}", named(opened)));
            return Ok(Exit::CannotTell);
        }
    } else if args.svg {
        output::to(out, &topology::svg(shown))?;
    } else if args.html {
        output::to(out, &topology::html(shown))?;
    } else if args.json {
        output::json(&topology::document(shown, options, opened.file.as_deref()))?;
    } else {
        let text = topology::text(shown, options, output::columns());
        output::lines(&format!("{}{text}", opened.heading()))?;
    }
    Ok(Exit::Done)
}

fn named(opened: &OpenHost) -> String {
    opened.file.as_ref().map(|file| format!("{file}: ")).unwrap_or_default()
}
