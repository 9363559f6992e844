//! `bedplate snapshot`: the host in one file to take along.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::{CliError, Exit, HostArgs, host, output};
use crate::record;

/// `bedplate snapshot`.
#[derive(Debug, Args)]
pub struct SnapshotArgs {
    /// File to write; `-` = standard output.
    #[arg(short, long, value_name = "FILE", default_value = "host.bp")]
    out: PathBuf,
    #[command(flatten)]
    host: HostArgs,
}

/// Records the host.
pub fn run(args: &SnapshotArgs) -> Result<Exit, CliError> {
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
