//! Modules that are not to be listed.

use super::{Modules, ModulesLayer};
use crate::section::{Lint, LintMatch, SectionLint, Severity};

/// The section's lints.
pub(super) const LINTS: &[SectionLint<ModulesLayer, Modules>] = &[
    Lint {
        id: "no-such-module",
        severity: Severity::Error,
        find: |section, _| loaded(section, &["dma_buf"]),
        reason: "is not a module: DMA-BUF is part of the kernel itself",
        source: "drivers/base/Kconfig DMA_SHARED_BUFFER, a bool",
        remedy: "drop it",
    },
    Lint {
        id: "no-such-module",
        severity: Severity::Error,
        find: |section, _| loaded(section, &["amd_peer_mem"]),
        reason: "does not exist: amdgpu registers itself with the RDMA stack, or DMA-BUF is used",
        source: "ROCm amdkfd kfd_peerdirect.c, whose peer client is called amdkfd",
        remedy: "drop it",
    },
    Lint {
        id: "nv-peer-mem",
        severity: Severity::Warning,
        find: |section, _| loaded(section, &["nv_peer_mem"]),
        reason: "is the deprecated predecessor of nvidia_peermem, which comes with the NVIDIA driver since R470",
        source: "CUDA GPUDirect RDMA guide; CUDA 11.4 and 12.2 release notes",
        remedy: "set `gpudirect` in [modules] to `auto` or `peermem`",
    },
    Lint {
        id: "peermem-by-hand",
        severity: Severity::Warning,
        find: |section, _| loaded(section, &["nvidia_peermem"]),
        reason: "cannot be loaded where ib_core does not export the peer-memory symbols, and is not needed where DMA-BUF works",
        source: "open-gpu-kernel-modules kernel-open/nvidia-peermem; nccl src/transport/net_ib/gdr.cc",
        remedy: "set `gpudirect` in [modules] to `auto`, which loads it where it is needed and can work",
    },
    Lint {
        id: "nvidia-modules-listed",
        severity: Severity::Warning,
        find: |section, _| {
            loaded(section, &["nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm"])
        },
        reason: "is not there yet when modules-load.d is read if a container (GPU Operator) or DKMS brings the driver",
        source: "systemd src/modules-load/modules-load.c; GPU Operator driver containers",
        remedy: "drop it: nvidia-persistenced, or the operator, loads the driver",
    },
    Lint {
        id: "loaded-by-udev",
        severity: Severity::Warning,
        find: |section, _| loaded(section, &["mlx5_core", "mlx5_ib"]),
        reason: "is loaded by udev wherever the hardware is",
        source: "rdma-core kernel-boot/rdma-hw-modules.rules",
        remedy: "drop it",
    },
];

/// Where one of these is wanted loaded.
fn loaded(section: &ModulesLayer, names: &[&str]) -> Vec<LintMatch> {
    let wanted = section.lists.loaded().filter(|(name, _)| names.contains(name));
    wanted.map(|(name, place)| LintMatch::new(place, name)).collect()
}
