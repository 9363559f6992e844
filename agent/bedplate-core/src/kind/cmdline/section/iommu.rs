//! `[iommu]`: how the IOMMU treats the DMA of host drivers.

use serde::{Deserialize, Serialize};

use crate::section::section;

/// How the IOMMU is to treat host drivers' DMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum IommuMode {
    /// What GPUDirect RDMA needs on this machine: `passthrough`; on Arm CPUs of NVIDIA `translated` below Linux 6.11, and
    /// whatever is there from 6.11 on.
    Auto,
    /// 1:1 for host drivers: identity groups, or no IOMMU at work. One that is off, on the command line or in the
    /// firmware, stays off.
    Passthrough,
    /// On, 1:1 for host drivers: for hosts that give devices to guests as well. Off in the firmware is a blocker.
    PassthroughRequired,
    /// On, translating (lazy invalidation unless `strict`). Off in the firmware is a blocker.
    Translated,
    /// Off.
    Off,
    /// Leave whatever is there.
    Keep,
}

section! {
    /// `[iommu]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    "iommu" Iommu, IommuFile {
        /// What the IOMMU does with the DMA of devices that host drivers use. Devices given to guests are translated in any
        /// case.
        #[schemars(
            example = &"passthrough",
            extend("x-source" = "drivers/iommu/iommu.c; drivers/iommu/Kconfig; CUDA GPUDirect RDMA guide")
        )]
        mode: IommuMode = IommuMode::Keep;
    }
    reason of mode {
        /// Why this mode; shown in plans.
        #[schemars(example = &"NCCL over RDMA needs bus addresses that are physical addresses")]
        why;
        /// Where the fact stands.
        source;
    }
}
