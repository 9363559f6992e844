//! `[acs]`: policy for the ACS control bits of switch and root ports.

use serde::{Deserialize, Serialize};

use crate::desired::AcsPolicy;
use crate::section::section;

/// How the profile wants ACS to last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AcsPersist {
    /// The kernel command line where this kernel is known good, else live.
    Auto,
    /// The kernel command line, or a blocker.
    Cmdline,
    /// Live writes at every boot.
    Live,
}

/// What a GPU is to reach directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PeerKind {
    /// NICs (GPUDirect RDMA).
    Nic,
    /// Other GPUs.
    Gpu,
    /// NVMe disks (GPUDirect Storage).
    Nvme,
}

/// Whether GPUs and NICs are assigned to VMs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guests {
    /// Yes, if every NIC of the switch has ATS and a function below it is a VM's.
    Auto,
    /// Yes.
    Yes,
    /// No.
    No,
}

impl Serialize for Guests {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Guests::Auto => serializer.serialize_str("auto"),
            Guests::Yes => serializer.serialize_bool(true),
            Guests::No => serializer.serialize_bool(false),
        }
    }
}

impl<'de> Deserialize<'de> for Guests {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Guests;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("`true`, `false` or `\"auto\"`")
            }

            fn visit_bool<E: serde::de::Error>(self, truth: bool) -> Result<Guests, E> {
                Ok(if truth { Guests::Yes } else { Guests::No })
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Guests, E> {
                match text {
                    "auto" => Ok(Guests::Auto),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(feature = "schemars")]
impl schemars::JsonSchema for Guests {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Guests".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "enum": [true, false, "auto"] })
    }
}

section! {
    /// `[acs]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    "acs" Acs, AcsFile {
        /// What to do with the ACS control bits of switch and root ports.
        #[schemars(
            example = &"direct-p2p",
            extend("x-source" = "drivers/pci/p2pdma.c; rdma-core kernel-boot/rdma_topo; handbook §3.2")
        )]
        policy: AcsPolicy = AcsPolicy::Keep;

        /// What each GPU is to reach directly where they meet in a switch: `nic` (GPUDirect RDMA), `gpu`, `nvme` (GPUDirect
        /// Storage).
        #[schemars(
            example = vec!["nic", "gpu", "nvme"],
            extend("x-source" = "NVIDIA GPUDirect Storage best practices guide; handbook §14.1")
        )]
        peers: Vec<PeerKind> = vec![PeerKind::Nic, PeerKind::Gpu];

        /// Whether GPUs and NICs go to guests. Then isolation stays on, and switches let only translated requests pass directly
        /// (DT), which needs ATS in the NIC (`ATS_ENABLED` of its firmware). `auto`: where a guest has a function below the switch
        /// (VFIO), or the profile gives it one, and every NIC of the switch has ATS.
        #[schemars(
            example = false,
            extend("x-source" = "rdma-core kernel-boot/rdma_topo; handbook §14.1")
        )]
        guests: Guests = Guests::Auto;

        /// How the bits survive a reboot, a device reset and a driver bind.
        #[schemars(
            extend("x-source" = "drivers/pci/pci.c; Documentation/admin-guide/kernel-parameters.txt; handbook §1.4, §3.4")
        )]
        persistence: AcsPersist = AcsPersist::Auto;

        /// Treat the root port above a switch like the ports below it, so that the IOMMU groups show what can reach what.
        #[schemars(
            extend("x-source" = "rdma-core kernel-boot/rdma_topo; drivers/iommu/iommu.c")
        )]
        root_port: bool = true;
    }
    reason of policy {
        /// Why this policy; shown in plans.
        why;
        /// Where the fact stands.
        source;
    }
}

/// Returns the section used to evaluate a host without such a profile: GPUs reach NICs and each other directly.
pub fn for_direct_traffic() -> Acs {
    Acs {
        policy: AcsPolicy::DirectP2p,
        peers: vec![PeerKind::Nic, PeerKind::Gpu],
        guests: Guests::Auto,
        persistence: AcsPersist::Auto,
        root_port: true,
        why: Vec::new(),
    }
}
