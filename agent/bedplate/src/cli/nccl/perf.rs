//! `bedplate nccl perf`: compares benchmark results with the limits of this host's links.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::Args;

use super::unpack::open;
use crate::cli::host::{self, OpenHost};
use crate::cli::{CliError, Context as _, Exit, HostArgs, output};
use crate::report::nccl_perf;
use bedplate_base::Reading;
use bedplate_base::terminal::brief;
use bedplate_base::value::PciAddress;
use bedplate_core::record::HOSTNAME;
use bedplate_facts::pci::{Function, PciTree};
use bedplate_facts::superchip::{Superchip, superchip};
use bedplate_facts::topology::{Distance, pcie_link};
use bedplate_facts::{Depth, Facts};
use bedplate_nccl::env::carrying;
use bedplate_nccl::job::algorithm_of_log;
use bedplate_nccl::log::Log;
use bedplate_nccl::perf::hosts::{self, Host};
use bedplate_nccl::perf::judge::{Assumptions, Links, Verdict};
use bedplate_nccl::perf::limit::{Nic, Pcie, Port};
use bedplate_nccl::perf::machine::Machine;
use bedplate_nccl::perf::ranks::{self, MOST_RANKS, Options};
use bedplate_nccl::perf::{self, Algorithm, Test};
use bedplate_nccl::ports::{self, PlacedPort};
use bedplate_nccl::{Library, host_advice};

/// Class of NVMe drives (PCI Code and ID Assignment Specification 1.11, §1.2).
const NVME: u32 = 0x01_0802;

/// Facts about results that their table does not show.
#[derive(Debug, Args)]
pub(super) struct AssumptionArgs {
    /// Expected bandwidth in GB/s, instead of that of known-good machines: less is unknown, less than 90 % not as expected.
    #[arg(long, value_name = "VALUE", value_parser = bandwidth)]
    expect: Option<f64>,
    /// Algorithm of the large sizes, if the file does not have NCCL's log: Ring, Tree, CollNetDirect, CollNetChain, NVLS, NVLSTree or PAT.
    #[arg(long, value_name = "NAME")]
    algo: Option<Algorithm>,
}

impl AssumptionArgs {
    /// Returns the assumptions about the results of a log.
    pub(super) fn assumptions(&self, log: &Log) -> Assumptions {
        Assumptions { expect: self.expect, algorithm: self.algo.or_else(|| algorithm_of_log(log)) }
    }
}

/// `bedplate nccl perf`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 as expected for this host's links; 4 not as expected; 5 unknown; 1 error; 64 usage."
)]
pub(crate) struct PerfArgs {
    /// Output of nccl-tests, RCCL-tests, perftest, nvbandwidth, `gdrcopy_copybw`, gdsio or oneCCL's benchmark; plain,
    /// gzip or zstd; `-` for standard input.
    #[arg(value_name = "FILE", required_unless_present = "json_schema")]
    file: Option<PathBuf>,
    #[command(flatten)]
    host: HostArgs,
    /// Collective (all_gather, alltoall …), if the file does not name it (RCCL-tests, older nccl-tests) and its columns
    /// do not show it.
    #[arg(long, value_name = "NAME")]
    test: Option<Test>,
    /// Number of ranks, if the file does not name them and its columns do not show their number.
    #[arg(long, value_name = "N", value_parser = ranks_from_1)]
    ranks: Option<usize>,
    /// Number of ranks on each host, if the file does not name the hosts.
    #[arg(long, value_name = "N", value_parser = ranks_from_1)]
    per_host: Option<usize>,
    #[command(flatten)]
    assumptions: AssumptionArgs,
    /// Print an SVG picture without scripts.
    #[arg(long, conflicts_with = "json")]
    svg: bool,
    /// Draw the plot with ASCII characters.
    #[arg(long, conflicts_with_all = ["json", "svg"])]
    ascii: bool,
    /// New file for the picture. Default, or `-`: standard output.
    #[arg(short, long, value_name = "FILE", requires = "svg")]
    out: Option<PathBuf>,
    /// Print JSON (schema: `bedplate nccl perf --json-schema`).
    #[arg(long)]
    json: bool,
    /// Print the JSON Schema of `--json` and exit.
    #[arg(long, exclusive = true)]
    json_schema: bool,
}

