//! What kinds contribute to the image of a machine that bedplate does not run on: kernel arguments, files, settings, in no
//! target's own terms. `render` turns them into the formats of others.

use crate::desired::{KernelArg, SriovRule, WantedVfs};
use bedplate_base::value::ModuleName;

/// What all kinds contribute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageConfig {
    /// Name of the profile, for the heading of every file.
    pub profile: String,
    /// Digest of the profile and version of bedplate, for the heading of files that only `render` writes. Files that
    /// bedplate writes to hosts, too, are without it: they would change with every release.
    pub stamp: Option<String>,
    /// How NICs register the memory of NVIDIA GPUs; `None`: not asked for.
    pub gpudirect: Option<GpuDirectWay>,
    /// Kernel arguments, in order.
    pub arguments: Vec<KernelArg>,
    /// Kernel arguments that must not be there, in order.
    pub absent: Vec<KernelArg>,
    /// Configuration files.
    pub files: Vec<ConfigFile>,
    /// What NCCL is told, by name, for targets that are jobs and no hosts.
    pub nccl: Vec<(String, String)>,
    /// Rules that make VFs, in order: the first one that selects a PF has it.
    pub vfs: Vec<SriovRule>,
    /// Their VFs on the host that the profile was resolved against; none where there is no host.
    pub vfs_of_host: Vec<WantedVfs>,
    /// Who makes them: another program or an operator, in the place of bedplate.
    pub vfs_are_external: bool,
    /// Settings that only a running host can take, or decide.
    pub live_only: Vec<LiveOnly>,
    /// What the operator has to know, whatever the target.
    pub notes: Vec<String>,
}

/// How NICs register the memory of NVIDIA GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuDirectWay {
    /// The way.
    pub way: Registration,
    /// Whether the profile or the machine has decided. Otherwise it depends on the machine's driver and kernel, and `way` is the
    /// one of a machine with current software.
    pub is_decided: bool,
}

/// The way by which a NIC gets at the memory of an NVIDIA GPU (handbook §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registration {
    /// DMA-BUF: open kernel modules, and no module to load.
    DmaBuf,
    /// The legacy module nvidia_peermem, on an ib_core of MLNX_OFED or DOCA-OFED.
    Peermem,
}

/// A configuration file, and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    /// Absolute path.
    pub path: &'static str,
    /// Content, with the heading.
    pub text: String,
    /// The same for a target that takes settings in place of files. Empty: it can only be had as a file.
    pub settings: Vec<Setting>,
}

/// One thing that a configuration file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// A module is loaded at boot.
    LoadModule(ModuleName),
    /// A module gets a parameter when it is loaded.
    ModuleOption {
        /// The module.
        module: ModuleName,
        /// The parameter.
        parameter: String,
        /// Its value, as modprobe.d takes it.
        value: String,
    },
    /// A module is not loaded by alias.
    BlacklistModule(ModuleName),
    /// A kernel parameter below /proc/sys.
    Sysctl {
        /// By the rule of sysctl.d(5).
        key: String,
        /// Its value.
        value: String,
    },
}

/// Something that lasts until the next reset or boot, or that depends on the machine, so that no file can hold it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveOnly {
    /// Name for programs: `acs/0000:17:01.0`.
    pub id: String,
    /// Wanted state.
    pub what: String,
    /// Why no file can hold it.
    pub why: String,
    /// What to do on a host that bedplate can run on.
    pub with_agent: String,
    /// What to do on a host that takes no programs.
    pub without_agent: String,
}

/// Why a kind cannot put into words what the profile asks of it.
#[derive(Debug, thiserror::Error)]
#[error("{what} cannot be written")]
pub struct ContributeError {
    what: &'static str,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl ContributeError {
    /// `what`, because of `source`.
    pub fn new(what: &'static str, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        ContributeError { what, source: Box::new(source) }
    }
}

impl ImageConfig {
    /// The rules by which bedplate itself, or what a target puts in its place, makes VFs.
    pub fn own_vfs(&self) -> impl Iterator<Item = &SriovRule> {
        self.vfs.iter().filter(|_| !self.vfs_are_external)
    }

    /// Kernel arguments that must not be there.
    pub fn absent_tokens(&self) -> impl Iterator<Item = &str> {
        self.absent.iter().map(|unwanted| unwanted.token.as_str())
    }

    /// What all the files say.
    pub fn settings(&self) -> impl Iterator<Item = &Setting> {
        self.files.iter().flat_map(|file| &file.settings)
    }
}
