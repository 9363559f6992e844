//! `bedplate snapshot`: the host in one file to take along.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt as _;
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
    /// Keep hardware addresses, GUIDs, serial numbers, UUIDs and machine ids. Other values that bedplate does not know
    /// to be harmless are masked all the same.
    #[arg(long)]
    with_identifiers: bool,
    /// Say of each file what was masked or left out.
    #[arg(long)]
    show_redactions: bool,
    #[command(flatten)]
    host: HostArgs,
}

/// Records the host.
pub fn run(args: &SnapshotArgs) -> Result<Exit, CliError> {
    let opened = host::open_one(&args.host)?;
    let (snapshot, redactions) =
        record::record_and_say(opened.reader.as_ref(), args.with_identifiers);
    let text = snapshot.to_text();
    if args.show_redactions {
        output::status(redactions.to_string().trim_end());
    }
    if args.out.as_os_str() == "-" {
        output::data(&text)?;
        return Ok(Exit::Done);
    }
    let shown = args.out.display();
    // A new file, for its owner alone: nothing that is there is written to, and no link is followed.
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let made = options.open(&args.out).and_then(|mut file| file.write_all(text.as_bytes()));
    made.map_err(|error| {
        let there = error.kind() == ErrorKind::AlreadyExists;
        let failed = CliError::while_doing(format!("cannot write {shown}"), error);
        if there {
            failed.hinting("name another file with -o, or remove this one first")
        } else {
            failed
        }
    })?;
    output::status(&format!(
        "wrote {shown} ({} KiB): look at it anywhere with `bedplate inspect --snapshot {shown}`",
        text.len().div_ceil(1024)
    ));
    Ok(Exit::Done)
}
