//! The profile's root table: the keys outside of sections, and an entry for each section. The section of a resource
//! type is declared in its own directory, and listed here.
//!
//! Each file is parsed into a [`ProfileFile`]; all of them together are checked and merged into a [`Profile`].
//! Operators read the doc comments here in their editor and in `bedplate profile explain`.

use serde::{Deserialize, Serialize};

use super::sections;
use super::sections::matching::{Match, MatchFile, MatchWord, PciIdPair};
use crate::section::{
    Check, Checked, Checker, Entry, Fault, InFile, Plain, Printer, Section, Spanned, read_key,
};
use bedplate_base::terminal::is_control;
use bedplate_base::value::PciId;
use bedplate_facts::superchip::is_rack_id;

/// Schema version that this bedplate reads.
pub(super) const SCHEMA_VERSION: i64 = 1;

/// Generates the root table from its sections, in the order of `profile show`.
macro_rules! root {
    ($(
        $(#[doc = $doc:tt])*
        $name:ident: $section:path;
    )*) => {
        /// Desired state of a host for GPUDirect RDMA. Files are merged in this order: the shipped profiles named by
        /// `extends`, the profile itself, then the files of `profile.d` by name. A later file replaces single values,
        /// and entries of lists by their name.
        #[derive(Debug, Clone, Deserialize)]
        #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        #[cfg_attr(feature = "schemars", schemars(title = "bedplate profile"))]
        pub(super) struct ProfileFile {
            /// Version of this file format.
            #[cfg_attr(feature = "schemars", schemars(extend("const" = SCHEMA_VERSION), example = 1))]
            #[expect(dead_code, reason = "checked before this type is read; here for the schema")]
            pub schema: u32,

            /// Name of the profile in plans and reports. Not inherited. Default: the file's name without `.toml`.
            #[cfg_attr(feature = "schemars", schemars(length(min = 1), example = &"hgx-h100-prod"))]
            pub name: InFile<Checked<Name>>,

            /// Description for operators, one line. Not inherited.
            #[cfg_attr(feature = "schemars", schemars(
                extend("default" = ""),
                example = &"8 x H100 with ConnectX-7 on the same switches"
            ))]
            pub description: InFile<Plain<String>>,

            /// Shipped profile to start from; see `bedplate profile list`. Valid only in the profile itself, not in a
            /// file in profile.d.
            #[cfg_attr(feature = "schemars", schemars(example = &"hgx-h100"))]
            pub extends: Option<Spanned<String>>,

            /// Machines that the profile is for. Every condition must hold; the profile with the most specific
            /// conditions is chosen: PCI ids before DMI names, those before CPU and architecture. A profile without
            /// conditions is only used when it is named. Not inherited through `extends`. With `"auto"` instead,
            /// /etc/bedplate/profile.toml extends the shipped profile that fits the hardware best.
            #[serde(rename = "match")]
            pub matching: Option<Entry<MatchWord, MatchFile>>,

            $( $(#[doc = $doc])* pub $name: Option<<$section as Section>::File>, )*
        }

        /// A whole profile, typed, merged, and valid: the operator's declarations, unresolved.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        pub struct Profile {
            /// `name`, by default the file's stem.
            pub name: String,
            /// Description for operators, one line.
            pub description: String,
            /// Machines that the profile is for.
            pub matching: Match,
            $( $(#[doc = $doc])* pub $name: $section, )*
        }

        impl Profile {
            /// Checks and merges files; later files take precedence. `stem` is the name if no file sets one.
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
                    // The base profile is chosen where profiles are read.
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

            /// Writes the profile as TOML.
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
    /// How the IOMMU treats the DMA of host drivers. bedplate derives the parameters that the CPU and the kernel of the
    /// host need.
    iommu: crate::kind::cmdline::section::iommu::Iommu;

    /// Kernel arguments. The profile owns only the parameters that it names.
    cmdline: crate::kind::cmdline::section::Cmdline;

    /// Kernel modules to load and to keep out, and their parameters.
    modules: crate::kind::modules::section::Modules;

    /// Kernel parameters of sysctl(8), now and at every boot.
    sysctl: crate::kind::sysctl::section::Sysctl;

    /// Frequency governor and idle states of CPUs. Both shorten the time until a CPU reacts, at the cost of power.
    cpu: crate::kind::cpu::section::CpuPower;

    /// Huge pages of the running kernel, by NUMA node. GPUDirect RDMA needs none; DPDK and storage clients do.
    hugepages: crate::kind::hugepages::section::Hugepages;

    /// Limits of jobs: locked memory, stack, number of tasks, and /dev/shm. Services and sessions pass them on to the jobs
    /// that they start.
    limits: crate::kind::limits::section::Limits;

    /// PCIe Access Control Services: whether traffic between a GPU and a NIC below one switch stays in the switch or is
    /// redirected to the root complex.
    acs: crate::kind::acs::section::Acs;

    /// Size of read requests and relaxed ordering of GPUs and NICs. Their registers return to the firmware's values at every
    /// boot; bedplate sets them again.
    pcie: crate::kind::pcie::section::Pcie;

    /// Virtual functions of network cards.
    sriov: crate::kind::sriov::section::Sriov;

    /// NCCL settings in /etc/nccl.conf. Few are needed: `bedplate nccl env -v` lists what to leave unset.
    nccl: crate::kind::nccl::section::Nccl;

    /// GPUDirect Storage library settings in /etc/cufile.json.
    cufile: crate::kind::cufile::section::Cufile;

    /// Handling of reboots that changes need.
    reboot: sections::reboot::Reboot;

    /// The bedplate daemon itself.
    agent: sections::agent::Agent;

    /// Findings of `bedplate profile check`.
    lints: sections::lints::Lints;

    /// Evaluation of `bedplate verify` checks.
    verify: sections::verify::Verify;
}

impl Profile {
    /// Returns the vendors of the PCI devices in `match`, which describe the machine when only its image is available.
    pub(crate) fn vendors(&self) -> Vec<PciId> {
        self.matching.pci.iter().flat_map(|pci| &pci.ids).map(|id| id.vendor).collect()
    }

    /// Whether the profile is for trays of a rack whose NVLink spans nodes (GB200, GB300), and for no other machine.
    pub fn is_for_rack_trays(&self) -> bool {
        let is_tray =
            |id: &PciIdPair| id.device.is_some_and(|device| is_rack_id(id.vendor, device));
        self.matching.pci.iter().any(|pci| pci.ids.iter().all(is_tray))
    }
}

/// Name of a profile.
pub(super) struct Name;

impl Check for Name {
    type Value = String;
    const ID: &'static str = "bad-name";

    fn fault(_: &str, text: &String) -> Option<Fault> {
        let fault = |what: &str| Some((what.to_owned(), String::new(), None));
        match (text.trim().is_empty(), text.chars().any(is_control)) {
            (true, _) => fault("the profile name is empty"),
            (false, true) => fault("the profile name contains a control character"),
            (false, false) => None,
        }
    }
}
