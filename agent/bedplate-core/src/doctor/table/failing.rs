//! Symptoms of what does not work at all.

use super::super::{Pattern, Symptom, conditions};
use super::{because, has, where_so};

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
        where_so(
            conditions::of_dead_gpu,
            "pcie.answer",
            "a GPU, or the port above it, that answers no read is gone for every program",
        ),
        where_so(conditions::of_gpu, "pcie.log", "the kernel log names the GPU and the error"),
        where_so(
            conditions::of_missing_gpu,
            "topology.devices",
            "a GPU that Linux does not list is gone for every program",
        ),
        because("modules.driver", "a GPU without its maker's driver is missing for CUDA"),
        where_so(
            conditions::of_gpu_driver,
            "modules.log",
            "a GPU that its driver could not start is missing for CUDA",
        ),
        where_so(
            conditions::of_gpus_link,
            "pcie.link-width",
            "lanes that failed come before a link that fails",
        ),
        where_so(
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
        where_so(
            conditions::on_old_grace,
            "iommu.mode",
            "on Arm CPUs of NVIDIA before Linux 6.11 the driver cannot bind a process to a GPU whose DMA passes through, \
                 once ACS is on",
        ),
        because("modules.driver", "a GPU without its maker's driver is invisible to CUDA"),
        where_so(
            conditions::of_gpu_driver,
            "modules.log",
            "the driver's modules were refused, or are not those of the libraries",
        ),
        where_so(
            conditions::of_lost_gpu,
            "pcie.log",
            "a GPU that does not answer cannot be opened",
        ),
        where_so(
            conditions::of_gpu_nodes,
            "limits.device-nodes",
            "a container that starts before the GPU's device nodes are there has none",
        ),
        where_so(
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
        where_so(
            conditions::of_dead_gpu,
            "pcie.answer",
            "the driver waits for a GPU that does not answer",
        ),
        where_so(
            conditions::of_gpu,
            "pcie.log",
            "the kernel log names the GPU or NVSwitch and the error",
        ),
        where_so(
            conditions::of_gpu_driver,
            "modules.log",
            "the driver could not start a GPU, or is not of the libraries' version",
        ),
        because("modules.driver", "a GPU without its maker's driver is invisible to CUDA"),
        where_so(
            conditions::of_gpu_nodes,
            "limits.device-nodes",
            "a container that starts before the GPU's device nodes are there has none",
        ),
    ],
};

/// A job hangs.
pub(super) const HANGS: Symptom = Symptom {
    id: "job-hangs",
    title: "a job hangs, or times out",
    means: "ranks wait for each other, and nothing moves or a watchdog ends it",
    phrases: &[
        "hang",
        "hangs",
        "hung",
        "job hangs",
        "hanging",
        "stuck",
        "deadlock",
        "nccl timeout",
        "timeout",
        "timed out",
        "watchdog",
        "collective operation timeout",
        "never finishes",
    ],
    lines: &[
        has(&["Watchdog caught collective operation timeout"]),
        has(&["[Rank ", "timeout"]),
        has(&["Timeout waiting for key"]),
    ],
    causes: &[
        where_so(
            conditions::of_dead_gpu,
            "pcie.answer",
            "ranks of a GPU that does not answer never finish",
        ),
        where_so(
            conditions::of_dead_nic,
            "pcie.answer",
            "a NIC that does not answer moves nothing",
        ),
        where_so(
            conditions::of_gpu,
            "pcie.log",
            "a GPU that reported such an error stops its rank, and all wait",
        ),
        where_so(
            conditions::of_links,
            "pcie.log",
            "a link that was cut off keeps its device from answering",
        ),
        because("pcie.bus-master", "a device that may not do DMA moves nothing"),
        because("rdma.port-state", "a rail that is down takes the connections over it along"),
        because("rdma.link-layer", "a port on the wrong network reaches none of its peers"),
        because("rdma.gid", "a RoCE port without the right GID reaches none of its peers"),
        where_so(
            conditions::at_all,
            "rdma.netdev",
            "a RoCE port goes down with its network interface",
        ),
        because("pcie.mps", "packets that are too large for the receiver are lost"),
        because("iommu.log", "DMA that was refused is data that never arrives"),
        because(
            "acs.path",
            "with translation, redirected transfers between GPUs have hung jobs (nccl#2079)",
        ),
    ],
};

