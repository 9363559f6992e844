//! `bedplate profile init`: a commented profile for a host to start from. Never over one that is there, unless forced.

use std::path::PathBuf;

use clap::Args;

use super::{CliError, Exit, HostArgs, host, output};
use crate::engine::profile_source;
use crate::facts::pci::Function;
use crate::facts::{Depth, Facts};
use crate::host::write::DirWriter;
use crate::host::{HostKind, Writer as _};
use crate::profile::{self, Ports};

/// `profile init`.
#[derive(Debug, Args)]
#[command(
    after_help = "The profile extends the shipped one whose [match] fits the hardware best. Its [reboot] section \
asks when this host may be rebooted: until `windows` is filled in there, bedplate reboots nothing by itself."
)]
pub struct InitArgs {
    /// File to write; `-` = standard output. Default: /etc/bedplate/profile.toml of the host; standard output for one that
    /// is recorded or a demo.
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite an existing file.
    #[arg(long)]
    force: bool,
    /// The shipped profile to extend, instead of the one that fits best.
    #[arg(long, value_name = "NAME", value_parser = shipped_names())]
    extends: Option<String>,
    #[command(flatten)]
    host: HostArgs,
}

fn shipped_names() -> clap::builder::PossibleValuesParser {
    profile::shipped().iter().map(|shipped| shipped.name).collect::<Vec<_>>().into()
}

/// Where it goes.
enum Target {
    Stdout,
    /// A path inside the host that is written.
    File(DirWriter, String),
}

/// Makes it and writes it.
pub fn run(args: &InitArgs) -> Result<Exit, CliError> {
    let host = host::open_one(&args.host)?;
    let mut target = target(args, host.reader.kind())?;
    if let Target::File(writer, path) = &mut target
        && !args.force
        && writer.file_meta(path).map_err(cannot)?.is_some()
    {
        // An operator's work may be in it.
        let hint = "look at what would be written with `bedplate profile init -o -`, or write over it with --force";
        let there = format!("{path} already exists and was left unchanged");
        return Err(CliError::request(there).hinting(hint));
    }
    let facts = host.facts(Depth::Plan);
    let base = match &args.extends {
        Some(name) => name.clone(),
        None => best(&facts)?,
    };
    let text = profile::for_host(&facts.label(), &base, &ports(&facts));
    let Target::File(mut writer, path) = target else {
        output::data(&text)?;
        return Ok(Exit::Done);
    };
    writer.replace_file(&path, text.as_bytes(), 0o644).map_err(cannot)?;
    let (check, plan) = match &args.out {
        Some(out) => (format!(" {}", out.display()), format!(" --profile {}", out.display())),
        None => (String::new(), String::new()),
    };
    output::status(&format!(
        "wrote {path}, which extends {base}. Fill in `windows` in its [reboot] section, then: `bedplate profile check{check}`, \
         `bedplate plan{plan}`"
    ));
    Ok(Exit::Done)
}

fn cannot(error: crate::host::WriteError) -> CliError {
    CliError::while_doing("cannot write the profile", error)
}

fn target(args: &InitArgs, kind: HostKind) -> Result<Target, CliError> {
    let own = || profile_source::HOST_PROFILE.to_owned();
    match (&args.out, kind) {
        (Some(out), _) if out.as_os_str() == "-" => Ok(Target::Stdout),
        (Some(out), _) => {
            let named = |path: PathBuf| path.to_str().map(str::to_owned);
            let path = std::path::absolute(out).ok().and_then(named);
            let path = path.ok_or_else(|| {
                CliError::request(format!(
                    "cannot write the profile: {} is not a path in UTF-8",
                    out.display()
                ))
            })?;
            Ok(Target::File(DirWriter::live(), path))
        }
        (None, HostKind::Live) => Ok(Target::File(DirWriter::live(), own())),
        (None, HostKind::Snapshot) => Ok(Target::Stdout),
        (None, HostKind::Image) => {
            let root = args.host.root.as_deref().unwrap_or(std::path::Path::new("/"));
            let writer = DirWriter::image(root, false);
            let writer =
                writer.map_err(|error| CliError::while_doing("cannot write the profile", error))?;
            Ok(Target::File(writer, own()))
        }
    }
}

/// The name of the shipped profile that fits best.
fn best(facts: &Facts) -> Result<String, CliError> {
    profile_source::best_shipped(facts).map_err(|error| {
        CliError::while_doing("cannot tell which shipped profile is for this host", error)
            .hinting("name one with --extends")
    })
}

/// The models of NIC ports that can have virtual functions, most ports first.
fn ports(facts: &Facts) -> Vec<Ports> {
    let mut found: Vec<Ports> = Vec::new();
    let functions = facts.pci.known().into_iter().flat_map(|tree| tree.functions.values());
    for function in functions.filter(|function| function.is_nic() && !function.is_vf()) {
        let Some(total) = total_vfs(function) else { continue };
        let (vendor, device) = (function.vendor.to_string(), function.device.to_string());
        match found.iter_mut().find(|ports| ports.vendor == vendor && ports.device == device) {
            Some(ports) => ports.count += 1,
            None => found.push(Ports { vendor, device, count: 1, total }),
        }
    }
    found.sort_by_key(|ports| std::cmp::Reverse(ports.count));
    found
}

/// How many virtual functions a port can have, if it can have any; `Some(None)`: not known.
fn total_vfs(function: &Function) -> Option<Option<u16>> {
    let total = function.sriov.known()?.total.known().copied();
    (total != Some(0)).then_some(total)
}
