//! Message patterns, below the file that prints each.

use super::MessageKind;

/// Part of a line that is retained next to the text of its pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Nothing,
    /// End of the line.
    End,
    /// Reset number and result: `2) succeeded!`.
    Reset,
    /// A PCI function.
    Function,
    /// A module or a symbol.
    Name,
    /// A version or a number.
    Number,
    /// Device and Xid number: `0000:18:00): 79`.
    Xid,
    /// Device, SXid number and severity: `0000:ab:00.0): 12028, Non-fatal`.
    SXid,
    /// The word `ERROR`.
    Error,
    /// Number of an SMMU event: `10 received:`.
    EventNumber,
    /// Name of an SMMU event and its device: `F_TRANSLATION client: 0009:01:00.0`.
    Event,
}

/// Start of the record of an SMMU event. The record does not name the device.
pub(super) const EVENT_RECORD: &str = "event 0x";
/// Start of the line with the device of an SMMU event.
pub(super) const EVENT: &str = "event: ";

pub(super) struct MessagePattern {
    /// Meaning.
    pub kind: MessageKind,
    /// Part retained from the text before.
    pub before: Part,
    /// Literal text, at the start of a line or after the kernel's prefix.
    pub text: &'static str,
    /// Part retained from the text after.
    pub after: Part,
}

const fn pattern(
    kind: MessageKind,
    before: Part,
    text: &'static str,
    after: Part,
) -> MessagePattern {
    MessagePattern { kind, before, text, after }
}

