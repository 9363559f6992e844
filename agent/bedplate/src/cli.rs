//! Argument parsing and command dispatch. stdout carries data, stderr carries status; the exit status is the result.

mod apply;
mod completions;
mod conclude;
#[cfg(feature = "daemon")]
mod daemon;
mod doctor;
mod error;
mod examples;
mod exit;
mod history;
mod hold;
mod host;
mod inspect;
mod lints;
mod manual;
mod nccl;
mod output;
mod plan;
mod profile;
mod profile_edit;
mod profile_init;
mod profile_list;
mod render;
mod report;
mod revert;
mod running;
mod seal;
mod snapshot;
mod topology;
mod verify;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory as _, Parser, Subcommand};

use bedplate_base::CpuVendor;
use bedplate_core::engine::profile_source::Choice;
use bedplate_core::engine::{ImageRequest, Request};
use bedplate_core::kind;
use bedplate_core::plan::KindId;
pub(crate) use error::{CliError, Context};
pub(crate) use exit::Exit;
use words::{Word, one_of};

/// Prepare bare-metal GPU hosts for GPUDirect RDMA, and verify that they are ready.
///
/// bedplate compares one TOML profile with the machine (kernel command line, modules, sysctl, PCIe ACS, SR-IOV VFs). It
/// shows the differences, applies the profile, and can revert its changes.
#[derive(Debug, Parser)]
#[command(name = "bedplate", version, max_term_width = 100, propagate_version = true)]
#[command(
    after_help = "Exit status: 0 done, no changes, or ready; 1 error; 2 differences found (plan --exit-code, render --check, \
revert or seal --dry-run --exit-code, topology --import); 3 reboot pending; \
4 blocked or not ready, doctor found a cause, render --strict cannot express a setting, or an error-level lint; \
5 unknown: something could not be read, and no other status applies; 6 the image build must still run tools; 64 usage."
)]
pub(crate) struct Cli {
    /// Colour: on a terminal (unless NO_COLOR is set), always, or never.
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        global = true,
        hide_possible_values = true
    )]
    color: output::Color,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show pending changes; writes nothing.
    Plan(plan::PlanArgs),
    /// Apply the profile (idempotent).
    Apply(apply::ApplyArgs),
    /// Restore the settings that bedplate replaced.
    Revert(revert::RevertArgs),
    /// End a pause (`bedplate revert --hold`): the daemon resumes enforcement.
    #[cfg(feature = "daemon")]
    Release(daemon::release::ReleaseArgs),
    /// Remove state that identifies this host or image, before its disk is cloned.
    Seal(seal::SealArgs),
    /// Show the changes that bedplate made on this host.
    History(history::HistoryArgs),
    /// Show the host: CPU, boot loader, IOMMU, GPUs, NICs, PCI tree.
    Inspect(inspect::InspectArgs),
    /// Show distances between GPUs, NICs and NVMe disks, and recommended pairs.
    Topology(topology::TopologyArgs),
    /// Check whether this host is ready for GPUDirect RDMA.
    Verify(verify::VerifyArgs),
    /// Find the cause of a symptom: a slow job, a module that does not load, a log line.
    Doctor(doctor::DoctorArgs),
    /// Print NCCL settings, analyze NCCL logs, and evaluate benchmark results.
    #[command(subcommand)]
    Nccl(nccl::NcclCommand),
    /// Write a one-page report of a host (verdict, topology, plan, reboots, history) for a ticket.
    Report(report::ReportArgs),
    /// Record a host in one file that read-only commands can replay anywhere.
    Snapshot(snapshot::SnapshotArgs),
    /// Write the profile as files for an image builder or another tool.
    Render(Box<render::RenderArgs>),
    /// List, show, check and explain profiles.
    #[command(subcommand)]
    Profile(profile::ProfileCommand),
    #[cfg(feature = "daemon")]
    #[command(flatten)]
    Daemon(daemon::DaemonCommand),
    /// Print a shell completion script.
    Completions(completions::CompletionsArgs),
    #[cfg(feature = "daemon")]
    #[command(flatten)]
    Unit(daemon::UnitCommand),
    /// Write man pages into a directory.
    #[command(hide = true)]
    Man(completions::ManArgs),
}

/// Host to inspect. Default: the running machine.
#[derive(Debug, Clone, Args)]
pub(crate) struct HostArgs {
    /// Inspect a root directory that is not running (an image, a mounted disk).
    #[arg(long, value_name = "DIR", group = "which_host", help_heading = "Host")]
    root: Option<PathBuf>,
    /// Root directory of the running host, mounted into a container.
    #[arg(long, value_name = "DIR", group = "which_host", help_heading = "Host")]
    host_root: Option<PathBuf>,
    /// Inspect a recorded host (see `bedplate snapshot`). Repeatable; accepts a glob pattern in quotes. With several
    /// hosts, unusable snapshots are reported and skipped, and `--json` writes one document per host, with its `file`.
    #[arg(long, value_name = "FILE", group = "which_host", help_heading = "Host")]
    snapshot: Vec<String>,
    /// Inspect a built-in demo host.
    #[arg(long, value_name = "NAME", group = "which_host", value_parser = demo_names(), help_heading = "Host")]
    demo: Option<String>,
}

