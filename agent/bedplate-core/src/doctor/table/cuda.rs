//! Symptoms of GPUs that jobs cannot use.

use super::super::{Symptom, conditions};
use super::{because, has, if_condition};

/// A GPU is missing, or reports errors.
pub(super) const GPU_LOST: Symptom = Symptom {
    id: "gpu-lost",
    title: "a GPU is missing, or reports errors (Xid)",
    means: "a GPU no longer answers, or reports errors of its own",
    phrases: &[
        "xid",
        "off the bus",
        "gpu fell off",
        "gpu lost",
        "gpu is lost",
        "lost a gpu",
        "lost gpu",
        "gpu missing",
        "missing gpu",
        "gpu is missing",
        "gpu disappeared",
        "gpu is gone",
        "gpu gone",
        "gpu dead",
        "gpu is dead",
        "fewer gpus",
        "not all gpus",
        "fell of the bus",
        "ecc",
        "ecc error",
        "ecc errors",
        "nvlink",
        "nvlink down",
        "nvlink error",
        "device handle for gpu",
        "gpus missing",
        "missing gpus",
    ],
    lines: &[
        has(&["NVRM: Xid (PCI:"]),
        has(&["fallen off the bus"]),
        has(&["GPU is lost"]),
        has(&["uncorrectable ECC error"]),
        has(&["Unable to determine the device handle for GPU"]),
    ],
    causes: &[
        if_condition(
            conditions::of_dead_gpu,
            "pcie.answer",
            "a GPU, or the port above it, that answers no read is gone for every program",
        ),
        if_condition(conditions::of_gpu, "pcie.log", "the kernel log names the GPU and the error"),
        if_condition(
            conditions::of_missing_gpu,
            "topology.devices",
            "a GPU that Linux does not list is gone for every program",
        ),
        because("modules.driver", "a GPU without its maker's driver is missing for CUDA"),
        if_condition(
            conditions::of_gpu_driver,
            "modules.log",
            "a GPU that its driver could not start is missing for CUDA",
        ),
        if_condition(
            conditions::of_gpus_link,
            "pcie.link-width",
            "lanes that failed come before a link that fails",
        ),
        if_condition(
            conditions::of_gpus_link,
            "pcie.aer",
            "a link that loses transactions ends in a GPU that does not answer",
        ),
    ],
};

/// CUDA sees no device.
pub(super) const NO_CUDA_DEVICE: Symptom = Symptom {
    id: "no-cuda-device",
    title: "CUDA sees no device",
    means: "programs find no GPU, or cannot create a context on one",
    phrases: &[
        "cuda sees no device",
        "no cuda device",
        "no cuda capable device",
        "cuda error 100",
        "cuda context",
        "nvidia smi no devices",
        "after acs was set",
        "no cuda gpus",
        "cuda not available",
        "cuda is not available",
        "cuda is available false",
        "cuda is available is false",
    ],
    lines: &[
        has(&["no CUDA-capable device"]),
        has(&["No CUDA GPUs are available"]),
        has(&["NVRM: The NVIDIA probe routine"]),
        has(&["RmInitAdapter failed"]),
    ],
    causes: &[
        if_condition(
            conditions::on_old_grace,
            "iommu.mode",
            "on Arm CPUs of NVIDIA before Linux 6.11 the driver cannot bind a process to a GPU whose DMA passes through, \
                 once ACS is on",
        ),
        because("modules.driver", "a GPU without its maker's driver is invisible to CUDA"),
        if_condition(
            conditions::of_gpu_driver,
            "modules.log",
            "the driver's modules were refused, or are not those of the libraries",
        ),
        if_condition(
            conditions::of_lost_gpu,
            "pcie.log",
            "a GPU that does not answer cannot be opened",
        ),
        if_condition(
            conditions::of_gpu_nodes,
            "limits.device-nodes",
            "a container that starts before the GPU's device nodes are there has none",
        ),
        if_condition(
            conditions::without_gpu,
            "topology.devices",
            "what Linux does not list no driver can open",
        ),
    ],
};

/// CUDA does not start.
pub(super) const CUDA_START: Symptom = Symptom {
    id: "cuda-start",
    title: "CUDA does not start (error 802 or 803)",
    means: "the driver sees the GPUs, and no program can start on them",
    phrases: &[
        "802",
        "system not ready",
        "system not yet initialized",
        "cudaerrorsystemnotready",
        "fabric manager",
        "fabricmanager",
        "nv fabricmanager",
        "imex",
        "sxid",
        "nvswitch",
        "nvlink domain",
        "cuda error",
        "cuda failure",
        "unhandled cuda error",
        "cuda does not start",
        "cuda initialization",
        "driver does not start",
        "api mismatch",
        "803",
        "version mismatch",
        "driver library version mismatch",
        "system driver mismatch",
        "driver mismatch",
    ],
    lines: &[
        has(&["system not yet initialized"]),
        has(&["Cuda failure 802"]),
        has(&["cudaErrorSystemNotReady"]),
        has(&["SXid (PCI:"]),
        has(&["NVRM: API mismatch"]),
        has(&["Driver/library version mismatch"]),
    ],
    causes: &[
        because(
            "modules.fabric-manager",
            "until the NVSwitches are set up every program gets error 802",
        ),
        because(
            "modules.driver-versions",
            "the loaded kernel module refuses programs with a library of another version (error 803)",
        ),
        if_condition(
            conditions::of_dead_gpu,
            "pcie.answer",
            "the driver waits for a GPU that does not answer",
        ),
        if_condition(
            conditions::of_gpu,
            "pcie.log",
            "the kernel log names the GPU or NVSwitch and the error",
        ),
        if_condition(
            conditions::of_gpu_driver,
            "modules.log",
            "the driver could not start a GPU, or is not of the libraries' version",
        ),
        because("modules.driver", "a GPU without its maker's driver is invisible to CUDA"),
        if_condition(
            conditions::of_gpu_nodes,
            "limits.device-nodes",
            "a container that starts before the GPU's device nodes are there has none",
        ),
    ],
};
