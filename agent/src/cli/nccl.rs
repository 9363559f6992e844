//! `bedplate nccl`: what NCCL should be told on this host.

mod perf;

use clap::{Args, Subcommand, ValueEnum};

use super::{CliError, Exit, HostArgs, host, output};
use crate::facts::{Depth, Facts, placement, rdma};
use crate::host::Reading;
use crate::kind::cmdline::{Superchip, superchip};
use crate::nccl::env::{self, Candidate};
use crate::nccl::version::Version;
use crate::report::{json, nccl};
use crate::topology::devices::{Devices, Sort};
use crate::topology::{Distance, Topology};

/// `bedplate nccl`.
#[derive(Debug, Subcommand)]
pub enum NcclCommand {
    /// Print the few variables that NCCL needs on this host, with their reasons.
    Env(EnvArgs),
    /// Judge what nccl-tests, RCCL-tests or perftest measured, by what this host's links can do.
    Perf(perf::PerfArgs),
}

/// `bedplate nccl env`.
#[derive(Debug, Args)]
#[command(
    after_help = "Put it into /etc/nccl.conf of the host, or into the job; what a job sets itself goes before the file.\n\n\
Exit status: 0 printed; 4 no RDMA port is ACTIVE; 5 ports or PCI devices could not be read; 1 error; 64 usage."
)]
pub struct EnvArgs {
    #[command(flatten)]
    host: HostArgs,
    /// What it is for: /etc/nccl.conf, a shell, the env list of a container, a TaskProlog script.
    #[arg(long, value_enum, default_value_t = Format::Conf)]
    format: Format,
    /// The version of NCCL: names and defaults differ.
    #[arg(long, value_name = "VERSION", default_value_t = Version::NEWEST)]
    nccl_version: Version,
    /// Also what people are told to set and this host does not need, and why not.
    #[arg(long, short)]
    verbose: bool,
    /// Machine-readable (its JSON Schema: `bedplate nccl env --json-schema`).
    #[arg(long)]
    json: bool,
    /// Print the JSON Schema of `--json` and leave.
    #[arg(long, exclusive = true)]
    json_schema: bool,
}

/// What the variables are written for.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// /etc/nccl.conf.
    Conf,
    /// A shell.
    Sh,
    /// The env list of a container.
    K8s,
    /// A TaskProlog script of Slurm.
    Slurm,
}

impl From<Format> for nccl::Form {
    fn from(format: Format) -> Self {
        match format {
            Format::Conf => nccl::Form::Conf,
            Format::Sh => nccl::Form::Shell,
            Format::K8s => nccl::Form::Kubernetes,
            Format::Slurm => nccl::Form::Slurm,
        }
    }
}

/// Runs one of them.
pub fn run(command: &NcclCommand) -> Result<Exit, CliError> {
    match command {
        NcclCommand::Env(args) => env(args),
        NcclCommand::Perf(args) => perf::run(args),
    }
}

fn env(args: &EnvArgs) -> Result<Exit, CliError> {
    if args.json_schema {
        output::data(&json::document(&nccl::schema())?)?;
        return Ok(Exit::Done);
    }
    if args.host.root.is_some() {
        return Err(CliError::request("a root directory has no RDMA ports").hinting(
            "look at the running machine, or at a recording of it: `bedplate snapshot`, then --snapshot FILE",
        ));
    }
    let opened = host::open_one(&args.host)?;
    let reader = opened.reader.as_ref();
    let facts = opened.facts(Depth::Thorough);
    let tree = match &facts.pci {
        Reading::Known(tree) => tree,
        Reading::Absent => return Err(CliError::request("this host has no PCI")),
        Reading::Unknown(why) => {
            output::warn(&format!("the PCI devices cannot be read: {why}"));
            return Ok(Exit::CannotTell);
        }
    };
    let topology = Topology::new(tree);
    let devices = Devices::find(&topology, &placement::observe(reader, tree), false);
    let mut ports = Vec::new();
    for nic in
        devices.nics.iter().filter(|device| device.sort == Sort::Nic && !device.function.vfio)
    {
        let address = nic.address();
        let ways = devices.nics.iter().filter(|device| {
            device.address() == address
                || device.sort == Sort::DataDirect && device.of.contains(&address)
        });
        let gpus = || devices.gpus.iter().filter(|gpu| !gpu.function.vfio);
        let distances =
            ways.flat_map(|way| gpus().map(|gpu| topology.between(&gpu.spot, &way.spot)));
        let distance = distances.min();
        ports.extend(rdma::ports(reader, nic.function).into_iter().map(|port| (port, distance)));
    }
    let candidates: Vec<Candidate> =
        ports.iter().map(|(port, distance)| Candidate { port, distance: *distance }).collect();
    let advice = env::advise(&candidates, reach(&facts, args.nccl_version), args.nccl_version);
    match args.json {
        true => output::json(&nccl::document(&advice))?,
        false => output::data(&nccl::text(&advice, args.format.into(), args.verbose))?,
    }
    if !args.json {
        advice.notes.iter().for_each(|note| output::warn(note));
    }
    Ok(match (advice.complete, advice.set.is_empty()) {
        (false, _) => Exit::CannotTell,
        (true, true) => Exit::Blocked,
        (true, false) => Exit::Done,
    })
}

/// How far GPUDirect RDMA goes by default.
fn reach(facts: &Facts, version: Version) -> Distance {
    // On such superchips NCCL goes over the chip-to-chip link, by default since 2.29 (handbook §8.4).
    match superchip(facts) {
        Superchip::No => Distance::Pxb,
        _ if version < Version(2, 29) => Distance::Pxb,
        _ => Distance::Node,
    }
}