impl HostArgs {
    /// Whether no other host is named than this machine. A container's host is this machine.
    fn is_this_host(&self) -> bool {
        self.root.is_none() && self.snapshot.is_empty() && self.demo.is_none()
    }

    /// Rejects `--root` with the given reason.
    fn needs_machine(&self, why: &str) -> Result<(), CliError> {
        let hint = "use the running machine, or record it with `bedplate snapshot` and pass --snapshot FILE";
        if self.root.is_some() { Err(CliError::new(why).hinting(hint)) } else { Ok(()) }
    }
}

fn demo_names() -> clap::builder::PossibleValuesParser {
    crate::demo::names()
        .map(|(name, about)| clap::builder::PossibleValue::new(name).help(about))
        .collect::<Vec<_>>()
        .into()
}

/// Profile, and the CPU vendor that it is resolved for.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProfileArgs {
    /// Name of a shipped profile, a TOML file, or a directory of TOML files (the best match is used).
    ///
    /// Default: /etc/bedplate/profile.toml of the host, else /etc/bedplate/profiles/, else the shipped profile that
    /// best matches the hardware. /etc/bedplate/profile.d/*.toml overrides it in sorted order.
    #[arg(long, short, value_name = "NAME|FILE|DIR", help_heading = "Profile")]
    profile: Option<String>,
    /// CPU vendor to assume (an image root has no CPU of its own).
    #[arg(long, value_name = "VENDOR", value_parser = one_of(&VENDORS), help_heading = "Profile")]
    cpu: Option<CpuVendor>,
}

impl ProfileArgs {
    /// Returns a request for a dry run, which does not need to read the ledger.
    fn request(&self) -> Request<'_> {
        let choice = self.profile.as_deref().map_or(Choice::HostOrShipped, Choice::Named);
        Request { cpu: self.cpu, ..Request::dry_run(choice) }
    }
}

/// Resource types that an image build sets without bedplate.
#[derive(Debug, Clone, Args)]
pub(crate) struct WithoutArgs {
    /// Leave one resource type to the image build (`cmdline` if it sets the kernel command line). Repeatable.
    #[arg(long, value_name = "KIND", requires = "root", value_parser = kind_name, help_heading = "Host")]
    without: Vec<KindId>,
}

impl WithoutArgs {
    fn request(&self) -> ImageRequest<'_> {
        ImageRequest { without: &self.without, ..ImageRequest::NONE }
    }
}

/// Returns the resource type of this name.
///
/// # Errors
/// If the name is unknown. The message lists the valid names.
fn kind_name(text: &str) -> Result<KindId, String> {
    let names = || kind::KINDS.iter().map(|kind| kind.id.name()).collect::<Vec<_>>().join(", ");
    kind::named(text).ok_or_else(|| format!("valid kinds: {}", names()))
}

/// CPU vendors that can be assumed.
const VENDORS: [Word<CpuVendor>; 3] = [
    ("intel", "GenuineIntel", CpuVendor::Intel),
    ("amd", "AuthenticAMD", CpuVendor::Amd),
    ("arm", "64-bit Arm", CpuVendor::Arm),
];

/// Removes hidden commands, which only units run, from the suggestions for a mistyped command.
fn without_hidden(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::Strings(near)) = error.get(ContextKind::SuggestedSubcommand) else {
        return error;
    };
    let command = Cli::command();
    let is_hidden =
        |name: &String| command.find_subcommand(name).is_some_and(clap::Command::is_hide_set);
    let shown: Vec<String> = near.iter().filter(|name| !is_hidden(name)).cloned().collect();
    match shown.is_empty() {
        true => drop(error.remove(ContextKind::SuggestedSubcommand)),
        false => drop(error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(shown))),
    }
    error
}

/// Parses the arguments, runs the command and returns its exit status.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return conclude::usage(&without_hidden(error)),
    };
    cli.color.choose();
    let result = match cli.command {
        Command::Plan(args) => plan::run(&args),
        Command::Apply(args) => apply::run(&args),
        Command::Revert(args) => revert::run(&args),
        #[cfg(feature = "daemon")]
        Command::Release(args) => daemon::release::run(&args),
        Command::Seal(args) => seal::run(&args),
        Command::History(args) => history::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Topology(args) => topology::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Nccl(command) => nccl::run(&command),
        Command::Report(args) => report::run(&args),
        Command::Snapshot(args) => snapshot::run(&args),
        Command::Render(args) => render::run(&args),
        Command::Profile(command) => profile::run(&command),
        Command::Completions(args) => completions::completions(&args),
        #[cfg(feature = "daemon")]
        Command::Daemon(command) => command.run(),
        #[cfg(feature = "daemon")]
        Command::Unit(command) => command.run(),
        Command::Man(args) => completions::man(&args),
    };
    conclude::conclude(result)
}
