//! `[iommu]`: how the IOMMU treats the DMA of host drivers.

use serde::{Deserialize, Serialize};

use crate::profile::declare::section;

/// How the IOMMU is to treat host drivers' DMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IommuMode {
    /// On, 1:1 for host drivers (identity groups): what GPUDirect RDMA wants on x86.
    Passthrough,
    /// On, translating (lazy invalidation unless `strict`): what Grace wants.
    Translated,
    /// Off.
    Off,
    /// Leave whatever is there.
    Keep,
}

section! {
    /// `[iommu]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    "iommu" Iommu, IommuFragment, IommuLayer {
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
