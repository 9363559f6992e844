//! `bedplate inspect` and `bedplate snapshot`: what the host is, as tables, a tree, JSON, or one file to take along.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::{CliError, Exit, HostArgs, host, output};
use crate::facts::Depth;
use crate::facts::names::Names;
use crate::kind::cmdline::show;

use crate::record;
use crate::report::inspect;

/// `bedplate inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    #[command(flatten)]
    host: HostArgs,
    /// The PCI tree: links, NUMA nodes, ACS bits, IOMMU groups, drivers, VFs.
    #[arg(long, conflicts_with = "json")]
    tree: bool,
    /// Everything, machine-readable.
    #[arg(long)]
    json: bool,
    /// Say on stderr what reading cost: system calls and config-space dwords.
    #[arg(long)]
    cost: bool,
}

/// `bedplate snapshot`.
#[derive(Debug, Args)]
pub struct SnapshotArgs {
    /// File to write; `-` = standard output.
    #[arg(short, long, value_name = "FILE", default_value = "host.bp")]
    out: PathBuf,
    #[command(flatten)]
    host: HostArgs,
}

/// Shows every host that was named.
pub fn run(args: &InspectArgs) -> Result<Exit, CliError> {
    let all_good = host::each(&args.host, |opened| {
        let facts = opened.facts(Depth::Thorough);
        let names = Names::new(opened.reader.as_ref(), &facts);
        let line = show::look(opened.reader.as_ref(), &facts);
        if args.json {
            let json = inspect::json(&facts, &names, opened.file.as_deref(), Some(&line));
            output::data(&json?)?;
        } else {
            // A tree is one function a line, as wide as it is deep.
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
        Ok(())
    })?;
    Ok(if all_good { Exit::Done } else { Exit::Failed })
}

/// Records the host.
pub fn snapshot(args: &SnapshotArgs) -> Result<Exit, CliError> {
    let opened = host::open_one(&args.host)?;
    let text = record::record(opened.reader.as_ref()).to_text();
    if args.out.as_os_str() == "-" {
        output::data(&text)?;
        return Ok(Exit::Done);
    }
    let shown = args.out.display();
    let written =
        std::fs::File::create(&args.out).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| CliError::while_doing(format!("cannot write {shown}"), error))?;
    output::status(&format!(
        "wrote {shown} ({} KiB): look at it anywhere with `bedplate inspect --snapshot {shown}`",
        text.len().div_ceil(1024)
    ));
    Ok(Exit::Done)
}
