//! The profile's root table: the keys outside of sections, and a row for each section. A kind's own section is declared in
//! the kind's folder; what it needs here is its row.
//!
//! Each file is read into a [`ProfileFile`]; all of them together are checked and merged into a [`Profile`]. The doc
//! comments here are read by operators, in their editor and in `bedplate profile explain`.

use serde::{Deserialize, Serialize};

use super::sections;
use super::sections::matching::{Match, MatchFile, MatchWord};
use crate::section::{
    Check, Checked, Checker, Entry, Fault, InFile, Plain, Printer, Section, Spanned, read_key,
};
use bedplate_base::value::PciId;

/// The schema version that this bedplate reads.
pub(super) const SCHEMA_VERSION: i64 = 1;

/// Makes the root table of its sections, in the order in which `profile show` writes them.
macro_rules! root {
    ($(
        $(#[doc = $doc:tt])*
        $name:ident: $section:path;
    )*) => {
        /// What a host is to be like, for GPUDirect RDMA. Files are merged in this order: the shipped profiles named by
        /// `extends`, the profile itself, then the files of `profile.d` by name. A later file replaces single values, and
        /// entries of lists by their name.
        #[derive(Debug, Clone, Deserialize)]
        #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        #[cfg_attr(feature = "schemars", schemars(title = "bedplate profile"))]
        pub(super) struct ProfileFile {
            /// Version of this file format.
            #[cfg_attr(feature = "schemars", schemars(extend("const" = SCHEMA_VERSION), example = 1))]
            #[expect(dead_code, reason = "checked before this type is read; here for the schema")]
            pub schema: u32,

            /// What the profile is called in plans and reports. Not inherited. Default: the file's name without `.toml`.
            #[cfg_attr(feature = "schemars", schemars(length(min = 1), example = &"hgx-h100-prod"))]
            pub name: InFile<Checked<Name>>,

            /// One line for people. Not inherited.
            #[cfg_attr(feature = "schemars", schemars(
                extend("default" = ""),
                example = &"8 x H100 with ConnectX-7 on the same switches"
            ))]
            pub description: InFile<Plain<String>>,

            /// A shipped profile to start from. `bedplate profile list` names them. Only the profile itself may say this, not
            /// a file in profile.d.
            #[cfg_attr(feature = "schemars", schemars(example = &"hgx-h100"))]
            pub extends: Option<Spanned<String>>,

            /// Which machines the profile is for. Every condition must hold; the profile with the most specific conditions is
            /// chosen: PCI ids before DMI names, those before CPU and architecture. A profile without conditions is only used
            /// when it is named. Not inherited through `extends`. The word `"auto"` instead: /etc/bedplate/profile.toml is
            /// laid over the shipped profile that fits the hardware best.
            #[serde(rename = "match")]
            pub matching: Option<Entry<MatchWord, MatchFile>>,

            $( $(#[doc = $doc])* pub $name: Option<<$section as Section>::File>, )*
        }

        /// A whole profile, typed, merged and valid: what the operator declared, nothing resolved.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        pub struct Profile {
            /// `name`, by default the file's stem.
            pub name: String,
            /// One line for people.
            pub description: String,
            /// Which machines it is for.
            pub matching: Match,
            $( $(#[doc = $doc])* pub $name: $section, )*
        }

        impl Profile {
            /// Checks and merges files; a later one has the last word. `stem` names the profile when no file does.
            pub(super) fn read(
                mut files: Vec<ProfileFile>,
                stem: &str,
                checker: &mut Checker<'_>,
            ) -> Self {
                let name = files.iter_mut().map(|file| file.name.take());
                let name = read_key::<Checked<Name>>(checker, "name", name);
                let description = files.iter_mut().map(|file| file.description.take());
                let description = read_key::<Plain<String>>(checker, "description", description);
                let conditions = files.iter_mut().filter_map(|file| match file.matching.take()? {
                    Entry::Long(section) => Some(section),
                    // Which profile it is laid over is chosen where profiles are read.
                    Entry::Short(MatchWord::Auto) => None,
                });
                Profile {
                    name: name.unwrap_or_else(|| stem.to_owned()),
                    description: description.unwrap_or_default(),
                    matching: Match::read(conditions.collect(), checker),
                    $( $name: Section::read(
                        files.iter_mut().filter_map(|file| file.$name.take()).collect(),
                        checker,
                    ), )*
                }
            }

            /// Writes it as TOML.
            pub(super) fn show(&self, out: &mut Printer<'_>) {
                out.line("schema = 1", None);
                out.scalar("name", &self.name);
                out.scalar("description", &self.description);
                self.matching.show(out);
                $( self.$name.show(out); )*
            }
        }
    };
}

root! {
    /// How the IOMMU treats the DMA of host drivers. bedplate turns this into the parameters that the CPU and the
    /// kernel of the host need.
    iommu: crate::kind::cmdline::section::iommu::Iommu;

    /// Kernel arguments. The profile owns the parameters it names and nothing else on the line.
    cmdline: crate::kind::cmdline::section::Cmdline;

    /// Kernel modules: what is loaded, kept out, and with which parameters.
    modules: crate::kind::modules::section::Modules;

    /// Kernel parameters of sysctl(8), now and at every boot.
    sysctl: crate::kind::sysctl::section::Sysctl;

    /// PCIe Access Control Services: whether traffic between a GPU and a NIC below one switch may go straight through
    /// it, or is sent up to the root complex.
    acs: crate::kind::acs::section::Acs;

    /// Virtual functions of network cards.
    sriov: crate::kind::sriov::section::Sriov;

    /// What NCCL is told, in /etc/nccl.conf. Little is needed: `bedplate nccl env -v` says what is better left alone.
    nccl: crate::kind::nccl::section::Nccl;

    /// GPUDirect Storage's library, in /etc/cufile.json.
    cufile: crate::kind::cufile::section::Cufile;

    /// What to do when a change needs the machine to start again.
    reboot: sections::reboot::Reboot;

    /// The bedplate daemon itself.
    agent: sections::agent::Agent;

    /// What `bedplate profile check` finds in the profile.
    lints: sections::lints::Lints;

    /// What `bedplate verify` makes of the host.
    verify: sections::verify::Verify;
}

impl Profile {
    /// Vendors of the PCI devices that the profile is for (its `match`): what an image of such a machine has to go by.
    pub(crate) fn vendors(&self) -> Vec<PciId> {
        self.matching.pci.iter().flat_map(|pci| &pci.ids).map(|id| id.vendor).collect()
    }
}

/// A profile's name.
pub(super) struct Name;

impl Check for Name {
    type Value = String;
    const ID: &'static str = "bad-name";

    fn fault(_: &str, text: &String) -> Option<Fault> {
        let fault = ("a profile's name cannot be empty".to_owned(), String::new(), None);
        text.trim().is_empty().then_some(fault)
    }
}
