//! Configuration of an image for a machine that bedplate does not run on: kernel arguments, files, and settings of all
//! resource types, independent of the target. `render` converts them to the formats of other tools.

use crate::desired::{KernelArg, SriovRule, WantedVfs};
use bedplate_base::value::ModuleName;

/// Contributions of all resource types.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageConfig {
    /// Name of the profile, for the heading of every file.
    pub profile: String,
    /// Digest of the profile and version of bedplate, for the heading of files that only `render` writes. Files that
    /// bedplate also writes to hosts omit it: they would change with every release.
    pub stamp: Option<String>,
    /// How NICs register the memory of NVIDIA GPUs; `None`: not requested.
    pub gpudirect: Option<GpuDirectWay>,
    /// Kernel arguments, in order.
    pub arguments: Vec<KernelArg>,
    /// Kernel arguments that must be absent, in order.
    pub absent: Vec<KernelArg>,
    /// Configuration files.
    pub files: Vec<ConfigFile>,
    /// NCCL variables by name, for targets that are jobs instead of hosts.
    pub nccl: Vec<(String, String)>,
    /// Rules for VFs, in order: the first one that selects a PF applies.
    pub vfs: Vec<SriovRule>,
    /// VFs of these rules on the host that the profile was resolved against; empty without a host.
    pub vfs_of_host: Vec<WantedVfs>,
    /// Whether another program or an operator creates the VFs instead of bedplate.
    pub vfs_are_external: bool,
    /// Settings that only a running host can apply, or decide.
    pub live_only: Vec<LiveOnly>,
    /// Notes for the operator, for any target.
    pub notes: Vec<String>,
}

/// How NICs register the memory of NVIDIA GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuDirectWay {
    /// Method of registration.
    pub way: Registration,
    /// Whether the profile or the machine determines it. Otherwise it depends on the machine's driver and kernel, and
    /// `way` is that of a machine with current software.
    pub is_decided: bool,
}

/// Method by which a NIC accesses the memory of an NVIDIA GPU (handbook §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registration {
    /// DMA-BUF: open kernel modules, and no module to load.
    DmaBuf,
    /// The legacy module nvidia_peermem, on an ib_core of MLNX_OFED or DOCA-OFED.
    Peermem,
}

/// A configuration file and its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    /// Absolute path.
    pub path: &'static str,
    /// Content, with the heading.
    pub text: String,
    /// Its settings, for a target that takes settings instead of files. Empty: available only as a file.
    pub settings: Vec<Setting>,
}

/// A setting of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// Loads a module at boot.
    LoadModule(ModuleName),
    /// Sets a module's parameter when it is loaded.
    ModuleOption {
        /// Name of the module.
        module: ModuleName,
        /// Name of the parameter.
        parameter: String,
        /// Value in the syntax of modprobe.d.
        value: String,
    },
    /// Prevents loading of a module by alias.
    BlacklistModule(ModuleName),
    /// A kernel parameter below /proc/sys.
    Sysctl {
        /// Key in the syntax of sysctl.d(5).
        key: String,
        /// Value of the parameter.
        value: String,
    },
}

/// A setting that lasts until the next reset or boot, or depends on the machine, so that no file can contain it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveOnly {
    /// Name for programs: `acs/0000:17:01.0`.
    pub id: String,
    /// Desired state.
    pub what: String,
    /// Reason why no file can contain it.
    pub why: String,
    /// Procedure on a host that can run bedplate.
    pub with_agent: String,
    /// Procedure on a host that cannot run programs.
    pub without_agent: String,
}

/// Reason why a resource type cannot express the profile's settings.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {what}")]
pub struct ContributeError {
    what: &'static str,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl ContributeError {
    /// Creates an error about `what`, caused by `source`.
    pub fn new(what: &'static str, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        ContributeError { what, source: Box::new(source) }
    }
}

impl ImageConfig {
    /// Returns the rules for VFs that bedplate, or its replacement on a target, creates.
    pub fn own_vfs(&self) -> impl Iterator<Item = &SriovRule> {
        self.vfs.iter().filter(|_| !self.vfs_are_external)
    }

    /// Returns the kernel arguments that must be absent.
    pub fn absent_tokens(&self) -> impl Iterator<Item = &str> {
        self.absent.iter().map(|unwanted| unwanted.token.as_str())
    }

    /// Returns the settings of all files.
    pub fn settings(&self) -> impl Iterator<Item = &Setting> {
        self.files.iter().flat_map(|file| &file.settings)
    }
}
