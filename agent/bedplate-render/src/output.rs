//! What a target is given and what it returns: options, files, and what it cannot say.

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
    /// Which conventions GRUB's configuration follows.
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
    /// That of a host or image. `None`: of neither, not known, or something else than GRUB keeps its kernel arguments.
    pub fn from_facts(facts: &Facts) -> Option<Self> {
        match &facts.boot {
            BootLoader::GrubDebian => Some(GrubFamily::Debian),
            BootLoader::GrubRhel | BootLoader::GrubBls => Some(GrubFamily::Rhel),
            // Nothing was recognised: an image whose boot loader comes later.
            BootLoader::Unknown { .. } if facts.os.is_any(&DEBIAN) => Some(GrubFamily::Debian),
            BootLoader::Unknown { .. } if facts.os.is_any(&RED_HAT) => Some(GrubFamily::Rhel),
            _ => None,
        }
    }
}

/// What a target may need to know besides what the kinds contribute. Each reads what concerns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Architecture of the machines: some parameters mean something on one only.
    pub arch: Arch,
    /// Vendor of their CPUs, where it is known.
    pub cpu: Option<CpuVendor>,
    /// The merged profile as TOML: for targets whose hosts run bedplate, and what the digest in headings is made of.
    pub profile_text: Option<String>,
    /// GRUB's family.
    pub grub_family: GrubFamily,
    /// Whether VFs are for the PCI addresses of the host that the profile was resolved against, in place of what their rules
    /// select.
    pub pin_addresses: bool,
    /// Talos release (`1.11`, `v1.11.6`); the format depends on it.
    pub talos_version: Option<String>,
    /// Official Talos system extensions for the schematic (`siderolabs/gvisor`), in this order.
    pub talos_extensions: Vec<String>,
    /// MachineConfig role (machine config pool).
    pub role: String,
    /// The benchmark of `nccl-job`.
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
            job: Job::default(),
        }
    }
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutFile {
    /// Path below the output directory. A path that starts with `etc/` is where the file belongs in the image.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    /// Content.
    pub text: String,
}

impl OutFile {
    /// A plain file.
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> OutFile {
        OutFile { path: path.into(), mode: FILE_MODE, text: text.into() }
    }
}

/// Something wanted that the target cannot express.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inexpressible {
    /// Name for programs, the same for every target: `cmdline/iommu`, `modules/nouveau`, `sriov/compute`, `acs`.
    pub id: String,
    /// Wanted state.
    pub what: String,
    /// Why it cannot be said.
    pub why: String,
    /// Remedy.
    pub instead: String,
}

impl Inexpressible {
    /// Whether it is the VFs of a rule, and no attribute of theirs.
    pub fn is_of_vfs(&self) -> bool {
        let of_rule = self.id.strip_prefix(sriov::NAME.name());
        of_rule.is_some_and(|rest| rest.starts_with('/') || rest.starts_with(".resource/"))
    }
}

/// Something wanted that bedplate does on the machine, by the profile that the files bring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Deferred {
    /// As [`Inexpressible::id`].
    pub id: String,
    /// Wanted state.
    pub what: String,
    /// Why no file holds it.
    pub why: String,
}

/// What a target made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RenderResult {
    /// Files.
    pub files: Vec<OutFile>,
    /// What is wanted and not in the files.
    #[serde(rename = "not_expressible")]
    pub inexpressible: Vec<Inexpressible>,
    /// Items that are left to bedplate on the machine.
    pub deferred: Vec<Deferred>,
    /// What users of the files have to know.
    pub notes: Vec<String>,
}

impl RenderResult {
    /// Takes over what another part of the target made.
    pub(crate) fn add(&mut self, other: RenderResult) {
        self.files.extend(other.files);
        self.inexpressible.extend(other.inexpressible);
        self.deferred.extend(other.deferred);
        self.notes.extend(other.notes);
    }

    /// The file at `path`.
    pub fn file(&self, path: &str) -> Option<&OutFile> {
        self.files.iter().find(|file| file.path == path)
    }
}

/// Why nothing could be rendered.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// An option, or a value of the profile, that the target cannot take: the whole sentence.
    #[error("{0}")]
    Refused(String),
    /// The wanted arguments contradict each other.
    #[error("the kernel arguments of the profile make no sense as a whole")]
    Cmdline(#[from] EditError),
    /// Together they are not a line that the kernel would read whole.
    #[error("the kernel arguments of the profile cannot be put on one line")]
    Line(#[from] ApplyError),
    /// A kernel argument that GRUB would change.
    #[error("the kernel arguments of the profile do not come through GRUB")]
    Grub(#[from] GrubQuoteError),
    /// A value that the file it belongs into cannot carry.
    #[error(transparent)]
    Kind(#[from] ContributeError),
    /// A list of arguments that cannot be written as TOML.
    #[error("the kernel arguments cannot be written as TOML")]
    Toml(#[from] toml::ser::Error),
    /// The YAML library refused.
    #[error("{document} cannot be written as YAML")]
    Yaml {
        /// Which document.
        document: &'static str,
        /// Why.
        source: Box<serde_saphyr::ser::Error>,
    },
}

impl RenderError {
    /// A kernel argument that no loader can carry, and why.
    pub(crate) fn bad_argument(token: &str, why: &str) -> Self {
        Self::Refused(format!(
            "kernel argument {token:?} cannot be rendered: {why}; change it in [cmdline]"
        ))
    }
}

/// Whether a file at one of a target's paths is bedplate's: by its heading, which stands in the first lines, or because the
/// format has no comments and the name is bedplate's own.
pub fn is_ours(path: &str, text: &str) -> bool {
    path.ends_with("bedplate.ign") || file_heading::head(text).any(file_heading::is_heading)
}

/// Whether a Talos schematic was written together with the id in the file beside it: neither has a heading.
pub fn is_with_its_id(schematic: &str, id: &str) -> bool {
    digest(schematic) == id.trim_end()
}

/// SHA-256 of the merged profile, in hexadecimal: files with the same one say the same, whichever files made it.
pub fn digest(profile_text: &str) -> String {
    Sha256::digest(profile_text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn stamp(profile_text: &str) -> String {
    format!("profile sha256:{}, bedplate {}", digest(profile_text), env!("CARGO_PKG_VERSION"))
}
