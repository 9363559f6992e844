//! `bedplate snapshot`: records the host in one file.

use std::path::PathBuf;

use clap::Args;

use super::{CliError, Exit, HostArgs, host, output};
use bedplate_core::record::{self, HostNames};

/// `bedplate snapshot`.
#[derive(Debug, Args)]
pub(crate) struct SnapshotArgs {
    /// New file to write; `-` for standard output.
    #[arg(short, long, value_name = "FILE", default_value = "host.bp")]
    out: PathBuf,
    /// Keep hardware addresses, GUIDs, serial numbers, UUIDs and machine ids at their known locations. Other values not
    /// known to be harmless are always masked, including tokens and hashes.
    #[arg(long)]
    with_identifiers: bool,
    /// Also record the hostname.
    #[arg(long)]
    with_hostname: bool,
    /// Report what was masked or left out of each file.
    #[arg(long)]
    show_redactions: bool,
    #[command(flatten)]
    host: HostArgs,
}

/// Records the host.
pub(crate) fn run(args: &SnapshotArgs) -> Result<Exit, CliError> {
    let opened = host::open_one(&args.host)?;
    let keep = HostNames { identifiers: args.with_identifiers, hostname: args.with_hostname };
    let (snapshot, redactions) = record::record_and_say(opened.reader.as_ref(), keep);
    let text = snapshot.to_text();
    if args.show_redactions {
        output::status(redactions.to_string().trim_end());
    }
    output::to(&args.out, &text)?;
    if args.out.as_os_str() == "-" {
        return Ok(Exit::Done);
    }
    let shown = args.out.display();
    output::status(&format!(
        "wrote {shown} ({} KiB); view it anywhere with `bedplate inspect --snapshot {shown}`",
        text.len().div_ceil(1024)
    ));
    Ok(Exit::Done)
}
