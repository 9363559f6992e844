//! `[iommu]`: how the IOMMU treats the DMA of host drivers.

use serde::{Deserialize, Serialize};

use crate::section::section;

/// IOMMU mode for host drivers' DMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum IommuMode {
    /// The mode that GPUDirect RDMA needs on this host: `passthrough`; on NVIDIA's Arm CPUs `translated` before Linux
    /// 6.11, and unchanged from 6.11 on.
    Auto,
    /// 1:1 for host drivers: identity groups, or no active IOMMU. An IOMMU that is off, by the command line or the
    /// firmware, stays off.
    Passthrough,
    /// On, 1:1 for host drivers: for hosts that also assign devices to VMs. Off in the firmware is a blocker.
    PassthroughRequired,
    /// On, translating (lazy invalidation unless `strict`). Off in the firmware is a blocker.
    Translated,
    /// Off.
    Off,
    /// Unchanged.
    Keep,
}

section! {
    /// `[iommu]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    "iommu" Iommu, IommuFile {
        /// IOMMU mode for the DMA of devices that host drivers use. Devices assigned to VMs are always translated.
        #[schemars(
            example = &"passthrough",
            extend("x-source" = "drivers/iommu/iommu.c; drivers/iommu/Kconfig; CUDA GPUDirect RDMA guide")
        )]
        mode: IommuMode = IommuMode::Keep;
    }
    reason of mode {
        /// Reason for the mode, shown in plans.
        #[schemars(example = &"NCCL over RDMA needs bus addresses that are physical addresses")]
        why;
        /// Source of the fact.
        source;
    }
}
