//! Processors: vendor and architecture, as far as kernel arguments depend on them.

use serde::{Deserialize, Serialize};

crate::named! {
    /// Vendor of the CPU, as far as IOMMU parameters depend on it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
    pub enum CpuVendor {
        /// GenuineIntel: VT-d, `intel_iommu=`.
        Intel = "intel",
        /// AuthenticAMD (and Hygon): AMD-Vi, `amd_iommu=`.
        Amd = "amd",
        /// Arm (Grace, Ampere, Graviton …): SMMU, no `iommu=` parameter.
        Arm = "arm",
        /// Anything else.
        Other = "other",
    }
}

crate::named! {
    /// Processor architecture of the host (not of this program).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
    pub enum Arch {
        /// x86-64.
        X86_64 = "x86_64",
        /// 64-bit Arm.
        Aarch64 = "aarch64",
        /// Anything else.
        Other = "other",
    }
}
