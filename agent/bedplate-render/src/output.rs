//! Input and output of a target: options, files, and inexpressible items.

use crate::nccl_job::job::Job;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use bedplate_base::{Arch, CpuVendor};
use bedplate_cmdline::boot::grub_quote::GrubQuoteError;
use bedplate_cmdline::{ApplyError, EditError};
use bedplate_core::file_heading;
use bedplate_core::image_config::ContributeError;
use bedplate_core::kind::sriov;
use bedplate_facts::boot::{DEBIAN, RED_HAT};
use bedplate_facts::{BootLoader, Facts};

/// Mode of a plain file.
pub(crate) const FILE_MODE: u32 = 0o644;
/// Mode of a script.
pub(crate) const SCRIPT_MODE: u32 = 0o755;

bedplate_base::named! {
    /// Conventions of GRUB's configuration.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
    pub enum GrubFamily {
        /// `/etc/default/grub.d/*.cfg` is read (handbook §10.1).
        #[default]
        Debian = "debian",
        /// BLS entries changed through grubby; `grub.d` is not read (handbook §10.3).
        Rhel = "rhel",
    }
}

impl GrubFamily {
    /// Returns the family of a host or image. `None` if it is neither, if it is unknown, or if another boot loader has
    /// the kernel arguments.
    pub fn from_facts(facts: &Facts) -> Option<Self> {
        match &facts.boot {
            BootLoader::GrubDebian => Some(GrubFamily::Debian),
            BootLoader::GrubRhel | BootLoader::GrubBls => Some(GrubFamily::Rhel),
            // No boot loader was recognised: it may be added to the image later.
            BootLoader::Unknown { .. } if facts.os.is_any(&DEBIAN) => Some(GrubFamily::Debian),
            BootLoader::Unknown { .. } if facts.os.is_any(&RED_HAT) => Some(GrubFamily::Rhel),
            _ => None,
        }
    }
}

/// Addresses for the VFs of a rule, or of all rules without a range of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpamRange {
    /// Name of the rule; `None`: all.
    pub rule: Option<String>,
    /// Network, as `192.0.2.0/24`.
    pub cidr: String,
}

/// Settings for targets in addition to the contributions. Each target reads only those that it uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Architecture of the machines: some parameters have a meaning on one only.
    pub arch: Arch,
    /// Vendor of their CPUs, if known.
    pub cpu: Option<CpuVendor>,
    /// The merged profile as TOML: for targets whose hosts run bedplate, and for the digest in headings.
    pub profile_text: Option<String>,
    /// GRUB's family.
    pub grub_family: GrubFamily,
    /// Whether VFs are rendered for the PCI addresses of the host that the profile was resolved against, instead of the
    /// selectors of their rules.
    pub pin_addresses: bool,
    /// Talos release (`1.11`, `v1.11.6`); the format depends on it.
    pub talos_version: Option<String>,
    /// Official Talos system extensions for the schematic (`siderolabs/gvisor`), in this order.
    pub talos_extensions: Vec<String>,
    /// MachineConfig role (machine config pool).
    pub role: String,
    /// Addresses for VFs, of `sriov-operator`; empty: no networks.
    pub ipam_ranges: Vec<IpamRange>,
    /// The job of `nccl-job`.
    pub job: Job,
}

impl Default for Options {
    /// x86-64, no text of the profile, Debian family, no addresses, role `worker`, no Talos release, [`Job::default`].
    fn default() -> Options {
        Options {
            arch: Arch::X86_64,
            cpu: None,
            profile_text: None,
            grub_family: GrubFamily::default(),
            pin_addresses: false,
            talos_version: None,
            talos_extensions: Vec::new(),
            role: "worker".to_owned(),
            ipam_ranges: Vec::new(),
            job: Job::default(),
        }
    }
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutFile {
    /// Path below the output directory. A path that starts with `etc/` is also the path in the image.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    /// Content.
    pub text: String,
}

impl OutFile {
    /// Returns a plain file.
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> OutFile {
        OutFile { path: path.into(), mode: FILE_MODE, text: text.into() }
    }
}

/// A desired setting that the target cannot express.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inexpressible {
    /// Machine-readable id, the same for every target: `cmdline/iommu`, `modules/nouveau`, `sriov/compute`, `acs`.
    pub id: String,
    /// Desired state.
    pub what: String,
    /// Why it cannot be expressed.
    pub why: String,
    /// Fix.
    pub instead: String,
}

