//! The name of a kind.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a part of a plan is about: a kind of managed thing, or what all of them rest on. In the order of their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KindId {
    /// PCIe ACS control bits.
    Acs,
    /// The kernel command line.
    Cmdline,
    /// cuFile's settings.
    Cufile,
    /// The machine itself: no kind manages it.
    Host,
    /// Kernel modules.
    Modules,
    /// NCCL's settings.
    Nccl,
    /// The profile itself: no kind manages it.
    Profile,
    /// SR-IOV VFs.
    Sriov,
    /// Keys of /proc/sys.
    Sysctl,
}

impl KindId {
    /// The name in plans, ledgers and arguments.
    pub const fn name(self) -> &'static str {
        match self {
            KindId::Acs => "acs",
            KindId::Cmdline => "cmdline",
            KindId::Cufile => "cufile",
            KindId::Host => "host",
            KindId::Modules => "modules",
            KindId::Nccl => "nccl",
            KindId::Profile => "profile",
            KindId::Sriov => "sriov",
            KindId::Sysctl => "sysctl",
        }
    }
}

impl fmt::Display for KindId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
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
