//! The profile's root table: the keys outside of sections, and a row for each section. A kind's own section is declared in
//! the kind's folder; what it needs here is its row.
//!
//! A file is read into a [`Fragment`], checked into a [`Layer`], layers are merged, and the merged one is finished into a
//! [`Profile`]. The doc comments here are read by operators, in their editor and in `bedplate profile explain`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::sections;
use super::sections::matching::{Match, MatchFragment, MatchLayer, MatchWord};
use crate::kind;
use crate::section::{
    Checker, Diagnostic, Entry, Finisher, Leaf, Linter, Origin, Place, Printer, Section, Sources,
    Spanned, overlay_fields,
};
use bedplate_base::value::PciId;

/// The schema version that this bedplate reads.
pub(super) const SCHEMA_VERSION: i64 = 1;

/// Makes the root table of its sections, in the order in which `profile show` writes them.
macro_rules! root {
    ($(
        $(#[doc = $doc:tt])*
        $name:ident: $($module:ident)::+::{$model:ident, $layer:ident};
    )*) => {
        /// What a host is to be like, for GPUDirect RDMA. Files are merged in this order: the shipped profiles named by
        /// `extends`, the profile itself, then the files of `profile.d` by name. A later file replaces single values, and
        /// entries of lists by their name.
        #[derive(Debug, Clone, Deserialize)]
        #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        #[cfg_attr(feature = "schemars", schemars(title = "bedplate profile"))]
        pub(super) struct Fragment {
            /// Version of this file format.
            #[cfg_attr(feature = "schemars", schemars(extend("const" = SCHEMA_VERSION), example = 1))]
            #[expect(dead_code, reason = "checked before this type is read; here for the schema")]
            pub schema: u32,

            /// What the profile is called in plans and reports. Not inherited. Default: the file's name without `.toml`.
            #[cfg_attr(feature = "schemars", schemars(length(min = 1), example = &"hgx-h100-prod"))]
            pub name: Option<Spanned<String>>,

            /// One line for people. Not inherited.
            #[cfg_attr(feature = "schemars", schemars(
                extend("default" = ""),
                example = &"8 x H100 with ConnectX-7 on the same switches"
            ))]
            pub description: Option<Spanned<String>>,

            /// A shipped profile to start from. `bedplate profile list` names them. Only the profile itself may say this, not
            /// a file in profile.d.
            #[cfg_attr(feature = "schemars", schemars(example = &"hgx-h100"))]
            pub extends: Option<Spanned<String>>,

            /// Which machines the profile is for. Every condition must hold; the profile with the most specific conditions is
            /// chosen: PCI ids before DMI names, those before CPU and architecture. A profile without conditions is only used
            /// when it is named. Not inherited through `extends`. The word `"auto"` instead: /etc/bedplate/profile.toml is
            /// laid over the shipped profile that fits the hardware best.
            #[serde(rename = "match")]
            pub matching: Option<Entry<MatchWord, MatchFragment>>,

            $( $(#[doc = $doc])* pub $name: Option<<$($module)::+::$layer as Section>::File>, )*
        }

        /// One file, or several merged.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub(super) struct Layer {
            pub name: Option<Leaf<String>>,
            pub description: Option<Leaf<String>>,
            pub matching: MatchLayer,
            $( pub $name: $($module)::+::$layer, )*
        }
        overlay_fields!(Layer { name, description, matching, $($name),* });

        /// A whole profile, typed, merged and valid: what the operator declared, nothing resolved.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        pub struct Profile {
            /// `name`, by default the file's stem.
            pub name: String,
            /// One line for people.
            pub description: String,
            /// Which machines it is for.
            pub matching: Match,
            $( $(#[doc = $doc])* pub $name: $($module)::+::$model, )*
        }

        impl crate::section::ProfileSections for Profile {
            fn name(&self) -> &str {
                &self.name
            }

            fn section(&self, of: std::any::TypeId) -> Option<&dyn std::any::Any> {
                let sections = [$( &self.$name as &dyn std::any::Any ),*];
                sections.into_iter().find(|section| (*section).type_id() == of)
            }

            fn vendors(&self) -> Vec<PciId> {
                let ids = self.matching.pci.iter().flat_map(|pci| &pci.ids);
                ids.into_iter().map(|id| id.vendor).collect()
            }
        }

        impl Layer {
            fn read(fragment: Fragment, checker: &mut Checker<'_>) -> Self {
                Layer {
                    name: read_name(fragment.name, checker),
                    description: fragment.description.map(|at| checker.bare(at)),
                    matching: match fragment.matching {
                        Some(Entry::Long(section)) => MatchLayer::read(section, checker),
                        // Which profile it is laid over is chosen where profiles are read.
                        Some(Entry::Short(MatchWord::Auto)) | None => MatchLayer::default(),
                    },
                    $( $name: read_section(fragment.$name, checker), )*
                }
            }

            fn finish(&self, stem: &str, finisher: &mut Finisher<'_>) -> Profile {
                Profile {
                    name: finisher.or("name", &self.name, stem.to_owned()),
                    description: finisher.or("description", &self.description, String::new()),
                    matching: self.matching.finish(finisher),
                    $( $name: self.$name.finish(finisher), )*
                }
            }

            /// Writes it as TOML.
            pub(super) fn show(&self, profile: &Profile, out: &mut Printer<'_>) {
                out.line("schema = 1", None);
                out.scalar("name", &profile.name);
                out.scalar("description", &profile.description);
                self.matching.show(&profile.matching, out);
                $( self.$name.show(&profile.$name, out); )*
            }

            /// What is wrong only now that all files are merged.
            pub(super) fn contradictions(&self, sources: &Sources) -> Vec<Diagnostic> {
                [$( self.$name.contradiction(sources) ),*].into_iter().flatten().collect()
            }

            /// Runs the lints of each section.
            pub(super) fn lint(&self, profile: &Profile, linter: &mut Linter<'_>) {
                $( linter.run(<$($module)::+::$layer as Section>::LINTS, |find| {
                    find(&self.$name, &profile.$name)
                }); )*
            }

            /// The lints of all sections, by their ids.
            pub(super) fn lint_ids() -> Vec<&'static str> {
                let mut ids = Vec::new();
                $( ids.extend(
                    <$($module)::+::$layer as Section>::LINTS.iter().map(|lint| lint.id)
                ); )*
                ids
            }
        }
    };
}

