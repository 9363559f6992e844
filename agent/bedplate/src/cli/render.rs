//! `bedplate render`: writes the profile as files for an image builder or another tool.

mod check;
mod job;
mod message;

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::host;
use super::lints::LintArgs;
use super::words::{Word, one_of};
use super::{CliError, Context as _, Exit, HostArgs, ProfileArgs, output};
use bedplate_base::Arch;
use bedplate_core::documents as json;
use bedplate_core::engine;
use bedplate_core::engine::profile_source::ChosenProfile;
use bedplate_core::kind;
use bedplate_core::ledger::Ledger;
use bedplate_core::profile::show;
use bedplate_facts::pci::{Function, PciTree};
use bedplate_facts::{Depth, Facts, IommuFacts};
use bedplate_host::Writer as _;
use bedplate_host::write::DirWriter;
use bedplate_render::{GrubFamily, Inexpressible, IpamRange, Options, RenderResult};
use message::{print_messages, printed};

/// `bedplate render`.
#[derive(Debug, Args)]
#[command(
    after_help = "The profile is resolved for: with only --cpu, a machine of that vendor, otherwise unknown; with --snapshot, \
--root or --demo, that host; by default, the running machine. Settings that a target cannot express are listed on stderr, and \
in JSON as `not_expressible`.

Exit status: 0 rendered; 1 the profile or a file cannot be read or written; 2 with --check, files differ; 4 nothing \
written: the target cannot express a setting (--strict), or a target for VFs only cannot express any VFs; 64 usage."
)]
pub(crate) struct RenderArgs {
    /// Target to render for.
    #[arg(value_name = "TARGET", value_parser = targets())]
    target: String,
    /// Output directory. Default: print the files.
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Remove files in DIR that an earlier rendering for this target wrote and that are no longer part of it.
    #[arg(long, requires = "out")]
    prune: bool,
    /// Overwrite files in DIR that bedplate did not render.
    #[arg(long, requires = "out")]
    overwrite: bool,
    /// Write nothing; compare the files in DIR with the rendered ones and print a unified diff. Exit status 2 if a file
    /// differs, is missing, has the wrong executable bit, or was rendered for this target earlier and is no longer part
    /// of it; otherwise 0. Ignores other files.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "json"])]
    check: Option<PathBuf>,
    /// Fail with exit status 4 and write nothing if the target cannot express a setting of the profile.
    #[arg(long)]
    strict: bool,
    /// Accept, with a reason, an item that the target cannot express: its id (`sriov/compute`, `cmdline/pci`), or the
    /// part before the slash for all of that type. Repeatable.
    #[arg(long, value_name = "ID=REASON", value_parser = accepted)]
    accept: Vec<AcceptedItem>,
    /// Select VFs by the host's PCI addresses instead of by rule. The files then fit only machines with the same
    /// addresses.
    #[arg(long)]
    pin_addresses: bool,
    /// Print files, notes and inexpressible settings as JSON.
    #[arg(long, conflicts_with = "out")]
    json: bool,
    /// Talos release of the patch, such as 1.11.
    #[arg(long, value_name = "VERSION", help_heading = "Target: talos")]
    talos_version: Option<String>,
    /// Official system extension to add to the Image Factory schematic.
    #[arg(long, value_name = "NAME", help_heading = "Target: talos")]
    talos_extension: Vec<String>,
    /// Conventions of GRUB's configuration. Default: those of the host given by --snapshot, --root or --demo, otherwise
    /// Debian's.
    #[arg(long, value_name = "FAMILY", value_parser = one_of(&FAMILIES), help_heading = "Targets: grub, ansible, cloud-init")]
    family: Option<GrubFamily>,
    /// Machine config pool.
    #[arg(
        long,
        value_name = "ROLE",
        default_value = "worker",
        help_heading = "Target: machineconfig"
    )]
    role: String,
    /// Also write a SriovNetwork with addresses from this network: for all rules with RDMA VFs, or for the named one.
    /// Repeatable.
    #[arg(long, value_name = "[RULE=]CIDR", value_parser = ipam_range, help_heading = "Target: sriov-operator")]
    ipam_range: Vec<IpamRange>,
    #[command(flatten)]
    job: job::JobArgs,
    #[command(flatten)]
    profile: ProfileArgs,
    #[command(flatten)]
    lints: LintArgs,
    #[command(flatten)]
    host: HostArgs,
}

/// An accepted item with its reason.
#[derive(Debug, Clone, Serialize)]
struct AcceptedItem {
    id: String,
    reason: String,
}

impl AcceptedItem {
    fn takes(&self, left: &Inexpressible) -> bool {
        let rest = left.id.strip_prefix(&self.id);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '.']))
    }
}

fn accepted(text: &str) -> Result<AcceptedItem, &'static str> {
    match text.split_once('=').map(|(id, reason)| (id.trim(), reason.trim())) {
        Some((id, reason)) if !id.is_empty() && !reason.is_empty() => {
            Ok(AcceptedItem { id: id.to_owned(), reason: reason.to_owned() })
        }
        _ => Err("expected ID=REASON; --json lists the ids"),
    }
}