fn ranks_from_1(text: &str) -> Result<usize, String> {
    const FIT: RangeInclusive<usize> = 1..=MOST_RANKS;
    let fits = text.parse().ok().filter(|count| FIT.contains(count));
    fits.ok_or_else(|| format!("expected a number from 1 to {MOST_RANKS}"))
}

/// Reads the results, evaluates them and prints the report.
pub(crate) fn run(args: &PerfArgs) -> Result<Exit, CliError> {
    let Some(file) = args.file.as_ref().filter(|_| !args.json_schema) else {
        return output::data(nccl_perf::SCHEMA).map(|()| Exit::Done);
    };
    args.host.needs_machine("a root directory has no RDMA ports")?;
    let name = file.display().to_string();
    let bytes = read(file)?;
    let mut results = perf::read(&String::from_utf8_lossy(&bytes));
    if results.runs.is_empty() && perf::is_binary(&bytes) {
        let shown = brief(&name, 200);
        return Err(CliError::new(format!("{shown} is binary, not the text of a benchmark")));
    }
    let options = Options { test: args.test, ranks: args.ranks, per_host: args.per_host };
    ranks::complete(&mut results, &options).map_err(CliError::usage)?;
    let (hosts, unusable) = hosts_of(&args.host)?;
    if hosts.is_empty() {
        return Ok(Exit::Failed);
    }
    let mut log = bedplate_nccl::log::Reader::default();
    log.feed(&bytes);
    let assumptions = args.assumptions.assumptions(&log.finish());
    let report = hosts::judge(results, &hosts, &assumptions);
    if args.json {
        output::json(&nccl_perf::document(&report, &name))?;
    } else if args.svg {
        let out = args.out.as_deref().unwrap_or(Path::new("-"));
        output::to(out, &nccl_perf::svg(&report, &name))?;
    } else {
        let ascii = args.ascii || !speaks_unicode();
        output::lines(&nccl_perf::text(&report, &name, output::columns(), ascii))?;
    }
    Ok(match report.verdict {
        _ if !unusable.is_empty() => Exit::Failed,
        Verdict::Good => Exit::Done,
        Verdict::Bad => Exit::Blocked,
        Verdict::CannotTell => Exit::CannotTell,
    })
}

/// Parses a bandwidth in GB/s.
fn bandwidth(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0);
    value.ok_or_else(|| "expected a number of GB/s above 0".to_owned())
}

