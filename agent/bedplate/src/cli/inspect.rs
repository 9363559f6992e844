//! `bedplate inspect`: shows the host as tables, a tree or JSON.

use clap::Args;

use super::{CliError, Exit, HostArgs, host, output};
use crate::report::inspect;
use bedplate_core::kind::cmdline::show;
use bedplate_facts::Depth;
use bedplate_facts::names::Names;

/// `bedplate inspect`.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    host: HostArgs,
    /// The PCI tree: links, NUMA nodes, ACS bits, IOMMU groups, drivers, VFs.
    #[arg(long, conflicts_with = "json")]
    tree: bool,
    /// All of this, machine-readable.
    #[arg(long)]
    json: bool,
    /// Registers, NUMA nodes and group types of every PCI function, not only of those that GPU traffic depends on; --tree
    /// reads them all.
    #[arg(long)]
    all: bool,
    /// Say on stderr what reading cost: system calls and config-space dwords.
    #[arg(long)]
    cost: bool,
}

/// Shows every named host.
pub(crate) fn run(args: &InspectArgs) -> Result<Exit, CliError> {
    host::worst(&args.host, |opened| {
        let depth = if args.all || args.tree { Depth::Everything } else { Depth::Thorough };
        let facts = opened.facts(depth);
        let names = Names::new(opened.reader.as_ref(), &facts);
        let line = show::read(opened.reader.as_ref(), &facts);
        if args.json {
            let file = opened.file.as_deref();
            output::json(&inspect::document(&facts, &names, file, Some(&line)))?;
        } else {
            // A tree has one function per line and is as wide as it is deep.
            let text = match args.tree {
                true => inspect::tree(&facts, &names),
                false => {
                    let columns = output::columns();
                    inspect::tables(&facts, &names, columns)
                        + &inspect::command_line(&line, columns)
                }
            };
            output::lines(&format!("{}{text}", opened.heading()))?;
        }
        if args.cost {
            output::cost(opened.reader.cost(), &facts);
        }
        Ok(Exit::Done)
    })
}
