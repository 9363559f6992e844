//! The name of a kind.

use serde::{Deserialize, Serialize};

bedplate_base::named! {
    /// What a part of a plan is about: a kind of managed thing, or what all of them rest on. In the order of their names.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum KindId {
        /// PCIe ACS control bits.
        Acs = "acs",
        /// The kernel command line.
        Cmdline = "cmdline",
        /// cuFile's settings.
        Cufile = "cufile",
        /// The machine itself: no kind manages it.
        Host = "host",
        /// Kernel modules.
        Modules = "modules",
        /// NCCL's settings.
        Nccl = "nccl",
        /// The profile itself: no kind manages it.
        Profile = "profile",
        /// SR-IOV VFs.
        Sriov = "sriov",
        /// Keys of /proc/sys.
        Sysctl = "sysctl",
    }
}

/// A string: there may be more kinds in a later version.
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
