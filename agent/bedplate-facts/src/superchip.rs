//! NVIDIA's Arm CPUs with their GPUs (Grace Hopper, Grace Blackwell, GB10), and their IOMMU requirements by kernel
//! version (handbook §14.3).

use super::facts::Facts;
use super::pci::{Function, PciTree};
use bedplate_base::Arch;
use bedplate_base::value::{KernelVersion, PciId};
use bedplate_base::{Reading, Reason};

const NVIDIA: PciId = PciId(0x10de);
/// First release with S1DSS bypass.
pub const EITHER_MODE_WORKS: KernelVersion = KernelVersion::new(6, 11);

/// GPUs that exist only together with an NVIDIA Arm CPU. A VM on such a host sees the GPU, and root ports of its
/// hypervisor. GH200 (2342, 2345, 2348), GB200 (2941), GB300 (31c2, 31c3), GB10 (2e12); Linux
/// drivers/vfio/pci/nvgrace-gpu/main.c, pci.ids, and the README of open-gpu-kernel-modules.
const SUPERCHIP_GPUS: [u16; 7] = [0x2342, 0x2345, 0x2348, 0x2941, 0x31c2, 0x31c3, 0x2e12];

/// Vendor of an Arm CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArmCpu {
    /// NVIDIA.
    Nvidia,
    /// Another vendor.
    Other,
    /// Unknown, with the reason. Passthrough may break CUDA on this machine.
    NotKnown(String),
}

/// IOMMU requirements of an NVIDIA Arm CPU under the running kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Superchip {
    /// No requirements: another CPU.
    No,
    /// Translation required: this kernel attaches no PASID to an identity domain.
    Translated,
    /// Either mode works.
    Either,
    /// Unknown CPU or kernel, with the reason.
    NotKnown(Reason),
}

/// Returns the IOMMU requirements of this machine.
pub fn superchip(facts: &Facts) -> Superchip {
    if facts.arch.known() != Some(&Arch::Aarch64) {
        return Superchip::No;
    }
    let cpu = match &facts.pci {
        Reading::Known(tree) => arm_cpu(tree),
        Reading::Absent => ArmCpu::NotKnown("no PCI functions are visible".to_owned()),
        Reading::Unknown(why) => return Superchip::NotKnown(why.clone()),
    };
    match (cpu, facts.os.kernel.known().and_then(|release| KernelVersion::from_release(release))) {
        (ArmCpu::Other, _) => Superchip::No,
        (ArmCpu::NotKnown(why), _) => Superchip::NotKnown(why.into()),
        (ArmCpu::Nvidia, None) => Superchip::NotKnown("the running kernel is unknown".into()),
        (ArmCpu::Nvidia, Some(version)) if version < EITHER_MODE_WORKS => Superchip::Translated,
        (ArmCpu::Nvidia, Some(_)) => Superchip::Either,
    }
}

/// Determines the vendor by the root ports, which are part of the CPU, and by GPUs that only exist with it. Other
/// NVIDIA GPUs also occur in servers with other Arm CPUs.
pub fn arm_cpu(tree: &PciTree) -> ArmCpu {
    let nvidia = || tree.functions.values().filter(|function| function.vendor == NVIDIA);
    let gpus = || nvidia().filter(|function| function.is_gpu());
    if nvidia().any(|function| function.is_bridge() && function.parent.is_none())
        || gpus().any(|gpu| SUPERCHIP_GPUS.contains(&gpu.device.0))
    {
        return ArmCpu::Nvidia;
    }
    // An unreadable function may be a root port or a GPU.
    if let Some(gap) = tree.unread().first() {
        return ArmCpu::NotKnown(format!("{} cannot be read", gap.address));
    }
    let without_port = |gpu: &&Function| {
        tree.path_up(gpu.address).last().is_none_or(|port| tree.get(*port).is_none())
    };
    match gpus().find(without_port) {
        Some(gpu) => {
            ArmCpu::NotKnown(format!("the root port above GPU {} is not visible", gpu.address))
        }
        None => ArmCpu::Other,
    }
}
