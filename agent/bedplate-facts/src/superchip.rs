//! NVIDIA's Arm CPUs with their GPUs (Grace Hopper, Grace Blackwell, GB10), and their IOMMU requirements by kernel
//! (handbook §14.3).

use super::facts::Facts;
use super::gpu::NVIDIA;
use super::kernel_config;
use super::pci::{Function, PciTree};
use bedplate_base::Arch;
use bedplate_base::value::{KernelVersion, PciId};
use bedplate_base::{Reading, Reason};
use bedplate_host::Reader;

/// First release with S1DSS bypass.
pub const EITHER_MODE_WORKS: KernelVersion = KernelVersion::new(6, 11);
/// Series and flavour of earlier kernels that may have a bypass of their own: Ubuntu's linux-nvidia 6.8, since August
/// 2024 (NVIDIA/NV-Kernels pull requests 22 and 23).
const OWN_BYPASS: (KernelVersion, &str) = (KernelVersion::new(6, 8), "nvidia");
/// Build option with which the kernel lets a process share its memory with a device below an SMMUv3. The NVIDIA driver
/// requires it on these CPUs (open-gpu-kernel-modules kernel-open/nvidia-uvm/uvm_ats_sva.h).
pub const SMMU_SVA: &str = "CONFIG_ARM_SMMU_V3_SVA";

/// GPUs of rack trays: GB200 (2941), GB300 (31c2, 31c3) and GB300 MaxQ (31a1); README of open-gpu-kernel-modules, pci.ids.
const RACK_GPUS: [u16; 4] = [0x2941, 0x31a1, 0x31c2, 0x31c3];
/// Other GPUs that exist only together with an NVIDIA Arm CPU: GH200 (2342, 2345, 2348), GB10 (2e12); Linux
/// drivers/vfio/pci/nvgrace-gpu/main.c, pci.ids, and the README of open-gpu-kernel-modules.
const OTHER_GPUS: [u16; 4] = [0x2342, 0x2345, 0x2348, GB10];
/// GPU of DGX Spark.
const GB10: u16 = 0x2e12;

/// Root ports of Tegra chips, which differ from superchips: the ids of `pci_quirk_nvidia_tegra_disable_rp_msi` in
/// Linux drivers/pci/quirks.c, and two of Tegra264 (Thor), as seen on Jetson AGX Thor.
const TEGRA_PORTS: [u16; 18] = [
    0x0bf0, 0x0bf1, 0x0e12, 0x0e13, 0x0e1c, 0x0e1d, 0x0fae, 0x0faf, 0x10e5, 0x10e6, 0x1ad0, 0x1ad1,
    0x1ad2, 0x229a, 0x229c, 0x229e, 0x22d8, 0x22e6,
];
/// GPU inside Tegra264 (pci.ids). It marks a Tegra whose root ports have further ids.
const TEGRA_GPU: u16 = 0x2b00;

/// Vendor of an Arm CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArmCpu {
    /// NVIDIA.
    Nvidia,
    /// Another vendor, or a Tegra.
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
    /// Translation works. Passthrough works only if this kernel has NVIDIA's bypass, which its release does not show.
    PassthroughNotKnown,
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
    let release = facts.os.kernel.known();
    let version = release.and_then(|release| KernelVersion::from_release(release));
    match (cpu, version) {
        (ArmCpu::Other, _) => Superchip::No,
        (ArmCpu::NotKnown(why), _) => Superchip::NotKnown(why.into()),
        (ArmCpu::Nvidia, None) => Superchip::NotKnown("the running kernel is unknown".into()),
        (ArmCpu::Nvidia, Some(version)) if version >= EITHER_MODE_WORKS => Superchip::Either,
        (ArmCpu::Nvidia, Some(_))
            if release.is_some_and(|release| may_have_own_bypass(release)) =>
        {
            Superchip::PassthroughNotKnown
        }
        (ArmCpu::Nvidia, Some(_)) => Superchip::Translated,
    }
}

/// Whether a release below [`EITHER_MODE_WORKS`] may have NVIDIA's bypass, by which CUDA works with passthrough.
pub fn may_have_own_bypass(release: &str) -> bool {
    let (series, flavour) = OWN_BYPASS;
    series.is_series_of(release, flavour)
}

/// Determines the vendor by the root ports, which are part of the CPU, and by GPUs that only exist with it. Other
/// NVIDIA GPUs also occur in servers with other Arm CPUs.
pub fn arm_cpu(tree: &PciTree) -> ArmCpu {
    let nvidia = || tree.functions.values().filter(|function| function.vendor == NVIDIA);
    let gpus = || nvidia().filter(|function| function.is_gpu());
    if nvidia().any(|function| function.device.0 == TEGRA_GPU) {
        return ArmCpu::Other;
    }
    let is_root_port = |function: &Function| {
        function.is_bridge()
            && function.parent.is_none()
            && !TEGRA_PORTS.contains(&function.device.0)
    };
    if nvidia().any(is_root_port) || gpus().any(is_superchip_gpu) {
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

/// Whether the GPU is one of a rack tray.
pub fn is_rack_gpu(gpu: &Function) -> bool {
    is_rack_id(gpu.vendor, gpu.device)
}

/// Whether the ids are those of a GPU of a rack tray.
pub fn is_rack_id(vendor: PciId, device: PciId) -> bool {
    vendor == NVIDIA && RACK_GPUS.contains(&device.0)
}

/// Whether the GPU exists only together with an NVIDIA Arm CPU, whose memory it shares. A VM on such a host sees the GPU,
/// and root ports of its hypervisor.
pub fn is_superchip_gpu(gpu: &Function) -> bool {
    is_rack_gpu(gpu) || gpu.vendor == NVIDIA && OTHER_GPUS.contains(&gpu.device.0)
}

/// Whether the GPU is a GB10 (DGX Spark). It has no GPUDirect RDMA (NVIDIA DGX Spark Porting Guide, CUDA).
pub fn is_gb10(gpu: &Function) -> bool {
    (gpu.vendor, gpu.device.0) == (NVIDIA, GB10)
}

/// Whether the running kernel was built with [`SMMU_SVA`]. `Absent`: the host has no GPU that needs it.
pub fn smmu_sva(reader: &dyn Reader, facts: &Facts) -> Reading<bool> {
    let Some(tree) = facts.pci.known() else { return Reading::Absent };
    if !tree.functions.values().any(is_superchip_gpu) {
        return Reading::Absent;
    }
    let config = kernel_config::of_running(reader, facts.os.kernel.known().map(String::as_str));
    kernel_config::is_set(&config, SMMU_SVA)
}
