//! Processors: maker and architecture, as far as kernel arguments depend on them.

use serde::Serialize;

/// Maker of the CPU, as far as IOMMU parameters care.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CpuVendor {
    /// GenuineIntel: VT-d, `intel_iommu=`.
    Intel,
    /// AuthenticAMD (and Hygon): AMD-Vi, `amd_iommu=`.
    Amd,
    /// Arm (Grace, Ampere, Graviton …): SMMU, no `iommu=` parameter.
    Arm,
    /// Anything else.
    Other,
}

/// Processor architecture of the host (not of this program).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub enum Arch {
    /// x86-64.
    #[serde(rename = "x86_64")]
    X86_64,
    /// 64-bit Arm.
    #[serde(rename = "aarch64")]
    Aarch64,
    /// Anything else.
    #[serde(rename = "other")]
    Other,
}
