//! Symptoms of failing GPUDirect RDMA.

use super::super::{Pattern, Symptom, conditions};
use super::{because, has, when};

pub(super) const REGISTRATION: Symptom = Symptom {
    id: "registration",
    title: "memory cannot be registered or shared: ibv_reg_mr, memlock, /dev/shm",
    means: "a program cannot lock, map or share the memory that it needs",
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
        "bus error",
    ],
    lines: &[
        has(&["Call to ibv_reg_mr", "failed"]),
        has(&["Call to ibv_reg_dmabuf_mr", "failed"]),
        has(&["Call to ibv_create_qp failed"]),
        has(&["Call to ibv_create_cq failed"]),
        has(&["creating shared memory segment"]),
    ],
    causes: &[
        because("limits.memlock", "registered memory is locked, and the job's limit is too low"),
        because("limits.shm", "ranks of one host share memory in /dev/shm, which is too small"),
        because(
            "modules.gpudirect",
            "without DMA-BUF and nvidia_peermem GPU memory cannot be registered (`Bad address`)",
        ),
        because("acs.groups", "the driver refuses DMA-BUF between functions of different groups"),
        because(
            "firmware.bar1-size",
            "all GPU memory registered at a time must fit into the GPU's window",
        ),
    ],
};

pub(super) const GDR_DISABLED: Symptom = Symptom {
    id: "gdr-disabled",
    title: "GDR disabled",
    means: "NCCL uses RDMA, but copies GPU memory through host memory",
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
        Pattern { has: &["via NET/"], lacks: &["/GDRDMA", "NET/Socket/"] },
    ],
    causes: &[
        because(
            "modules.gpudirect",
            "NCCL tries DMA-BUF first, then nvidia_peermem, and copies without either",
        ),
        because("modules.driver", "only the vendor's driver exports GPU memory"),
        because(
            "topology.pairing",
            "NCCL copies where GPU and NIC are further apart than a common PCIe switch",
        ),
        because("rdma.nccl-conf", "the file for all jobs disables it"),
        because("acs.groups", "the driver refuses DMA-BUF between functions of different groups"),
        because(
            "topology.data-direct",
            "without its Data Direct function, a NIC reaches GPU memory over the CPU's links",
        ),
        when(
            conditions::with_data_direct,
            "acs.shape",
            "a Data Direct function is used only if the ports above it have the ACS bits of its topology",
        ),
    ],
};

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
        when(conditions::of_peermem, "modules.log", "the kernel logged why it refused the module"),
        because("modules.gpudirect", "the module's prerequisites are missing, or nothing loads it"),
        because("modules.leftovers", "nv_peer_mem registers first, which blocks its successor"),
        because("modules.driver", "nvidia_peermem needs the nvidia module"),
    ],
};
