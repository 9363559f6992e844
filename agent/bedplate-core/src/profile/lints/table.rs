//! Registry of lints. A value that is never right is an error, anything else a warning.

use super::Severity::{Error, Warning};
use super::{Lint, find};
use crate::profile::model::AcsPolicy;

/// Lints that remind of something still to be filled in. Only `profile check` prints them.
pub(super) const REMINDERS: [&str; 1] = ["no-window-yet"];

/// All lints. If several match a place, the first one gets it.
pub(super) static LINTS: &[Lint] = &[
    Lint {
        id: "amd-iommu-on",
        severity: Error,
        find: |view| find::args(view, |arg| arg.name == "amd_iommu" && arg.value == "on"),
        reason: "has no effect: `on` is not a value of this parameter, and AMD-Vi is on if the firmware offers it",
        source: "drivers/iommu/amd/init.c parse_amd_iommu_options",
        fix: "remove it",
    },
    Lint {
        id: "iommu-on",
        severity: Error,
        find: |view| find::args(view, |arg| arg.name == "iommu" && arg.value == "on"),
        reason: "has no effect: `on` is not a value of this parameter",
        source: "arch/x86/kernel/pci-dma.c iommu_setup",
        fix: "set `mode` in [iommu]",
    },
    Lint {
        id: "iommu-on-arm",
        severity: Error,
        find: find::iommu_on_arm,
        reason: "has no effect on Arm: only x86 reads it",
        source: "arch/x86/kernel/pci-dma.c; drivers/iommu/iommu.c iommu.passthrough",
        fix: "set `mode` in [iommu], or `iommu.passthrough=0` or `=1` by hand",
    },
    Lint {
        id: "x86-only-on-arm",
        severity: Warning,
        find: find::x86_only_on_arm,
        reason: "has no effect on Arm: only x86 kernels read it",
        source: "Documentation/admin-guide/kernel-parameters.txt; handbook §1.7",
        fix: "remove it",
    },
    Lint {
        id: "arm-only-on-x86",
        severity: Warning,
        find: find::arm_only_on_x86,
        reason: "has no effect on x86: only 64-bit Arm kernels read it",
        source: "Documentation/admin-guide/kernel-parameters.txt; handbook §1.7",
        fix: "remove it",
    },
    Lint {
        id: "other-vendors-iommu",
        severity: Error,
        find: find::other_vendors_iommu,
        reason: "has no effect on the CPUs of this profile",
        source: "drivers/iommu/intel/iommu.c intel_iommu_setup; drivers/iommu/amd/init.c",
        fix: "remove it; `mode` in [iommu] sets what the CPU needs",
    },
    Lint {
        id: "iommu-against-mode",
        severity: Error,
        find: |view| find::iommu_args(view, false),
        reason: "contradicts `mode` in [iommu]",
        source: "drivers/iommu/iommu.c; arch/x86/kernel/pci-dma.c",
        fix: "keep one of the two; `mode` also sets the CPU's own parameter",
    },
    Lint {
        id: "two-spellings",
        severity: Warning,
        find: find::two_spellings,
        reason: "sets the same kernel variable as another argument; the last one takes effect",
        source: "drivers/iommu/iommu.c iommu_set_def_domain_type; arch/x86/kernel/pci-dma.c",
        fix: "keep one, or preferably set `mode` in [iommu]",
    },
    Lint {
        id: "iommu-by-hand",
        severity: Warning,
        find: |view| find::iommu_args(view, true),
        reason: "duplicates `mode` in [iommu]",
        source: "drivers/iommu/iommu.c; arch/x86/kernel/pci-dma.c",
        fix: "remove it",
    },
    Lint {
        id: "acs-override",
        severity: Warning,
        find: |view| find::args(view, |arg| arg.name == "pcie_acs_override"),
        reason: "is not a mainline kernel parameter; a patched kernel only reports false isolation and clears no ACS bit",
        source: "drivers/pci/pci.c, which lacks this parameter",
        fix: "set `policy` in [acs] to `direct-p2p`",
    },
    Lint {
        id: "acs-invented",
        severity: Error,
        find: find::acs_invented,
        reason: "has no effect: the kernel does not have this option, and ACS stays unchanged",
        source: "drivers/pci/pci.c pci_setup reads only `config_acs=` and `disable_acs_redir=`",
        fix: "remove it; set `policy` in [acs] to `direct-p2p`",
    },
    Lint {
        id: "assign-busses",
        severity: Warning,
        find: |view| find::args(view, |arg| arg.name == "pci" && arg.value == "assign-busses"),
        reason: "renumbers every PCI bus: addresses in firmware tables, inventories and interface names change",
        source: "arch/x86/pci/common.c pcibios_setup; kernel-parameters.txt",
        fix: "remove it; if bridge windows are too small for VFs or BARs, use `pci=realloc`",
    },
    Lint {
        id: "config-acs-commas",
        severity: Error,
        find: find::config_acs_commas,
        reason: "is not part of `config_acs=`: a comma ends an option of `pci=`, so the kernel reads it as an unknown \
                 option",
        source: "drivers/pci/pci.c pci_setup; kernel-parameters.txt",
        fix: "separate the entries by `;`, or set `policy` in [acs] and let bedplate write them",
    },
    Lint {
        id: "acs-by-hand",
        severity: Warning,
        find: find::acs_by_hand,
        reason: "sets the same ACS bits as `policy` in [acs]: the kernel uses only one value",
        source: "drivers/pci/pci.c pci_setup keeps the last pointer",
        fix: "remove it, or set `policy` in [acs] to `keep`",
    },
    Lint {
        id: "acs-clear-with-vfio",
        severity: Error,
        find: |view| find::acs_with_vfio(view, AcsPolicy::Clear),
        reason: "removes the isolation of every port, which devices assigned to VMs need: one VM could reach another",
        source: "drivers/iommu/iommu.c pci_device_group",
        fix: "set `policy` in [acs] to `keep` on hosts that assign devices to VMs",
    },
    Lint {
        id: "acs-direct-with-vfio",
        severity: Warning,
        find: |view| find::acs_with_vfio(view, AcsPolicy::DirectP2p),
        reason: "is refused at every port with a VFIO device below it",
        source: "drivers/iommu/iommu.c pci_device_group",
        fix: "set `policy` in [acs] to `keep`, unless GPUs and devices assigned to VMs are below different switches",
    },
    Lint {
        id: "vfio-without-iommu",
        severity: Error,
        find: find::vfio_without_iommu,
        reason: "needs an IOMMU, which `mode` in [iommu] turns off",
        source: "drivers/vfio/group.c; Documentation/driver-api/vfio.rst",
        fix: "set `mode` to `translated` or `passthrough-required`: both translate devices assigned to VMs",
    },
    Lint {
        id: "realloc-on-mi300x",
        severity: Warning,
        find: find::realloc_on_mi300x,
        reason: "lets the kernel move the large BARs of Instinct MI300 and MI350; AMD advises to leave them where \
                 firmware put them",
        source: "docs.sglang.io/platforms/amd_gpu; drivers/pci/setup-bus.c",
        fix: "write `pci=realloc=off`",
    },
    Lint {
        id: "raw-qp-enforcement",
        severity: Error,
        find: |view| {
            find::parameters(view, |p| {
                p.module == "rdma_ucm" && p.name == "disable_raw_qp_enforcement"
            })
        },
        reason: "does not exist: rdma_ucm lacks this parameter",
        source: "drivers/infiniband/core/ucma.c",
        fix: "remove it; it is unrelated to GPUDirect",
    },
    Lint {
        id: "raw-qp-enforcement",
        severity: Warning,
        find: |view| {
            find::parameters(view, |p| {
                p.module == "ib_uverbs" && p.name == "disable_raw_qp_enforcement"
            })
        },
        reason: "lets every user create raw packet queue pairs, exists only in MLNX_OFED, and is not needed for GPUDirect",
        source: "libvma, which notes that upstream drivers lack it",
        fix: "remove it",
    },
    Lint {
        id: "nvreg-case",
        severity: Error,
        find: find::nvreg_case,
        reason: "is misspelled, so the driver ignores it: parameter names are case-sensitive",
        source: "open-gpu-kernel-modules kernel-open/nvidia/nv-reg.h; kernel/module/main.c",
        fix: "use NVreg_EnablePCIERelaxedOrderingMode, or for another parameter the spelling in nv-reg.h",
    },
    Lint {
        id: "nvreg-gone",
        severity: Warning,
        find: |view| find::parameters(view, |p| p.name == "NVreg_RegisterForACPIEvents"),
        reason: "was removed in driver 515.48: newer drivers ignore it with a notice",
        source: "open-gpu-kernel-modules kernel-open/nvidia/nv-reg.h, tags 515.43.04 and 515.48.07",
        fix: "remove it",
    },
    Lint {
        id: "registry-dwords-on-cmdline",
        severity: Warning,
        find: |view| find::parameters(view, |p| p.on_cmdline && p.name == "NVreg_RegistryDwords"),
        reason: "contains semicolons, at which GRUB and older modprobe cut it",
        source: "grub-core/lib/cmdline.c; kmod libkmod/libkmod-config.c",
        fix: "move it to [modules.options.nvidia]",
    },
    Lint {
        id: "module-option-on-cmdline",
        severity: Warning,
        find: find::module_option_on_cmdline,
        reason: "reaches a loadable module only through modprobe, and older versions split it at blanks and dots",
        source: "kmod libkmod/libkmod-config.c kmod_config_parse_kcmdline",
        fix: "move it to [modules.options.MODULE]",
    },
    Lint {
        id: "reboot-cold",
        severity: Warning,
        find: |view| {
            find::args(view, |arg| {
                arg.name == "reboot" && arg.value.split(',').any(|v| v == "cold")
            })
        },
        reason: "is the default on x86 and does not cycle the power",
        source: "kernel/reboot.c; arch/x86/kernel/reboot.c",
        fix: "remove it; `methods` in [reboot] determine how the machine is restarted",
    },
    Lint {
        id: "unknown-lint",
        severity: Warning,
        find: find::unknown_lint,
        reason: "is not a lint id and allows nothing",
        source: "`bedplate profile check`, which prints the ids in brackets",
        fix: "correct the id, or remove the entry",
    },
    Lint {
        id: "no-such-module",
        severity: Error,
        find: |view| find::loaded(view, &["dma_buf"]),
        reason: "is not a module: DMA-BUF is part of the kernel itself",
        source: "drivers/base/Kconfig DMA_SHARED_BUFFER, a bool",
        fix: "remove it",
    },
    Lint {
        id: "no-such-module",
        severity: Error,
        find: |view| find::loaded(view, &["amd_peer_mem"]),
        reason: "does not exist: amdgpu registers itself with the RDMA stack, or DMA-BUF is used",
        source: "ROCm amdkfd kfd_peerdirect.c, whose peer client is called amdkfd",
        fix: "remove it",
    },
    Lint {
        id: "nv-peer-mem",
        severity: Warning,
        find: |view| find::loaded(view, &["nv_peer_mem"]),
        reason: "is the deprecated predecessor of nvidia_peermem, which comes with the NVIDIA driver since R470",
        source: "CUDA GPUDirect RDMA guide; CUDA 11.4 and 12.2 release notes",
        fix: "set `gpudirect` in [modules] to `auto` or `peermem`",
    },
    Lint {
        id: "peermem-by-hand",
        severity: Warning,
        find: |view| find::loaded(view, &["nvidia_peermem"]),
        reason: "cannot load if ib_core does not export the peer-memory symbols, and is not needed if DMA-BUF works",
        source: "open-gpu-kernel-modules kernel-open/nvidia-peermem; nccl src/transport/net_ib/gdr.cc",
        fix: "set `gpudirect` in [modules] to `auto`, which loads it where needed and possible",
    },
    Lint {
        id: "nvidia-modules-listed",
        severity: Warning,
        find: |view| find::loaded(view, &["nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm"]),
        reason: "does not exist yet when modules-load.d is read, if a container (GPU Operator) or DKMS installs the \
                 driver",
        source: "systemd src/modules-load/modules-load.c; GPU Operator driver containers",
        fix: "remove it: nvidia-persistenced, or the operator, loads the driver",
    },
    Lint {
        id: "loaded-by-udev",
        severity: Warning,
        find: |view| find::loaded(view, &["mlx5_core", "mlx5_ib"]),
        reason: "is loaded by udev if the hardware is present",
        source: "rdma-core kernel-boot/rdma-hw-modules.rules",
        fix: "remove it",
    },
    Lint {
        id: "vfs-everywhere",
        severity: Warning,
        find: find::vfs_everywhere,
        reason: "selects every device with SR-IOV, including GPUs and NVMe drives",
        source: "drivers/pci/iov.c",
        fix: "add a vendor, driver, interface, or address to `select`",
    },
    Lint {
        id: "rules-unused",
        severity: Warning,
        find: find::rules_unused,
        reason: "creates no virtual functions on hosts: `managed` in [sriov] leaves them to another tool",
        source: "bedplate profile explain sriov.managed",
        fix: "allow the lint if the rule is for `render sriov-operator`; otherwise remove the rule, or set `managed` \
                 to `bedplate`",
    },
    Lint {
        id: "vf-in-switchdev",
        severity: Warning,
        find: find::vf_in_switchdev,
        reason: "sets a VLAN, trust or spoof check of VFs, which mlx5 refuses in switchdev mode",
        source: "drivers/net/ethernet/mellanox/mlx5/core/esw/legacy.c",
        fix: "set them on the VFs' representors, with bridge or tc",
    },
    Lint {
        id: "nccl-folklore",
        severity: Warning,
        find: find::nccl_folklore,
        reason: "is common advice, but unnecessary or harmful",
        source: "docs/nccl.md, entry of this variable",
        fix: "leave the variable unset; `bedplate nccl env -v` explains why",
    },
    Lint {
        id: "nccl-switched-off",
        severity: Warning,
        find: find::nccl_switched_off,
        reason: "disables a requirement of GPUDirect RDMA for every job on the host",
        source: "handbook §8.4, §8.5",
        fix: "remove it; a job that must run without can set it itself",
    },
    Lint {
        id: "nccl-typo",
        severity: Warning,
        find: find::nccl_typos,
        reason: "is read by no NCCL version from 2.0 to 2.30, and jobs do not report it",
        source: "nccl src/misc/param.cc and every use of it",
        fix: "correct the name; if a plug-in reads it, allow it under [lints]",
    },
    Lint {
        id: "no-window-yet",
        severity: Warning,
        find: find::no_window_yet,
        reason: "never opens: bedplate does not reboot this host, even for pending changes",
        source: "bedplate profile explain reboot.windows",
        fix: "set a window such as `windows = [\"Sat,Sun 02:00-05:00 Europe/Amsterdam\"]`, or `policy = \"never\"` for \
                 manual reboots",
    },
    Lint {
        id: "windows-unused",
        severity: Warning,
        find: find::windows_unused,
        reason: "has no effect: only `policy = \"schedule\"` reboots automatically",
        source: "bedplate profile explain reboot.policy",
        fix: "remove the windows, or set `policy` to `schedule`",
    },
];
