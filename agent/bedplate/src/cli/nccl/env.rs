//! `bedplate nccl env`: derives NCCL settings from the ports of a host.

use clap::Args;

use crate::cli::words::{Word, one_of};
use crate::cli::{CliError, Exit, HostArgs, host, output};
use crate::report::nccl::{self, Form};
use bedplate_base::Reading;
use bedplate_facts::Depth;
use bedplate_nccl::host_advice::advise_host;
use bedplate_nccl::{Library, Version};

/// `bedplate nccl env`.
#[derive(Debug, Args)]
#[command(
    after_help = "Put the output into /etc/nccl.conf of the host (RCCL: /etc/rccl.conf) or into the job. Variables set by the job override the file.\n\n\
Exit status: 0 printed; 4 no RDMA port is ACTIVE, or two link layers are equal; 5 ports or PCI devices could not be read; 1 error; 64 usage."
)]
pub(crate) struct EnvArgs {
    #[command(flatten)]
    host: HostArgs,
    /// Output format. Default: the library's configuration file; a shell script if it reads none (oneCCL).
    #[arg(long, value_parser = one_of(&FORMATS))]
    format: Option<Form>,
    /// Library. Default: by the vendor of the host's GPUs.
    #[arg(long, value_parser = one_of(&LIBRARIES))]
    library: Option<Library>,
    /// Version of the library; names and defaults differ. Default: the newest supported (NCCL 2.30, RCCL 2.30, oneCCL
    /// 2021.14).
    #[arg(long, visible_alias = "library-version", value_name = "VERSION")]
    nccl_version: Option<Version>,
    /// Also list commonly recommended variables this host does not need, with reasons.
    #[arg(long, short)]
    verbose: bool,
    /// Print JSON (schema: `bedplate nccl env --json-schema`).
    #[arg(long)]
    json: bool,
    /// Print the JSON Schema of `--json` and exit.
    #[arg(long, exclusive = true)]
    json_schema: bool,
}

/// Names of the libraries.
pub(crate) const LIBRARIES: [Word<Library>; 3] = [
    ("nccl", "NVIDIA's", Library::Nccl),
    ("rccl", "AMD's", Library::Rccl),
    ("oneccl", "Intel's", Library::OneCcl),
];

const FORMATS: [Word<Form>; 4] = [
    ("conf", "/etc/nccl.conf, or /etc/rccl.conf", Form::Conf),
    ("sh", "A shell", Form::Shell),
    ("k8s", "The env list of a container", Form::Kubernetes),
    ("slurm", "A TaskProlog script of Slurm", Form::Slurm),
];

/// Runs the command.
pub(crate) fn run(args: &EnvArgs) -> Result<Exit, CliError> {
    if args.json_schema {
        return output::data(nccl::SCHEMA).map(|()| Exit::Done);
    }
    args.host.needs_machine("a root directory has no RDMA ports")?;
    let opened = host::open_one(&args.host)?;
    let facts = opened.facts(Depth::Thorough);
    let library = args.library.unwrap_or_else(|| Library::of_host(&facts));
    let version = version(library, args.nccl_version)?;
    let format = match (args.format, library.file(version)) {
        (Some(Form::Conf), None) => {
            return Err(CliError::new(format!("{library} does not read a configuration file"))
                .hinting("use --format sh, k8s or slurm"));
        }
        (Some(format), _) => format,
        (None, Some(_)) => Form::Conf,
        (None, None) => Form::Shell,
    };
    let advice = match advise_host(opened.reader.as_ref(), &facts, library, version) {
        Reading::Known(advice) => advice,
        Reading::Absent => return Err(CliError::new("this host has no PCI bus")),
        Reading::Unknown(why) => {
            output::warn(&format!("cannot read PCI devices: {why}"));
            return Ok(Exit::CannotTell);
        }
    };
    match args.json {
        true => output::json(&nccl::document(&advice))?,
        false => output::data(&nccl::text(&advice, format, args.verbose))?,
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

/// Returns the requested version, or the newest supported version.
pub(crate) fn version(library: Library, asked: Option<Version>) -> Result<Version, CliError> {
    let asked = asked.map(|version| library.covers(version)).transpose();
    let asked = asked.map_err(|error| {
        CliError::new(error.to_string()).hinting("select the version's library with --library")
    })?;
    Ok(asked.unwrap_or(library.versions().1))
}
