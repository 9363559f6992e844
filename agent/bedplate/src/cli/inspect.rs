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
    /// Print the PCI tree: links, NUMA nodes, ACS bits, IOMMU groups, drivers, VFs.
    #[arg(long, conflicts_with = "json")]
    tree: bool,
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
    /// Read registers, NUMA nodes and group types of every PCI function, not only of those on GPU traffic paths. --tree
    /// always reads all.
    #[arg(long)]
    all: bool,
    /// Print the read cost to stderr: system calls and config-space dwords.
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