fn ipam_range(text: &str) -> Result<IpamRange, &'static str> {
    let (rule, cidr) = match text.rsplit_once('=') {
        Some((rule, cidr)) => (Some(rule.to_owned()), cidr),
        None => (None, text),
    };
    let parts = cidr.split_once('/').and_then(|(address, length)| {
        Some((address.parse::<IpAddr>().ok()?, length.parse::<u8>().ok()?))
    });
    match parts {
        Some((IpAddr::V4(_), 0..=32) | (IpAddr::V6(_), 0..=128)) => {
            Ok(IpamRange { rule, cidr: cidr.to_owned() })
        }
        _ => Err("expected CIDR or RULE=CIDR such as 192.0.2.0/24"),
    }
}

const FAMILIES: [Word<GrubFamily>; 2] = [
    ("debian", "Debian, Ubuntu and similar: /etc/default/grub.d drop-ins", GrubFamily::Debian),
    ("rhel", "RHEL, Fedora and similar: BLS entries, grubby", GrubFamily::Rhel),
];

fn targets() -> clap::builder::PossibleValuesParser {
    let value = |target: &bedplate_render::Target| {
        clap::builder::PossibleValue::new(target.name).help(target.about)
    };
    bedplate_render::TARGETS.iter().map(value).collect::<Vec<_>>().into()
}

/// Resolves the profile, renders it, and writes or prints the files.
pub(crate) fn run(args: &RenderArgs) -> Result<Exit, CliError> {
    let says_host = !args.host.is_this_host() || args.host.host_root.is_some();
    let opened = host::open_one(&args.host)?;
    let mut facts = match (args.profile.cpu, says_host) {
        (Some(cpu), false) => Facts::of_vendor(cpu),
        _ => opened.facts(Depth::Plan),
    };
    // The machine that renders provides only its CPU vendor. Its lack of an IOMMU or a GPU does not apply to the hosts
    // that get the files.
    if !says_host {
        facts.iommu = IommuFacts::unknown();
        let has_gpus = |tree: &PciTree| tree.functions.values().any(Function::is_gpu);
        if !facts.pci.known().is_some_and(has_gpus) {
            facts = facts.of_the_same_cpu();
        }
    }
    if args.pin_addresses && !facts.sees_devices() {
        return Err(CliError::usage("--pin-addresses requires a host with known devices")
            .hinting("pass --snapshot FILE or --demo NAME"));
    }
    let reader = opened.reader.as_ref();
    let ChosenProfile { loaded, .. } = engine::choose(reader, &mut facts, &args.profile.request())?;
    output::lints(&loaded, &args.lints.allow_lint);
    engine::LintVerdict::new(&loaded, &args.lints.allow_lint).check()?;
    // An image that is not built yet has no earlier changes.
    let desired = kind::resolve(&loaded.profile, &facts, &Ledger::default());
    let cannot = format!("cannot render for {}", args.target);
    let target = bedplate_render::target(&args.target).context(&cannot)?;
    let mut options = Options {
        grub_family: args.grub_family(target, says_host.then_some(&facts))?,
        ..args.options(&facts, show(&loaded, false))
    };
    if args.target == "nccl-job" {
        // A root directory has no ports.
        let host = (says_host && args.host.root.is_none()).then_some(reader);
        options.job = args.job.job(&loaded.profile, host)?;
    }
    let rendered = bedplate_render::render(target, &loaded.profile, &facts, &desired, &options)
        .context(cannot)?;
    emit(args, target, &rendered, &loaded.profile.name, &options)
}

impl RenderArgs {
    /// Returns the reason for accepting an inexpressible item.
    fn reason(&self, left: &Inexpressible) -> Option<&str> {
        let accepted = self.accept.iter().find(|accepted| accepted.takes(left));
        accepted.map(|accepted| accepted.reason.as_str())
    }

    fn options(&self, facts: &Facts, profile_text: String) -> Options {
        Options {
            arch: facts.arch.known().copied().unwrap_or(Arch::X86_64),
            cpu: facts.cpu.vendor.known().copied(),
            profile_text: Some(profile_text),
            talos_version: self.talos_version.clone(),
            talos_extensions: self.talos_extension.clone(),
            role: self.role.clone(),
            pin_addresses: self.pin_addresses,
            ipam_ranges: self.ipam_range.clone(),
            ..Options::default()
        }
    }