/// Whether the output may contain Unicode. Only a locale with another encoding disables it: under systemd and in
/// containers no locale is set, and their viewers show UTF-8.
fn speaks_unicode() -> bool {
    let said = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    said.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

fn read(file: &Path) -> Result<Vec<u8>, CliError> {
    let most = perf::LARGEST as u64 + 1;
    let mut bytes = Vec::new();
    let done =
        open(&file.to_string_lossy()).and_then(|open| open.take(most).read_to_end(&mut bytes));
    let shown = brief(&file.display().to_string(), 200);
    done.context(format!("cannot read {shown}"))?;
    if bytes.len() > perf::LARGEST {
        return Err(CliError::new(format!(
            "{shown} exceeds the {} MiB limit",
            perf::LARGEST >> 20
        ))
        .hinting("extract the benchmark's lines from the log"));
    }
    Ok(bytes)
}

/// Reads the named hosts. Returns the unusable snapshots, too.
pub(super) fn hosts_of(args: &HostArgs) -> Result<(Vec<Host>, Vec<String>), CliError> {
    let mut hosts = Vec::new();
    let unusable = host::each(args, |opened| {
        hosts.push(host(opened));
        Ok(())
    })?;
    // Results are not measured on a demo host.
    if args.demo.is_some() {
        hosts.iter_mut().for_each(|host| host.gpus = None);
    }
    Ok((hosts, unusable))
}

/// Reads the links, GPUs and name of a host.
fn host(opened: &OpenHost) -> Host {
    let hostname = opened.reader.attribute(HOSTNAME).ok().filter(|name| !name.is_empty());
    let facts = opened.facts(Depth::Thorough);
    let of_gpus = |tree: &PciTree| {
        tree.functions.values().filter(|one| one.is_gpu()).map(|one| one.address).collect()
    };
    Host {
        name: match (&hostname, &opened.file) {
            (Some(name), Some(file)) => format!("{name} ({file})"),
            (Some(name), None) => name.clone(),
            (None, _) => opened.snapshot.clone().unwrap_or_else(|| "this host".to_owned()),
        },
        hostname,
        links: links(opened, &facts),
        gpus: facts.pci.known().map(of_gpus),
    }
}

fn links(opened: &OpenHost, facts: &Facts) -> Links {
    let unknown = match &facts.pci {
        Reading::Known(tree) => {
            let mut ports = ports::of_host(opened.reader.as_ref(), tree);
            if ports.is_empty() {
                ports = ports::of_plugins(opened.reader.as_ref(), tree);
            }
            let library = Library::of_host(facts);
            let (_, newest) = library.versions();
            let reach = host_advice::gdr_reach(facts, library, newest);
            let links = sorted(&ports, tree, reach);
            // Data reaches the GPU of a superchip over NVLink-C2C.
            let by_pcie = matches!(superchip(facts), Superchip::No);
            let gpus = if by_pcie { gpus(tree) } else { Vec::new() };
            let machine = Machine::of_host(facts, tree, &ports, reach);
            return Links { gpus, drives: drives(tree), machine, ..links };
        }
        Reading::Absent => "this host has no PCI bus".to_owned(),
        Reading::Unknown(why) => format!("cannot read PCI devices: {why}"),
    };
    Links { unknown: Some(unknown), ..Links::default() }
}

/// Returns the links of NVMe drives, or `None` if one is unknown.
fn drives(tree: &PciTree) -> Option<Vec<Pcie>> {
    let drives = tree.functions.values().filter(|function| function.class == NVME);
    drives.map(|drive| pcie(tree, drive)).collect()
}

/// Returns the links of the GPUs; empty if one is unknown. Uses the maximum speed, because an idle GPU slows its link
/// down.
fn gpus(tree: &PciTree) -> Vec<Pcie> {
    let gpus = tree.functions.values().filter(|function| function.is_gpu() && !function.vfio);
    let link = |gpu: &Function| {
        let above = tree.get(gpu.parent?)?;
        Some(Pcie { speed: pcie_link::speed(gpu, above).best?, ..pcie(tree, gpu)? })
    };
    gpus.map(link).collect::<Option<Vec<Pcie>>>().unwrap_or_default()
}

/// Returns the link of a function, or `None` if it is unknown.
fn pcie(tree: &PciTree, function: &Function) -> Option<Pcie> {
    let above = tree.get(function.parent?)?;
    let control = function.detail.as_ref().and_then(|detail| detail.control.known());
    let (speed, width) = (pcie_link::speed(function, above), pcie_link::width(function, above));
    let is_degraded = speed.is_degraded() || width.is_degraded();
    Some(Pcie {
        address: function.address.to_string(),
        speed: speed.now?,
        lanes: width.now?,
        best: speed.best.zip(width.best).filter(|_| is_degraded),
        payload: control.map(|control| control.max_payload),
    })
}

fn sorted(ports: &[PlacedPort], tree: &PciTree, reach: Distance) -> Links {
    let unknown = ports.iter().find_map(|PlacedPort { port, .. }| match &port.state {
        Reading::Unknown(why) => Some(format!("state of port {} is unknown: {why}", port.name)),
        _ => None,
    });
    let (chosen, undecided) = match carrying(ports, reach) {
        Ok(chosen) => (chosen, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    Links {
        chosen: grouped(chosen.into_iter(), tree),
        all: grouped(ports.iter().filter(|one| one.port.is_active()), tree),
        unknown: unknown.or(undecided),
        ..Links::default()
    }
}

/// Groups ports by the link that they share.
fn grouped<'p>(ports: impl Iterator<Item = &'p PlacedPort>, tree: &PciTree) -> Vec<Nic> {
    let mut nics: BTreeMap<PciAddress, Nic> = BTreeMap::new();
    for PlacedPort { port, way, .. } in ports {
        // Functions of one device share its link.
        let nic = nics.entry(PciAddress { function: 0, ..*way }).or_insert_with(|| {
            let pcie = tree.get(*way).and_then(|function| pcie(tree, function));
            Nic { ports: Vec::new(), pcie }
        });
        let rate = port.gigabits();
        let ethernet = port.is_ethernet();
        nic.ports.push(Port { name: port.name.clone(), rate, ethernet });
    }
    nics.into_values().collect()
}