impl Inexpressible {
    /// Whether it is the VFs of a rule, and not one of their attributes.
    pub fn is_of_vfs(&self) -> bool {
        let of_rule = self.id.strip_prefix(sriov::NAME.name());
        of_rule.is_some_and(|rest| rest.starts_with('/') || rest.starts_with(".resource/"))
    }
}

/// A desired setting that bedplate applies on the machine, from the profile among the files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Deferred {
    /// As [`Inexpressible::id`].
    pub id: String,
    /// Desired state.
    pub what: String,
    /// Why no file holds it.
    pub why: String,
}

/// Result of a target.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RenderResult {
    /// Files.
    pub files: Vec<OutFile>,
    /// Desired settings that are not in the files.
    #[serde(rename = "not_expressible")]
    pub inexpressible: Vec<Inexpressible>,
    /// Items deferred to bedplate on the machine.
    pub deferred: Vec<Deferred>,
    /// Notes for users of the files.
    pub notes: Vec<String>,
}

impl RenderResult {
    /// Adds the result of another part of the target.
    pub(crate) fn add(&mut self, other: RenderResult) {
        self.files.extend(other.files);
        self.inexpressible.extend(other.inexpressible);
        self.deferred.extend(other.deferred);
        self.notes.extend(other.notes);
    }

    /// Returns the file at `path`.
    pub fn file(&self, path: &str) -> Option<&OutFile> {
        self.files.iter().find(|file| file.path == path)
    }
}

/// Reason why rendering failed.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// An option, or a value of the profile, that the target does not support. Holds the complete message.
    #[error("{0}")]
    Refused(String),
    /// The required arguments contradict each other.
    #[error("conflicting kernel arguments in the profile")]
    Cmdline(#[from] EditError),
    /// The arguments together are not a line that the kernel reads whole.
    #[error("the profile's kernel arguments do not fit on one line")]
    Line(#[from] ApplyError),
    /// A kernel argument that GRUB would change.
    #[error("GRUB cannot carry the profile's kernel arguments")]
    Grub(#[from] GrubQuoteError),
    /// A value that its file cannot hold.
    #[error(transparent)]
    Kind(#[from] ContributeError),
    /// A list of arguments that cannot be written as TOML.
    #[error("cannot write the kernel arguments as TOML")]
    Toml(#[from] toml::ser::Error),
    /// The YAML library reported an error.
    #[error("cannot write {document} as YAML")]
    Yaml {
        /// The document.
        document: &'static str,
        /// The cause.
        source: Box<serde_saphyr::ser::Error>,
    },
}

impl RenderError {
    /// Creates the error for a kernel argument that no loader can carry.
    pub(crate) fn bad_argument(token: &str, why: &str) -> Self {
        Self::Refused(format!(
            "cannot render kernel argument {token:?}: {why}; change it in [cmdline]"
        ))
    }
}

/// Whether a file at one of a target's paths belongs to bedplate: by its heading in the first lines, or by its name if
/// the format has no comments.
pub fn is_ours(path: &str, text: &str) -> bool {
    path.ends_with("bedplate.ign") || file_heading::head(text).any(file_heading::is_heading)
}

/// Whether a Talos schematic was written together with the id in the file next to it: neither has a heading.
pub fn is_with_its_id(schematic: &str, id: &str) -> bool {
    digest(schematic) == id.trim_end()
}

/// Returns the SHA-256 of the merged profile, in hexadecimal. Equal digests mean equal merged profiles, from any source
/// files.
pub fn digest(profile_text: &str) -> String {
    Sha256::digest(profile_text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn stamp(profile_text: &str) -> String {
    format!("profile sha256:{}, bedplate {}", digest(profile_text), env!("CARGO_PKG_VERSION"))
}