    /// Returns the family of the files. `host` is the host that they are for, if one was named.
    fn grub_family(
        &self,
        target: &bedplate_render::Target,
        host: Option<&Facts>,
    ) -> Result<GrubFamily, CliError> {
        let asked = self.family;
        let Some(host) = host.filter(|_| target.differs_by_family) else {
            return Ok(asked.unwrap_or_default());
        };
        match (asked, GrubFamily::from_facts(host)) {
            (Some(asked), Some(own)) if asked != own => {
                let what = format!("the host uses the {own} family, not {asked}");
                Err(CliError::usage(what).hinting("omit --family, or select the host that the files are for"))
            }
            (asked, own) => asked.or(own).ok_or_else(|| {
                let id = host.os.id.known().map_or("unknown", String::as_str);
                CliError::usage(format!(
                    "no GRUB of the Debian or RHEL family found on this host (os-release ID {id})"
                ))
                .hinting("use --family debian if GRUB reads /etc/default/grub.d, or --family rhel if grubby changes the boot entries")
            }),
        }
    }
}

/// Output of `--json`.
#[derive(Serialize)]
struct Document<'a> {
    /// Version of this format, 1.
    bedplate_render: u32,
    target: &'a str,
    profile: &'a str,
    /// SHA-256 of the merged profile.
    profile_digest: Option<String>,
    #[serde(flatten)]
    rendered: &'a RenderResult,
    /// Items accepted by `--accept`.
    accepted: &'a [AcceptedItem],
}

fn emit(
    args: &RenderArgs,
    target: &bedplate_render::Target,
    rendered: &RenderResult,
    profile: &str,
    options: &Options,
) -> Result<Exit, CliError> {
    let left: Vec<&Inexpressible> =
        rendered.inexpressible.iter().filter(|left| args.reason(left).is_none()).collect();
    // The target supports only VFs.
    let empty = target.is_for_vfs && rendered.files.is_empty();
    let refused =
        !left.is_empty() && (args.strict || empty && left.iter().any(|left| left.is_of_vfs()));
    let mut exit = Exit::Done;
    if args.json {
        output::data(&json::document(&Document {
            bedplate_render: 1,
            target: &args.target,
            profile,
            profile_digest: options.profile_text.as_deref().map(bedplate_render::digest),
            rendered,
            accepted: &args.accept,
        })?)?;
    } else if refused {
        // Incomplete files must not be written for an image that requires all settings.
    } else if let Some(dir) = &args.check {
        let differences = check::differences(dir, &target.paths(options), rendered)?;
        output::lines(&differences)?;
        if !differences.is_empty() {
            exit = Exit::Changes;
        }
    } else if let Some(dir) = &args.out {
        write_all(args, dir, &target.paths(options), rendered)?;
    } else {
        output::data(&printed(rendered))?;
    }
    if rendered.files.is_empty() && !refused {
        let why = match target.is_for_vfs
            && !rendered.inexpressible.iter().any(Inexpressible::is_of_vfs)
        {
            true => "the profile creates no VFs: ",
            false => "",
        };
        output::status(&format!("{why}no files for {}", args.target));
    }
    print_messages(args, rendered);
    if refused {
        let why = match args.strict {
            true => "every setting of the profile (--strict)",
            false => "the VFs of any rule",
        };
        output::status(&format!(
            "{}: {} cannot express {why}; nothing written",
            output::error_word(),
            args.target
        ));
        output::status("hint: accept an item with `--accept ID=REASON`; its id is in brackets");
        exit = Exit::Blocked;
    }
    Ok(exit)
}

fn write_all(
    args: &RenderArgs,
    dir: &Path,
    paths: &[String],
    rendered: &RenderResult,
) -> Result<(), CliError> {
    let found = check::found(dir, paths, rendered)?;
    if let Some(first) = found.foreign.first().filter(|_| !args.overwrite) {
        return Err(CliError::usage(format!(
            "{} was not rendered by bedplate; nothing written",
            dir.join(first).display()
        ))
        .hinting("move the file, or overwrite it with --overwrite"));
    }
    for file in &rendered.files {
        write(dir, file)?;
        output::status(&format!("wrote {}", dir.join(&file.path).display()));
    }
    for path in &found.stale {
        let shown = dir.join(path);
        if args.prune {
            remove(dir, path)?;
            output::status(&format!(
                "removed {}: no longer part of the rendering",
                shown.display()
            ));
        } else {
            output::warn(&format!(
                "{} is left over from an earlier rendering; remove it with --prune",
                shown.display()
            ));
        }
    }
    Ok(())
}

fn write(dir: &Path, file: &bedplate_render::OutFile) -> Result<(), CliError> {
    let cannot = format!("cannot write to {}", dir.display());
    std::fs::create_dir_all(dir).context(format!("cannot create directory {}", dir.display()))?;
    // DIR may be an image root, with links that lead out of it.
    let mut writer = DirWriter::image(dir, false).context(&cannot)?;
    let path = format!("/{}", file.path);
    writer.replace_file(&path, file.text.as_bytes(), file.mode).context(cannot)
}

fn remove(dir: &Path, path: &str) -> Result<(), CliError> {
    let cannot = format!("cannot remove {path} from {}", dir.display());
    let mut writer = DirWriter::image(dir, false).context(&cannot)?;
    writer.remove_file(&format!("/{path}")).context(cannot)
}
