//! One profile file as TOML has it: strings are still strings, and every value knows its bytes.
//!
//! These types are the single source of the file format: serde reads through them, and the JSON Schema, `explain`
//! and the finding of unknown keys and wrong types all come from their doc comments and attributes.
//! The doc comments here are read by operators, in their editor and in `bedplate profile explain`.

mod at;
mod entry;
mod host;
mod kinds;

use schemars::JsonSchema;
use serde::Deserialize;

pub(super) use at::At;
pub(super) use entry::{ArgEntry, Entry, ModuleEntry, OptionEntry, Scalar};
pub(super) use host::{AgentFragment, MatchFragment, MatchPciFragment, MatchWord, RebootFragment};
pub(super) use kinds::{
    AcsFragment, CmdlineFragment, DeviceFragment, IommuFragment, ModulesFragment, SelectFragment,
    SriovFragment, Vfs, VfsWord,
};

/// The schema version that this bedplate reads.
pub(super) const SCHEMA_VERSION: i64 = 1;

/// What a host is to be like, for GPUDirect RDMA. Files are merged in this order: the shipped profiles named by
/// `extends`, the profile itself, then the files of `profile.d` by name. A later file replaces single values, and
/// entries of lists by their name.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "bedplate profile")]
pub(super) struct Fragment {
    /// Version of this file format.
    #[schemars(extend("const" = SCHEMA_VERSION), example = 1)]
    #[expect(dead_code, reason = "checked before this type is read; here for the schema")]
    pub schema: u32,

    /// What the profile is called in plans and reports. Not inherited. Default: the file's name without `.toml`.
    #[schemars(length(min = 1), example = &"hgx-h100-prod")]
    pub name: Option<At<String>>,

    /// One line for people. Not inherited.
    #[schemars(extend("default" = ""), example = &"8 x H100 with ConnectX-7 on the same switches")]
    pub description: Option<At<String>>,

    /// A shipped profile to start from. `bedplate profile list` names them. Only the profile itself may say this, not
    /// a file in profile.d.
    #[schemars(example = &"hgx-h100")]
    pub extends: Option<At<String>>,

    /// Which machines the profile is for. Every condition must hold; the profile with the most specific conditions is
    /// chosen: PCI ids before DMI names, those before CPU and architecture. A profile without conditions is only used
    /// when it is named. Not inherited through `extends`. The word `"auto"` instead: /etc/bedplate/profile.toml is laid over
    /// the shipped profile that fits the hardware best.
    #[serde(rename = "match")]
    pub matching: Option<Entry<MatchWord, MatchFragment>>,

    /// How the IOMMU treats the DMA of host drivers. bedplate turns this into the parameters that the CPU and the
    /// kernel of the host need.
    pub iommu: Option<IommuFragment>,

    /// Kernel arguments. The profile owns the parameters it names and nothing else on the line.
    pub cmdline: Option<CmdlineFragment>,

    /// Kernel modules: what is loaded, kept out, and with which parameters.
    pub modules: Option<ModulesFragment>,

    /// PCIe Access Control Services: whether traffic between a GPU and a NIC below one switch may go straight through
    /// it, or is sent up to the root complex.
    pub acs: Option<AcsFragment>,

    /// Virtual functions of network cards.
    pub sriov: Option<SriovFragment>,

    /// What to do when a change needs the machine to start again.
    pub reboot: Option<RebootFragment>,

    /// The bedplate daemon itself.
    pub agent: Option<AgentFragment>,
}
