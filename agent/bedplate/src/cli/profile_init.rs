//! `bedplate profile init`: writes a commented starting profile for a host. Never overwrites a file, unless forced.

use std::path::PathBuf;

use clap::Args;

use super::{CliError, Context as _, Exit, HostArgs, host, output};
use bedplate_core::desired::AcsPolicy;
use bedplate_core::engine::profile_source::{self, Choice};
use bedplate_core::engine::{self, Request, VerifyOutcome};
use bedplate_core::plan::RebootNeed;
use bedplate_core::profile::model::AcsPersist;
use bedplate_core::profile::{self, Ports, SuggestedSetting};
use bedplate_core::verify::Selection;
use bedplate_facts::pci::Function;
use bedplate_facts::{Depth, Facts};
use bedplate_host::write::DirWriter;
use bedplate_host::{HostKind, Reader, Writer as _, file};

/// Shipped profile for hosts that give GPUs and NICs to VMs.
const GUESTS: &str = "vfio";

/// `profile init`.
#[derive(Debug, Args)]
#[command(
    after_help = "The profile extends the shipped one whose [match] best fits the hardware. Set the reboot `windows` in its \
[reboot] section: until then, bedplate never reboots this host on its own."
)]
pub(crate) struct InitArgs {
    /// File to write; `-` for standard output. Default: /etc/bedplate/profile.toml of the host; standard output for a
    /// snapshot, a demo host or `--host-root`.
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite an existing file.
    #[arg(long)]
    force: bool,
    /// Shipped profile to extend, instead of the best match.
    #[arg(long, value_name = "NAME", value_parser = shipped_names())]
    extends: Option<String>,
    #[command(flatten)]
    host: HostArgs,
}

fn shipped_names() -> clap::builder::PossibleValuesParser {
    profile::shipped().iter().map(|shipped| shipped.name).collect::<Vec<_>>().into()
}

/// Destination of the profile.
enum Target {
    Stdout,
    /// Writer and path inside the host.
    File(DirWriter, String),
}

/// Generates the profile and writes it.
pub(crate) fn run(args: &InitArgs) -> Result<Exit, CliError> {
    let host = host::open_one(&args.host)?;
    let mut target = target(args, host.reader.kind())?;
    if let Target::File(writer, path) = &mut target
        && !args.force
        && writer.file_meta(path).context(CANNOT)?.is_some()
    {
        // The file may contain an operator's edits.
        let hint =
            "run `bedplate profile init -o -` to see the new content, or overwrite with --force";
        let there = format!("{} already exists; not changed", display_path(args, path));
        return Err(CliError::new(there).hinting(hint));
    }
    let facts = host.facts(Depth::Plan);
    let base = match &args.extends {
        Some(name) => name.clone(),
        None => best(&facts)?,
    };
    let asks = asks(host.reader.as_ref(), &base)?;
    let text = profile::for_host(&facts.label(), &base, &ports(&facts), &asks);
    let Target::File(mut writer, path) = target else {
        output::data(&text)?;
        return Ok(Exit::Done);
    };
    writer.replace_file(&path, text.as_bytes(), 0o644).context(CANNOT)?;
    let shown = display_path(args, &path);
    let (check, plan) = match (&args.out, &args.host.root) {
        (Some(out), _) => (format!(" {}", out.display()), format!(" --profile {}", out.display())),
        (None, Some(root)) => (format!(" {shown}"), format!(" --root {}", root.display())),
        (None, None) => (String::new(), String::new()),
    };
    output::status(&format!(
        "wrote {shown}, which extends {base}. Fill in `windows` in its [reboot] section, then: `bedplate profile check{check}`, \
         `bedplate plan{plan}`"
    ));
    if let Some(note) = reboot_note(host.reader.as_ref(), &base) {
        output::status(&format!("note: {note}"));
    }
    Ok(Exit::Done)
}

/// Returns the written file's path on this machine.
fn display_path(args: &InitArgs, path: &str) -> String {
    match &args.host.root {
        Some(root) if args.out.is_none() => file::under(root, path).display().to_string(),
        _ => path.to_owned(),
    }
}

/// Note if the profile causes a reboot.
const UNTIL_FILLED_IN: &str = "kernel arguments of this profile take effect at the next boot; `windows = [\"never\"]` prevents \
    automatic reboots: reboot manually, or set `windows`";