/// NIC port down.
pub(super) const NIC_DOWN: Symptom = Symptom {
    id: "nic-down",
    title: "NIC port down",
    means: "a port of an RDMA NIC is not active",
    phrases: &[
        "port down",
        "nic down",
        "link down",
        "no carrier",
        "port is down",
        "port not active",
        "link is down",
        "link flapping",
        "link flaps",
        "port flapping",
        "cable unplugged",
        "ib down",
    ],
    lines: &[
        has(&["mlx5_core", "Cable unplugged"]),
        has(&["mlx5_core", "Link down"]),
        has(&["mlx5_", "Link DOWN"]),
        has(&["Got async event : port error"]),
    ],
    causes: &[
        because("rdma.port-state", "NCCL and every other RDMA program use active ports only"),
        where_so(
            conditions::of_dead_nic,
            "pcie.answer",
            "a NIC, or the port above it, that answers no read has no port",
        ),
        where_so(
            conditions::of_missing_nic,
            "topology.devices",
            "a NIC that Linux does not list has no port",
        ),
        where_so(
            conditions::of_rdma_driver,
            "modules.log",
            "without its RDMA driver a NIC shows no RDMA port",
        ),
        where_so(
            conditions::of_lost_link,
            "pcie.log",
            "a NIC whose slot lost its link is gone with its ports",
        ),
        where_so(
            conditions::at_all,
            "rdma.netdev",
            "a RoCE port goes down with its network interface",
        ),
        where_so(
            conditions::of_zero_address,
            "sriov.identity",
            "the subnet manager does not let in an InfiniBand VF without a GUID",
        ),
    ],
};

/// NET/Socket fallback.
pub(super) const SOCKET_FALLBACK: Symptom = Symptom {
    id: "socket-fallback",
    title: "NET/Socket fallback",
    means: "NCCL sends by TCP instead of RDMA",
    phrases: &[
        "net socket",
        "network socket",
        "socket fallback",
        "falls back to socket",
        "falls back to sockets",
        "fell back to socket",
        "fell back to sockets",
        "fallback to socket",
        "fallback to sockets",
        "falls back to tcp",
        "fell back to tcp",
        "fallback to tcp",
        "tcp fallback",
        "uses socket",
        "uses sockets",
        "using socket",
        "using sockets",
        "over sockets",
        "uses tcp",
        "using tcp",
        "over tcp",
        "tcp instead of",
        "sockets instead of",
        "not using rdma",
        "not using ib",
        "not using infiniband",
        "not using roce",
        "no ib device",
        "no ib devices",
        "no rdma device",
        "no rdma devices",
        "using network socket",
        "net ib no device found",
    ],
    lines: &[
        has(&["NCCL INFO", "Using network Socket"]),
        has(&["via NET/Socket/"]),
        has(&["NET/IB : No device found"]),
    ],
    causes: &[
        because("rdma.nccl-conf", "the file for all jobs leaves them without RDMA"),
        where_so(
            conditions::of_no_port,
            "rdma.port-state",
            "NCCL takes ports that are active, and sockets where there is none",
        ),
        where_so(
            conditions::without_nic,
            "topology.devices",
            "without an RDMA NIC there is nothing but sockets",
        ),
        where_so(
            conditions::of_rdma_driver,
            "modules.log",
            "without the NIC's RDMA driver NCCL finds no RDMA device",
        ),
        where_so(
            conditions::at_all,
            "limits.device-nodes",
            "a program that cannot open /dev/infiniband/uverbs* sees no RDMA device",
        ),
        where_so(
            conditions::at_all,
            "sriov.drivers",
            "a pod whose VF has no RDMA device is left with the VF's network interface",
        ),
        where_so(
            conditions::of_dead_nic,
            "pcie.answer",
            "a NIC that does not answer carries nothing",
        ),
    ],
};

/// RDMA connections fail or time out.
pub(super) const CONNECT: Symptom = Symptom {
    id: "rdma-connect",
    title: "RDMA connections fail or time out",
    means: "RDMA devices are used, and a connection is not made or breaks",
    phrases: &[
        "rdma connections fail",
        "unhandled system error",
        "rdma connection",
        "ibv modify qp",
        "modify qp",
        "completion with error",
        "got completion",
        "retry exceeded",
        "retry exc err",
        "gid index",
        "no gid",
        "wrong gid",
        "unable to reach peer over rdma",
    ],
    lines: &[
        has(&["Call to ibv_modify_qp failed"]),
        has(&["NET/IB", "Got completion"]),
        has(&["Call to ibv_query_gid", "failed"]),
    ],
    causes: &[
        because(
            "rdma.gid",
            "RoCE v2 sends from a GID: without one, or by a link-local one, peers are not reached",
        ),
        where_so(
            conditions::at_all,
            "rdma.netdev",
            "an interface that is down has no addresses for RoCE",
        ),
        because(
            "rdma.link-layer",
            "a port on Ethernet does not reach peers on InfiniBand, nor the other way round",
        ),
        because(
            "sriov.identity",
            "VFs without an address are not let in, and those with the same take each other's traffic",
        ),
        because("rdma.port-state", "a connection over a port that goes down breaks"),
        where_so(
            conditions::of_lost_link,
            "pcie.log",
            "a NIC whose slot lost its link is gone under its connections",
        ),
        because("rdma.pfc", "a network that drops packets ends connections (`retry exceeded`)"),
        because("pcie.bus-master", "a NIC that may not do DMA completes no transfer"),
        because(
            "rdma.nccl-conf",
            "a GID index or port that the file for all jobs sets may be wrong",
        ),
        because("iommu.log", "transfers that the IOMMU refuses end in errors of completion"),
    ],
};