root! {
    /// How the IOMMU treats the DMA of host drivers. bedplate turns this into the parameters that the CPU and the
    /// kernel of the host need.
    iommu: kind::cmdline::section::iommu::{Iommu, IommuLayer};

    /// Kernel arguments. The profile owns the parameters it names and nothing else on the line.
    cmdline: kind::cmdline::section::{Cmdline, CmdlineLayer};

    /// Kernel modules: what is loaded, kept out, and with which parameters.
    modules: kind::modules::section::{Modules, ModulesLayer};

    /// Kernel parameters of sysctl(8), now and at every boot.
    sysctl: kind::sysctl::section::{Sysctl, SysctlLayer};

    /// PCIe Access Control Services: whether traffic between a GPU and a NIC below one switch may go straight through
    /// it, or is sent up to the root complex.
    acs: kind::acs::section::{Acs, AcsLayer};

    /// Virtual functions of network cards.
    sriov: kind::sriov::section::{Sriov, SriovLayer};

    /// What NCCL is told, in /etc/nccl.conf. Little is needed: `bedplate nccl env -v` says what is better left alone.
    nccl: kind::nccl::section::{Nccl, NcclLayer};

    /// GPUDirect Storage's library, in /etc/cufile.json.
    cufile: kind::cufile::section::{Cufile, CufileLayer};

    /// What to do when a change needs the machine to start again.
    reboot: sections::reboot::{Reboot, RebootLayer};

    /// The bedplate daemon itself.
    agent: sections::agent::{Agent, AgentLayer};

    /// What `bedplate profile check` finds in the profile.
    lints: sections::lints::{Lints, LintsLayer};

    /// What `bedplate verify` makes of the host.
    verify: sections::verify::{Verify, VerifyLayer};
}

/// What a file's text came to, beside its layer.
pub(super) struct Checked {
    /// The layer.
    pub layer: Layer,
    /// `extends`, and where it stands.
    pub extends: Option<(String, Place)>,
}

/// Checks one file: texts become values, and what only its own author can fix is reported.
pub(super) fn check(
    sources: &Sources,
    file: usize,
    mut fragment: Fragment,
    out: &mut Vec<Diagnostic>,
) -> Checked {
    let extends = fragment.extends.take();
    let layer = Layer::read(fragment, &mut Checker::new(sources, file, out));
    Checked { layer, extends: extends.map(|name| (name.value, Place::new(file, name.span))) }
}

fn read_section<S: Section>(section: Option<S::File>, checker: &mut Checker<'_>) -> S {
    section.map(|section| S::read(section, checker)).unwrap_or_default()
}

fn read_name(name: Option<Spanned<String>>, checker: &mut Checker<'_>) -> Option<Leaf<String>> {
    let name = checker.bare(name?);
    if name.value.trim().is_empty() {
        checker.error(name.place, "bad-name", "a profile's name cannot be empty", "", None);
    }
    Some(name)
}

/// Profile and origins of a merged layer. `stem` names it when no file does.
pub(super) fn finish(
    layer: &Layer,
    sources: &Sources,
    stem: &str,
) -> (Profile, BTreeMap<String, Origin>) {
    let mut finisher = Finisher::new(sources);
    let profile = layer.finish(stem, &mut finisher);
    (profile, finisher.into_origins())
}
