//! Name of a resource type.

use serde::{Deserialize, Serialize};

bedplate_base::named! {
    /// Resource type that a part of a plan belongs to, or the host or profile as a whole. Sorted by name.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum KindId {
        /// PCIe ACS control bits.
        Acs = "acs",
        /// The kernel command line.
        Cmdline = "cmdline",
        /// Frequency and idle states of CPUs.
        Cpu = "cpu",
        /// cuFile's settings.
        Cufile = "cufile",
        /// The machine itself, managed by no resource type.
        Host = "host",
        /// Huge pages of the running kernel.
        HugePages = "hugepages",
        /// Limits of services that start jobs, and of sessions.
        Limits = "limits",
        /// Kernel modules.
        Modules = "modules",
        /// NCCL's settings.
        Nccl = "nccl",
        /// Device control of PCI Express functions.
        Pcie = "pcie",
        /// The profile itself, managed by no resource type.
        Profile = "profile",
        /// SR-IOV VFs.
        Sriov = "sriov",
        /// Keys of /proc/sys.
        Sysctl = "sysctl",
    }
}

/// A string: a later version may have more resource types.
#[cfg(feature = "schemars")]
impl schemars::JsonSchema for KindId {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "KindId".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}