/// Note for an image.
const AFTER_FIRST_BOOT: &str = "in the first boot of this image the daemon adds the node's ACS argument, which requires a second \
    boot; `windows = [\"never\"]` prevents automatic reboots: set `windows`, reboot manually, or set `persistence = \
    \"live\"` in [acs], which needs only one boot";

/// Returns the note about the reboot that a profile extending `base` causes, or `None` if it causes no reboot or cannot
/// be planned.
fn reboot_note(reader: &dyn Reader, base: &str) -> Option<&'static str> {
    let choice = Choice::Named(base);
    let request = Request::dry_run(choice);
    let planned = engine::prepare(reader, &request).ok()?;
    let acs = &planned.loaded.profile.acs;
    match reader.kind() {
        HostKind::Image => {
            let takes_arguments =
                acs.policy != AcsPolicy::Keep && acs.persistence != AcsPersist::Live;
            takes_arguments.then_some(AFTER_FIRST_BOOT)
        }
        HostKind::Live | HostKind::Snapshot => {
            (planned.plan.reboot != RebootNeed::None).then_some(UNTIL_FILLED_IN)
        }
    }
}

/// Prefix of write errors.
const CANNOT: &str = "cannot write the profile";

fn target(args: &InitArgs, kind: HostKind) -> Result<Target, CliError> {
    let own = || profile_source::HOST_PROFILE.to_owned();
    match (&args.out, kind) {
        (Some(out), _) if out.as_os_str() == "-" => Ok(Target::Stdout),
        (Some(out), _) => {
            let named = |path: PathBuf| path.to_str().map(str::to_owned);
            let path = std::path::absolute(out).ok().and_then(named);
            let path = path.ok_or_else(|| {
                CliError::new(format!("{CANNOT}: {} is not a path in UTF-8", out.display()))
            })?;
            Ok(Target::File(DirWriter::live(), path))
        }
        // The mount is only read.
        (None, HostKind::Live) if args.host.host_root.is_some() => Ok(Target::Stdout),
        (None, HostKind::Live) => Ok(Target::File(DirWriter::live(), own())),
        (None, HostKind::Snapshot) => Ok(Target::Stdout),
        (None, HostKind::Image) => {
            let root = args.host.root.as_deref().unwrap_or(std::path::Path::new("/"));
            Ok(Target::File(DirWriter::image(root, false).context(CANNOT)?, own()))
        }
    }
}

/// Returns the name of the best-matching shipped profile.
fn best(facts: &Facts) -> Result<String, CliError> {
    profile_source::best_shipped(facts).map_err(|error| {
        CliError::while_doing("cannot choose a shipped profile for this host", error)
            .hinting("select one with --extends")
    })
}

/// Returns the settings that failing checks of a running host require and that the shipped profile does not change.
fn asks(reader: &dyn Reader, base: &str) -> Result<Vec<SuggestedSetting>, CliError> {
    if reader.kind() == HostKind::Image {
        return Ok(Vec::new());
    }
    let choice = Choice::Named(base);
    let request = Request::dry_run(choice);
    let VerifyOutcome { facts, loaded, report, .. } =
        engine::verify(reader, &request, &Selection::default())?;
    let fails = |id: &str| report.checks.iter().any(|judged| judged.id == id && judged.fails());
    let profile = loaded.map(|loaded| loaded.profile);
    // `vfio` keeps ACS on for its VMs.
    let keeps = profile
        .is_some_and(|profile| profile.acs.policy == AcsPolicy::Keep && profile.name != GUESTS);
    let mut asks = Vec::new();
    if keeps && fails("acs.path") {
        asks.push(SuggestedSetting::DirectTraffic);
    }
    let functions = facts.pci.known().into_iter().flat_map(|tree| tree.functions.values());
    let has_nouveau =
        functions.filter(|one| one.is_gpu()).any(|gpu| gpu.driver.as_deref() == Some("nouveau"));
    if has_nouveau && fails("modules.driver") {
        asks.push(SuggestedSetting::NoNouveau);
    }
    Ok(asks)
}

/// Returns the models of NIC ports that support virtual functions, most ports first.
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

/// Returns the number of virtual functions that a port supports, if any; `Some(None)` if the number is unknown.
fn total_vfs(function: &Function) -> Option<Option<u16>> {
    let total = function.sriov.known()?.total.known().copied();
    (total != Some(0)).then_some(total)
}
