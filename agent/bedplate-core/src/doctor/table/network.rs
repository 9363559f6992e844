//! Symptoms of NICs, their VFs, and connections between hosts.

use super::super::{Symptom, conditions};
use super::{because, has, when};

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
        when(
            conditions::of_dead_gpu,
            "pcie.answer",
            "ranks of a GPU that does not answer never finish",
        ),
        when(conditions::of_dead_nic, "pcie.answer", "a NIC that does not answer moves nothing"),
        when(
            conditions::of_gpu,
            "pcie.log",
            "a GPU that reported such an error stops its rank, and all wait",
        ),
        when(
            conditions::of_links,
            "pcie.log",
            "a link that was cut off keeps its device from answering",
        ),
        because("pcie.bus-master", "a device that may not do DMA moves nothing"),
        because("rdma.port-state", "a rail that is down takes the connections over it along"),
        because("rdma.link-layer", "a port on the wrong network reaches none of its peers"),
        because("rdma.gid", "a RoCE port without the right GID reaches none of its peers"),
        when(conditions::at_all, "rdma.netdev", "a RoCE port goes down with its network interface"),
        because("pcie.mps", "packets that are too large for the receiver are lost"),
        because("iommu.log", "DMA that was refused is data that never arrives"),
        because(
            "acs.path",
            "with translation, redirected transfers between GPUs have hung jobs (nccl#2079)",
        ),
    ],
};

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
        when(
            conditions::of_dead_nic,
            "pcie.answer",
            "a NIC, or the port above it, that answers no read has no port",
        ),
        when(
            conditions::of_missing_nic,
            "topology.devices",
            "a NIC that Linux does not list has no port",
        ),
        when(
            conditions::of_rdma_driver,
            "modules.log",
            "without its RDMA driver a NIC shows no RDMA port",
        ),
        when(
            conditions::of_lost_link,
            "pcie.log",
            "a NIC whose slot lost its link is gone with its ports",
        ),
        when(conditions::at_all, "rdma.netdev", "a RoCE port goes down with its network interface"),
        when(
            conditions::of_zero_address,
            "sriov.identity",
            "the subnet manager does not let in an InfiniBand VF without a GUID",
        ),
    ],
};

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
        when(
            conditions::of_no_port,
            "rdma.port-state",
            "NCCL takes ports that are active, and sockets where there is none",
        ),
        when(
            conditions::without_nic,
            "topology.devices",
            "without an RDMA NIC there is nothing but sockets",
        ),
        when(
            conditions::of_rdma_driver,
            "modules.log",
            "without the NIC's RDMA driver NCCL finds no RDMA device",
        ),
        when(
            conditions::at_all,
            "limits.device-nodes",
            "a program that cannot open /dev/infiniband/uverbs* sees no RDMA device",
        ),
        when(
            conditions::at_all,
            "sriov.drivers",
            "a pod whose VF has no RDMA device is left with the VF's network interface",
        ),
        when(conditions::of_dead_nic, "pcie.answer", "a NIC that does not answer carries nothing"),
    ],
};

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
        when(
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
        when(
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
        when(conditions::of_vfs, "profile.in-effect", "what the profile asks for is not made yet"),
        when(
            conditions::of_pci_argument,
            "cmdline.rejected",
            "the argument that makes room for VFs was not taken",
        ),
    ],
};