#[rustfmt::skip]
pub(super) const MESSAGES: &[MessagePattern] = &[
    // drivers/iommu/intel/iommu.c intel_iommu_init
    pattern(MessageKind::IommuUp, Part::Nothing, "DMAR: Intel(R) Virtualization Technology for Directed I/O", Part::Nothing),
    // drivers/iommu/amd/init.c
    pattern(MessageKind::IommuUp, Part::Nothing, "AMD-Vi: Interrupt remapping enabled", Part::Nothing),
    pattern(MessageKind::IommuUp, Part::Nothing, "AMD-Vi: Extended features ", Part::Nothing),
    // drivers/iommu/intel/iommu.c intel_iommu_setup
    pattern(MessageKind::IommuRequested, Part::Nothing, "DMAR: IOMMU enabled", Part::Nothing),
    // drivers/iommu/intel/dmar.c warn_invalid_dmar
    pattern(MessageKind::IommuFirmware, Part::Nothing, "Your BIOS is broken; DMAR reported at address", Part::Nothing),
    // drivers/iommu/intel/iommu.c init_dmars
    pattern(MessageKind::IommuCopied, Part::Nothing, "Translation already enabled - trying to copy translation structures", Part::Nothing),
    // drivers/iommu/intel/dmar.c dmar_fault_do_one
    pattern(MessageKind::DmaFault, Part::Nothing, "DMAR: [DMA Write NO_PASID] Request device [", Part::Function),
    pattern(MessageKind::DmaFault, Part::Nothing, "DMAR: [DMA Read NO_PASID] Request device [", Part::Function),
    pattern(MessageKind::DmaFault, Part::Nothing, "DMAR: [DMA Write] Request device [", Part::Function),
    pattern(MessageKind::DmaFault, Part::Nothing, "DMAR: [DMA Read] Request device [", Part::Function),
    // drivers/iommu/amd/iommu.c amd_iommu_report_page_fault
    pattern(MessageKind::DmaFault, Part::Nothing, "AMD-Vi: Event logged [IO_PAGE_FAULT device=", Part::Function),
    pattern(MessageKind::DmaFault, Part::Function, "AMD-Vi: Event logged [IO_PAGE_FAULT", Part::Nothing),
    // drivers/iommu/arm/arm-smmu-v3/arm-smmu-v3.c arm_smmu_evtq_thread; 6.14 on: arm_smmu_dump_raw_event
    pattern(MessageKind::DmaFault, Part::Nothing, EVENT_RECORD, Part::EventNumber),
    // the same, 6.14 on: arm_smmu_dump_event, after the record
    pattern(MessageKind::DmaFault, Part::Nothing, EVENT, Part::Event),
    // kernel/module/version.c check_version
    pattern(MessageKind::WrongBuild, Part::Name, ": disagrees about version of symbol ", Part::Name),
    // kernel/module/main.c resolve_symbol_wait, simplify_symbols
    pattern(MessageKind::WrongBuild, Part::Name, ": Unknown symbol ", Part::Name),
    // kernel/module/main.c check_modinfo
    pattern(MessageKind::WrongBuild, Part::Name, ": version magic '", Part::Nothing),
    // kernel/module/main.c early_mod_check
    pattern(MessageKind::NotAllowed, Part::Name, " is blacklisted", Part::Nothing),
    // kernel/module/signing.c module_sig_check
    pattern(MessageKind::NotAllowed, Part::Nothing, "Loading of unsigned module is rejected", Part::Nothing),
    pattern(MessageKind::NotAllowed, Part::Nothing, "Loading of module with unavailable key is rejected", Part::Nothing),
    // kernel/module/main.c unknown_module_param_cb
    pattern(MessageKind::WrongParameter, Part::Name, ": unknown parameter '", Part::Name),
    // NVIDIA open-gpu-kernel-modules, src/nvidia/arch/nvalloc/unix/src/osapi.c rm_perform_version_check
    pattern(MessageKind::ApiMismatch, Part::Nothing, "NVRM: API mismatch: the client has the version ", Part::Number),
    pattern(MessageKind::ApiMismatch, Part::Nothing, "NVRM: API mismatch: the client has version ", Part::Number),
    // the same, kernel-open/nvidia/nv.c
    pattern(MessageKind::NotTaken, Part::Nothing, "NVRM: The NVIDIA probe routine was not called for ", Part::Number),
    pattern(MessageKind::NotTaken, Part::Nothing, "NVRM: The NVIDIA probe routine failed for ", Part::Number),
    // the same, kernel-open/nvidia/nv-pci.c and src/nvidia/arch/nvalloc/unix/src/osinit.c: not supported by this
    // release or by these kernel modules, or lost
    pattern(MessageKind::NotTaken, Part::Nothing, "NVRM: The NVIDIA GPU ", Part::Function),
    pattern(MessageKind::NotTaken, Part::Function, "RmInitAdapter failed!", Part::Nothing),
    // the same, kernel-open/nvidia-peermem/nvidia-peermem.c peer_err
    pattern(MessageKind::Peermem, Part::Nothing, "nvidia-peermem ", Part::Error),
    // the same, src/nvidia/arch/nvalloc/unix/src/os.c; NVIDIA's "Xid Errors" lists the numbers
    pattern(MessageKind::Xid, Part::Nothing, "NVRM: Xid (PCI:", Part::Xid),
    pattern(MessageKind::OffTheBus, Part::Function, "GPU has fallen off the bus", Part::Nothing),
    // the same, src/common/nvswitch/kernel/inc/error_nvswitch.h NVSWITCH_PRINT_SXID
    pattern(MessageKind::Switch, Part::Nothing, "SXid (PCI:", Part::SXid),
    // the same, kernel-open/nvidia/nv.c nvidia_init_module
    pattern(MessageKind::Bound, Part::Nothing, "NVRM: loading NVIDIA UNIX", Part::Nothing),
    // drivers/pci/setup-res.c pci_enable_resources: a driver takes the device, at its first bind and after a reset
    pattern(MessageKind::Bound, Part::Function, "enabling device (", Part::Nothing),
    // drivers/gpu/drm/amd/amdgpu/amdgpu_device.c amdgpu_device_gpu_recover
    pattern(MessageKind::Recovered, Part::Function, "GPU reset succeeded", Part::Nothing),
    // the same, newer kernels: `GPU reset(2) succeeded!`
    pattern(MessageKind::Recovered, Part::Function, "GPU reset(", Part::Reset),
    // drivers/net/ethernet/mellanox/mlx5/core/health.c mlx5_health_try_recover
    pattern(MessageKind::Recovered, Part::Function, "health recovery succeeded", Part::Nothing),
    // the same up to 5.15, with its original spelling
    pattern(MessageKind::Recovered, Part::Function, "health revovery succeded", Part::Nothing),
    // drivers/pci/hotplug/pciehp_ctrl.c: the link was down only during a recovery
    pattern(MessageKind::Recovered, Part::Function, "Link Down/Up ignored", Part::Nothing),
    // drivers/pci/pcie/err.c pcie_do_recovery; capitalised up to 5.5
    pattern(MessageKind::Recovered, Part::Function, "Device recovery successful", Part::Nothing),
    pattern(MessageKind::Recovered, Part::Function, "device recovery successful", Part::Nothing),
    // drivers/pci/pcie/aer.c aer_print_error
    pattern(MessageKind::Fatal, Part::Function, "PCIe Bus Error: severity=Uncorrectable (Fatal)", Part::Nothing),
    pattern(MessageKind::Fatal, Part::Function, "PCIe Bus Error: severity=Uncorrected (Fatal)", Part::Nothing),
    pattern(MessageKind::Uncorrected, Part::Function, "PCIe Bus Error: severity=Uncorrect", Part::Nothing),
    // drivers/pci/pcie/dpc.c dpc_process_error
    pattern(MessageKind::Contained, Part::Function, "DPC: containment event", Part::Nothing),
    // drivers/pci/hotplug/pciehp_ctrl.c
    pattern(MessageKind::LinkDown, Part::Function, "Link Down", Part::End),
];
