//! `[acs]`: policy for the ACS control bits of switch and root ports.

use serde::{Deserialize, Serialize};

use crate::desired::AcsPolicy;
use crate::section::section;

/// Persistence of ACS bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AcsPersist {
    /// The kernel command line if the kernel is known good, else runtime writes.
    Auto,
    /// The kernel command line, or a blocker.
    Cmdline,
    /// Runtime writes at every boot.
    Live,
}

/// Peer that a GPU reaches directly.
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
        /// Policy for the ACS control bits of switch and root ports.
        #[schemars(
            example = &"direct-p2p",
            extend("x-source" = "drivers/pci/p2pdma.c; rdma-core kernel-boot/rdma_topo; handbook §3.2")
        )]
        policy: AcsPolicy = AcsPolicy::Keep;

        /// Peers that each GPU reaches directly below a shared switch: `nic` (GPUDirect RDMA), `gpu`, `nvme` (GPUDirect
        /// Storage).
        #[schemars(
            example = vec!["nic", "gpu", "nvme"],
            extend("x-source" = "NVIDIA GPUDirect Storage best practices guide; handbook §14.1")
        )]
        peers: Vec<PeerKind> = vec![PeerKind::Nic, PeerKind::Gpu];

        /// Whether GPUs and NICs are assigned to guests. Isolation then stays on, and switches pass only translated
        /// requests directly (DT), which needs ATS in the NIC (`ATS_ENABLED` of its firmware). `auto` means yes if a guest
        /// uses a function below the switch (VFIO), or the profile reserves one for it, and every NIC of the switch has
        /// ATS.
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

        /// Whether to treat the root port above a switch like the ports below it, so that IOMMU groups show the actual
        /// isolation.
        #[schemars(
            extend("x-source" = "rdma-core kernel-boot/rdma_topo; drivers/iommu/iommu.c")
        )]
        root_port: bool = true;
    }
    reason of policy {
        /// Reason for the policy, shown in plans.
        why;
        /// Source of the fact.
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