/// Memory cannot be registered.
pub(super) const REGISTRATION: Symptom = Symptom {
    id: "registration",
    title: "memory cannot be registered or shared: ibv_reg_mr, memlock, /dev/shm",
    means: "a program cannot lock, map or share the memory that it is to use",
    phrases: &[
        "ibv reg mr",
        "reg mr",
        "memlock",
        "locked memory",
        "max locked memory",
        "cannot allocate memory",
        "ibv create qp",
        "memory registration",
        "ulimit",
        "shm",
        "dev shm",
        "shared memory",
        "no space left on device",
    ],
    lines: &[
        has(&["Call to ibv_reg_mr", "failed"]),
        has(&["Call to ibv_reg_dmabuf_mr", "failed"]),
        has(&["Call to ibv_create_qp failed"]),
        has(&["Call to ibv_create_cq failed"]),
        has(&["creating shared memory segment"]),
    ],
    causes: &[
        because(
            "limits.memlock",
            "what is registered is locked, and the limit of the job's process is short",
        ),
        because("limits.shm", "ranks of one host share memory in /dev/shm, and it is too small"),
        because(
            "modules.gpudirect",
            "without DMA-BUF and nvidia_peermem GPU memory cannot be registered (`Bad address`)",
        ),
        because("acs.groups", "the driver refuses DMA-BUF between functions of different groups"),
        because(
            "firmware.bar1-size",
            "GPU memory that is registered at a time has to fit into the GPU's window",
        ),
    ],
};

/// GDR disabled.
pub(super) const GDR_DISABLED: Symptom = Symptom {
    id: "gdr-disabled",
    title: "GDR disabled",
    means: "NCCL uses RDMA, and copies GPU memory through the host's",
    phrases: &[
        "gdr disabled",
        "gdrdma missing",
        "no gdr",
        "gdr not working",
        "gdr not used",
        "gpudirect not working",
        "gpu direct not working",
        "gpudirect rdma not working",
        "gpudirect does not work",
        "gdr is disabled",
        "gpu direct rdma disabled",
        "gpudirect rdma disabled",
        "no gdrdma",
        "gpudirect disabled",
        "gpudirect rdma not used",
    ],
    lines: &[
        has(&["GPU Direct RDMA Disabled"]),
        Pattern { has: &["via NET/IB/"], lacks: &["/GDRDMA"] },
    ],
    causes: &[
        because(
            "modules.gpudirect",
            "NCCL asks for DMA-BUF first, then for nvidia_peermem, and copies without either",
        ),
        because("modules.driver", "only the maker's driver gives out GPU memory"),
        because(
            "topology.pairing",
            "NCCL copies where GPU and NIC are further apart than a common PCIe switch",
        ),
        because("rdma.nccl-conf", "the file for all jobs switches it off"),
        because("acs.groups", "the driver refuses DMA-BUF between functions of different groups"),
        because(
            "topology.data-direct",
            "without its Data Direct function a NIC reaches GPU memory by the CPU's links",
        ),
        where_so(
            conditions::with_data_direct,
            "acs.shape",
            "a Data Direct function is used only where the ports above it have the bits of its shape",
        ),
    ],
};

/// Peermem won't load.
pub(super) const PEERMEM: Symptom = Symptom {
    id: "peermem",
    title: "peermem won't load",
    means: "nvidia_peermem cannot be loaded, or does not work",
    phrases: &[
        "peermem wont load",
        "peermem",
        "nvidia peermem",
        "nv peer mem",
        "could not insert nvidia peermem",
    ],
    lines: &[
        has(&["nvidia_peermem: "]),
        has(&["nvidia-peermem ", "ERROR"]),
        has(&["could not insert", "peermem"]),
    ],
    causes: &[
        where_so(
            conditions::of_peermem,
            "modules.log",
            "the kernel said why it refused the module",
        ),
        because("modules.gpudirect", "what the module needs is missing, or nothing loads it"),
        because("modules.leftovers", "nv_peer_mem registers first, and its successor cannot"),
        because("modules.driver", "nvidia_peermem needs the nvidia module"),
    ],
};

/// VFs missing.
pub(super) const VFS_MISSING: Symptom = Symptom {
    id: "vfs-missing",
    title: "VFs missing",
    means: "virtual functions are not there, or fewer than asked for",
    phrases: &[
        "vfs missing",
        "no vfs",
        "missing vfs",
        "vf missing",
        "vfs not created",
        "vf not created",
        "sriov numvfs",
        "sr iov",
        "virtual functions",
    ],
    lines: &[
        has(&["not enough MMIO resources for SR-IOV"]),
        has(&["SR-IOV: bus number out of range"]),
        has(&["cannot configure SR-IOV"]),
    ],
    causes: &[
        because("sriov.counts", "a VF that was made has gone since"),
        because("sriov.drivers", "a VF without its driver shows neither interface nor RDMA device"),
        because(
            "firmware.sriov-resources",
            "the firmware has given VFs no addresses, and Linux makes none without",
        ),
        because("firmware.ari", "without ARI a function has room for seven VFs at most"),
        where_so(
            conditions::of_vfs,
            "profile.in-effect",
            "what the profile asks for is not made yet",
        ),
        where_so(
            conditions::of_pci_argument,
            "cmdline.rejected",
            "the argument that makes room for VFs was not taken",
        ),
    ],
};
