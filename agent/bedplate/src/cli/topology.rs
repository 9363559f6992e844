//! `bedplate topology`: shows distances between devices, and recommended pairs of GPUs with NICs and disks.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;

use super::host::{self, OpenHost};
use super::nccl::env::version;
use super::words::{Word, one_of};
use super::{CliError, Context as _, Exit, HostArgs, output};
use crate::report::topology::{self, Options, TopologyView, variables};
use bedplate_base::Reading;
use bedplate_facts::names::Names;
use bedplate_facts::pci::PciTree;
use bedplate_facts::{Depth, Facts, placement};
use bedplate_host::Reader;
use bedplate_nccl::host_advice::advise_host;
use bedplate_nccl::process_env::ProcessLibrary;
use bedplate_nccl::topology_file::{self, ImportedTopology};
use bedplate_nccl::{Library, ports};

/// Note about properties that sysfs does not have.
const LEFT_OUT: &str = "not in sysfs and left out: NVLink, the GPUs' compute capability and ranks, the NICs' GUIDs in NCCL's form, \
    GPUDirect RDMA support. NCCL adds them when it reads the file on this host, and numbers nets \
    itself.";

/// `bedplate topology`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 shown; 2 --import found a disagreement; 4 --for found no ACTIVE port; 5 the PCI devices \
        cannot be read (with --nccl-xml and --for, not all of them), or with --for a port is unknown; 1 error; 64 usage. \
        For several hosts: 1 if one could not be shown, otherwise the first of 2, 5, 0 that applies."
)]
pub(crate) struct TopologyArgs {
    #[command(flatten)]
    host: HostArgs,
    /// Include VFs of NICs.
    #[arg(long)]
    vfs: bool,
    /// Print rows for NICs and disks too, not only for GPUs.
    #[arg(long, short)]
    all: bool,
    /// Print JSON, with the bridges above each device (schema: `bedplate topology --json-schema`).
    #[arg(long)]
    json: bool,
    /// Print the JSON Schema of `--json` and exit.
    #[arg(long, exclusive = true)]
    json_schema: bool,
    /// Print the file that NCCL dumps and reads (NCCL_TOPO_FILE), as far as sysfs provides its content; one host only.
    #[arg(long, conflicts_with_all = ["json", "all", "vfs"])]
    nccl_xml: bool,
    /// Print the variables that give a library the recommended NICs, as lines for a shell: nccl per host, the rest for
    /// the process of each GPU; one host only.
    #[arg(
        long = "for", value_name = "LIBRARY", value_parser = one_of(&LIBRARIES),
        conflicts_with_all = ["all", "vfs", "nccl_xml"]
    )]
    library: Option<PairingLibrary>,
    /// Compare FILE with sysfs: an XML topology of NCCL, or the output of `nvidia-smi topo -m`. Exit with 2 if they
    /// differ.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "all", "vfs", "nccl_xml", "library"])]
    import: Option<PathBuf>,
    /// Print a standalone picture with details on hover; one host only.
    #[arg(long, conflicts_with_all = ["json", "all", "vfs", "nccl_xml", "library", "import"])]
    svg: bool,
    /// Print a page without scripts: the picture, the matrix, and the pairs with reasons; one host only.
    #[arg(long, conflicts_with_all = ["json", "all", "vfs", "nccl_xml", "library", "import", "svg"])]
    html: bool,
    /// New file for the picture or page. Default, or `-`: standard output.
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the read cost to stderr: system calls and config-space dwords.
    #[arg(long)]
    cost: bool,
}

/// Library that uses the recommended NICs.
#[derive(Debug, Clone, Copy)]
enum PairingLibrary {
    /// The host's collective library: NCCL, RCCL or oneCCL.
    Collective,
    /// A library that reads its variables per process.
    Process(ProcessLibrary),
}

const LIBRARIES: [Word<PairingLibrary>; 4] = [
    (
        "nccl",
        "As `bedplate nccl env`; RCCL or oneCCL on hosts with AMD or Intel GPUs",
        PairingLibrary::Collective,
    ),
    ("ucx", "UCX, and MPI over it", PairingLibrary::Process(ProcessLibrary::Ucx)),
    ("nvshmem", "NVSHMEM", PairingLibrary::Process(ProcessLibrary::Nvshmem)),
    ("nixl", "NIXL with its UCX backend", PairingLibrary::Process(ProcessLibrary::Nixl)),
];

/// Shows every named host.
pub(crate) fn run(args: &TopologyArgs) -> Result<Exit, CliError> {
    if args.json_schema {
        return output::data(topology::SCHEMA).map(|()| Exit::Done);
    }
    if args.out.is_some() && !args.svg && !args.html {
        return Err(CliError::new("-o requires --svg or --html"));
    }
    args.host.needs_machine("a root directory has no PCI devices to compare")?;
    let imported = args.import.as_deref().map(read).transpose()?;
    let imported = imported.as_ref();
    if args.nccl_xml || args.svg || args.html || args.library.is_some() {
        // Two concatenated documents would be invalid, and variables belong to one host.
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
    let imported = imported.context(format!("cannot compare {shown}"))?;
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
            output::warn(&format!("{}this host has no PCI bus", named(opened)));
            return Ok(if args.library.is_some() { Exit::Blocked } else { Exit::Done });
        }
        Reading::Unknown(why) => {
            output::warn(&format!("{}cannot read PCI devices: {why}", named(opened)));
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
        None => match args.library {
            Some(library) => print_variables(args, library, &shown, (reader, &facts, tree))?,
            None => show(args, &shown, options, opened)?,
        },
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
        let gaps = topology::nccl_xml_gaps(shown);
        gaps.iter().for_each(|gap| output::warn(&format!("{}{gap}", named(opened))));
        if !gaps.is_empty() {
            return Ok(Exit::CannotTell);
        }
    } else if args.svg {
        output::to(out, &topology::svg(shown))?;
    } else if args.html {
        output::to(out, &topology::html(shown))?;
    } else if args.json {
        output::json(&topology::document(shown, options, opened.file.as_deref(), None))?;
    } else {
        let text = topology::text(shown, options, output::columns());
        output::lines(&format!("{}{text}", opened.heading()))?;
    }
    Ok(Exit::Done)
}

/// Prints the variables that give a library the recommended NICs.
fn print_variables(
    args: &TopologyArgs,
    library: PairingLibrary,
    shown: &TopologyView,
    (reader, facts, tree): (&dyn Reader, &Facts, &PciTree),
) -> Result<Exit, CliError> {
    let found = match library {
        PairingLibrary::Process(library) => {
            variables::of_processes(shown, &ports::of_host(reader, tree), library)
        }
        PairingLibrary::Collective => {
            let library = Library::of_host(facts);
            match advise_host(reader, facts, library, version(library, None)?) {
                Reading::Known(advice) => variables::of_host(shown, advice),
                // Not reached: the advice is known if the PCI devices are.
                Reading::Absent | Reading::Unknown(_) => return Ok(Exit::CannotTell),
            }
        }
    };
    match args.json {
        true => output::json(&topology::document(shown, Options::default(), None, Some(&found)))?,
        false => output::data(&variables::text(&found))?,
    }
    if !args.json {
        found.notes.iter().for_each(|note| output::warn(note));
    }
    Ok(match (found.complete, found.has_settings()) {
        (false, _) => Exit::CannotTell,
        (true, false) => Exit::Blocked,
        (true, true) => Exit::Done,
    })
}

fn named(opened: &OpenHost) -> String {
    opened.file.as_ref().map(|file| format!("{file}: ")).unwrap_or_default()
}
