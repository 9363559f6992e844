//! `[acs]`: what happens to the ACS control bits of switch and root ports.

use serde::{Deserialize, Serialize};

use crate::profile::declare::section;

/// What to do about ACS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AcsPolicy {
    /// Clear what redirects peer-to-peer on the paths between GPUs and NICs below a common switch; leave the rest.
    DirectP2p,
    /// Write 0 to every port that has ACS, as the field's setpci loops mean to.
    Clear,
    /// Change nothing, report.
    Keep,
}

/// How the profile wants ACS to last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AcsPersist {
    /// The kernel command line where this kernel is known good, else live.
    Auto,
    /// The kernel command line, or a blocker.
    Cmdline,
    /// Live writes at every boot.
    Live,
}

section! {
    /// `[acs]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    "acs" Acs, AcsFragment, AcsLayer {
        /// What to do with the ACS control bits of switch and root ports.
        #[schemars(
            example = &"direct-p2p",
            extend("x-source" = "drivers/pci/p2pdma.c; rdma-core kernel-boot/rdma_topo; handbook §3.2")
        )]
        policy: AcsPolicy = AcsPolicy::Keep;

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
