//! The table of lints. One that can never be right is an error; everything else is a warning.

use super::LintEntry;
use super::Severity::{Error, Warning};
use super::find;
use crate::profile::model::AcsPolicy;

/// All lints. The order decides which one has a place that several find.
pub(super) static LINTS: &[LintEntry] = &[
    LintEntry {
        id: "amd-iommu-on",
        severity: Error,
        find: |view| find::args(view, |arg| arg.name == "amd_iommu" && arg.value == "on"),
        reason: "does nothing: `on` is not a value of this parameter, and AMD-Vi is on wherever the firmware offers it",
        source: "drivers/iommu/amd/init.c parse_amd_iommu_options",
        remedy: "drop it",
    },
    LintEntry {
        id: "iommu-on",
        severity: Error,
        find: |view| find::args(view, |arg| arg.name == "iommu" && arg.value == "on"),
        reason: "does nothing: `on` is not a value of this parameter",
        source: "arch/x86/kernel/pci-dma.c iommu_setup",
        remedy: "say what the IOMMU is for with `mode` in [iommu]",
    },
    LintEntry {
        id: "iommu-on-arm",
        severity: Error,
        find: find::iommu_on_arm,
        reason: "does nothing on Arm: only x86 reads it",
        source: "arch/x86/kernel/pci-dma.c; drivers/iommu/iommu.c iommu.passthrough",
        remedy: "set `mode` in [iommu]; by hand it would be `iommu.passthrough=0` or `=1`",
    },
    LintEntry {
        id: "x86-only-on-arm",
        severity: Warning,
        find: find::x86_only_on_arm,
        reason: "does nothing on Arm: only kernels for x86 read it",
        source: "Documentation/admin-guide/kernel-parameters.txt; handbook §1.7",
        remedy: "drop it",
    },
    LintEntry {
        id: "arm-only-on-x86",
        severity: Warning,
        find: find::arm_only_on_x86,
        reason: "does nothing on x86: only kernels for 64-bit Arm read it",
        source: "Documentation/admin-guide/kernel-parameters.txt; handbook §1.7",
        remedy: "drop it",
    },
    LintEntry {
        id: "other-vendors-iommu",
        severity: Error,
        find: find::other_vendors_iommu,
        reason: "does nothing on the CPUs that this profile is for",
        source: "drivers/iommu/intel/iommu.c intel_iommu_setup; drivers/iommu/amd/init.c",
        remedy: "drop it; `mode` in [iommu] writes what the CPU needs",
    },
    LintEntry {
        id: "iommu-against-mode",
        severity: Error,
        find: find::iommu_against_mode,
        reason: "contradicts `mode` in [iommu]",
        source: "drivers/iommu/iommu.c; arch/x86/kernel/pci-dma.c",
        remedy: "keep one of the two; `mode` also sees to the CPU's own parameter",
    },
    LintEntry {
        id: "two-spellings",
        severity: Warning,
        find: find::two_spellings,
        reason: "says again what another argument says: both set the same kernel variable, and the last one counts",
        source: "drivers/iommu/iommu.c iommu_set_def_domain_type; arch/x86/kernel/pci-dma.c",
        remedy: "keep one, or better `mode` in [iommu]",
    },
    LintEntry {
        id: "iommu-by-hand",
        severity: Warning,
        find: find::iommu_by_hand,
        reason: "is what `mode` in [iommu] writes already",
        source: "drivers/iommu/iommu.c; arch/x86/kernel/pci-dma.c",
        remedy: "drop it",
    },
    LintEntry {
        id: "acs-override",
        severity: Warning,
        find: |view| find::args(view, |arg| arg.name == "pcie_acs_override"),
        reason: "is not a parameter of the mainline kernel; a patched one only pretends isolation and clears no ACS bit",
        source: "drivers/pci/pci.c, which has no such parameter",
        remedy: "set `policy` in [acs] to `direct-p2p`",
    },
    LintEntry {
        id: "acs-invented",
        severity: Error,
        find: find::acs_invented,
        reason: "does nothing: the kernel has no such option, and leaves ACS as it is",
        source: "drivers/pci/pci.c pci_setup, which reads `config_acs=` and `disable_acs_redir=` alone",
        remedy: "drop it; set `policy` in [acs] to `direct-p2p`",
    },
    LintEntry {
        id: "assign-busses",
        severity: Warning,
        find: |view| find::args(view, |arg| arg.name == "pci" && arg.value == "assign-busses"),
        reason: "renumbers every PCI bus: addresses in firmware tables, inventories and interface names change",
        source: "arch/x86/pci/common.c pcibios_setup; kernel-parameters.txt",
        remedy: "drop it; when bridge windows are too small for VFs or BARs, that is `pci=realloc`",
    },
    LintEntry {
        id: "config-acs-commas",
        severity: Error,
        find: find::config_acs_commas,
        reason: "is cut off from `config_acs=`: a comma ends an option of `pci=`, so the kernel takes it for an unknown one",
        source: "drivers/pci/pci.c pci_setup; kernel-parameters.txt",
        remedy: "put `;` between the entries, or set `policy` in [acs] and let bedplate write them",
    },
    LintEntry {
        id: "acs-by-hand",
        severity: Warning,
        find: find::acs_by_hand,
        reason: "decides the same ACS bits as `policy` in [acs]: only one value of it counts",
        source: "drivers/pci/pci.c pci_setup keeps the last pointer",
        remedy: "drop it, or set `policy` in [acs] to `keep`",
    },
    LintEntry {
        id: "acs-clear-with-vfio",
        severity: Error,
        find: |view| find::acs_with_vfio(view, AcsPolicy::Clear),
        reason: "takes the isolation away from every port, and devices given to guests need it: one guest could reach another",
        source: "drivers/iommu/iommu.c pci_device_group",
        remedy: "set `policy` in [acs] to `keep` on hosts that give devices to guests",
    },
    LintEntry {
        id: "acs-direct-with-vfio",
        severity: Warning,
        find: |view| find::acs_with_vfio(view, AcsPolicy::DirectP2p),
        reason: "is refused at every port that has a device used through VFIO below it",
        source: "drivers/iommu/iommu.c pci_device_group",
        remedy: "set `policy` in [acs] to `keep`, unless guests get their devices from other switches than the GPUs",
    },
    LintEntry {
        id: "vfio-without-iommu",
        severity: Error,
        find: find::vfio_without_iommu,
        reason: "needs an IOMMU, and `mode` in [iommu] switches it off",
        source: "drivers/vfio/group.c; Documentation/driver-api/vfio.rst",
        remedy: "set `mode` to `translated` or `passthrough-required`: devices of guests are translated in either",
    },
    LintEntry {
        id: "realloc-on-mi300x",
        severity: Warning,
        find: find::realloc_on_mi300x,
        reason: "lets the kernel move the large BARs of Instinct MI300 and MI350, which AMD's advice is to leave where firmware put them",
        source: "docs.sglang.io/platforms/amd_gpu; drivers/pci/setup-bus.c",
        remedy: "write `pci=realloc=off`",
    },
    LintEntry {
        id: "raw-qp-enforcement",
        severity: Error,
        find: |view| {
            find::parameters(view, |p| {
                p.module == "rdma_ucm" && p.name == "disable_raw_qp_enforcement"
            })
        },
        reason: "does not exist: rdma_ucm has no such parameter",
        source: "drivers/infiniband/core/ucma.c",
        remedy: "drop it; it has nothing to do with GPUDirect",
    },
    LintEntry {
        id: "raw-qp-enforcement",
        severity: Warning,
        find: |view| {
            find::parameters(view, |p| {
                p.module == "ib_uverbs" && p.name == "disable_raw_qp_enforcement"
            })
        },
        reason: "lets every user make raw packet queue pairs, and only MLNX_OFED has it; GPUDirect does not need it",
        source: "libvma, which notes that upstream drivers lack it",
        remedy: "drop it",
    },
    LintEntry {
        id: "nvreg-case",
        severity: Error,
        find: find::nvreg_case,
        reason: "is misspelled, so the driver ignores it: upper and lower case count in parameter names",
        source: "open-gpu-kernel-modules kernel-open/nvidia/nv-reg.h; kernel/module/main.c",
        remedy: "the name with PCIE is NVreg_EnablePCIERelaxedOrderingMode; others are in nv-reg.h",
    },
    LintEntry {
        id: "nvreg-gone",
        severity: Warning,
        find: |view| find::parameters(view, |p| p.name == "NVreg_RegisterForACPIEvents"),
        reason: "is gone since driver 515.48: newer ones ignore it with a notice",
        source: "open-gpu-kernel-modules kernel-open/nvidia/nv-reg.h, tags 515.43.04 and 515.48.07",
        remedy: "drop it",
    },
    LintEntry {
        id: "registry-dwords-on-cmdline",
        severity: Warning,
        find: |view| find::parameters(view, |p| p.on_cmdline && p.name == "NVreg_RegistryDwords"),
        reason: "holds semicolons, which GRUB and older modprobe both cut at",
        source: "grub-core/lib/cmdline.c; kmod libkmod/libkmod-config.c",
        remedy: "put it into [modules.options.nvidia]",
    },
    LintEntry {
        id: "module-option-on-cmdline",
        severity: Warning,
        find: find::module_option_on_cmdline,
        reason: "reaches a loadable module only through modprobe, and older ones cut it at blanks and dots",
        source: "kmod libkmod/libkmod-config.c kmod_config_parse_kcmdline",
        remedy: "put it into [modules.options.MODULE]",
    },
    LintEntry {
        id: "reboot-cold",
        severity: Warning,
        find: |view| {
            find::args(view, |arg| {
                arg.name == "reboot" && arg.value.split(',').any(|v| v == "cold")
            })
        },
        reason: "is the default on x86 and cycles no power",
        source: "kernel/reboot.c; arch/x86/kernel/reboot.c",
        remedy: "drop it; `methods` in [reboot] choose how the machine is restarted",
    },
    LintEntry {
        id: "unknown-lint",
        severity: Warning,
        find: find::unknown_lint,
        reason: "is no lint's id: it lets nothing pass",
        source: "`bedplate profile check`, which prints the ids in brackets",
        remedy: "correct the id, or drop the entry",
    },
];
