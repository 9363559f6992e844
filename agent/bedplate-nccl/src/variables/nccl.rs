//! NCCL's variables. Versions and defaults are from the source of every release from v2.4.2-1 to v2.30.7-1.

use super::super::version::Version;
use super::{Advice, Variable, nccl_ib};

/// Returns the table in alphabetical order.
pub(super) fn table() -> Vec<Variable> {
    let mut rows = [VARIABLES, nccl_ib::VARIABLES].concat();
    rows.sort_by_key(|row| row.name);
    rows
}

/// Variables other than NCCL_IB_*.
const VARIABLES: &[Variable] = &[
    Variable {
        name: "NCCL_CROSS_NIC",
        since: Some(Version(2, 5)),
        removed: None,
        defaults: &[(Version(2, 5), "2 (automatic)")],
        decides: "whether rings and trees may use different NICs on different nodes",
        advice: Some(Advice { value: "0 or 1", why_not: "NCCL chooses by the topology" }),
        source: "handbook §8.5",
    },
    Variable {
        name: "NCCL_CUMEM_ENABLE",
        since: Some(Version(2, 18)),
        removed: None,
        defaults: &[
            (Version(2, 18), "0"),
            (Version(2, 19), "-2 (automatic: driver for CUDA 12.0 or later)"),
        ],
        decides: "whether buffers are allocated with CUDA's cuMem functions",
        advice: Some(Advice {
            value: "0",
            why_not: "multi-node NVLink and symmetric memory need it",
        }),
        source: "NCCL src/misc/cudawrap.cc, src/mnnvl.cc, src/init.cc",
    },
    Variable {
        name: "NCCL_DMABUF_ENABLE",
        since: Some(Version(2, 13)),
        removed: None,
        defaults: &[(Version(2, 13), "1")],
        decides: "whether GPU memory is registered with NICs through DMA-BUF",
        advice: Some(Advice {
            value: "0",
            why_not: "disables DMA-BUF, and with it GPUDirect RDMA unless nvidia_peermem is loaded; `bedplate \
                      verify` finds the cause of DMA-BUF problems, usually ACS",
        }),
        source: "handbook §6.3, §8.5",
    },
    Variable {
        name: "NCCL_GDRCOPY_ENABLE",
        since: Some(Version(2, 9)),
        removed: None,
        defaults: &[(Version(2, 9), "0")],
        decides: "whether control words are written with GDRCopy",
        advice: None,
        source: "handbook §8.5",
    },
    Variable {
        name: "NCCL_IGNORE_CPU_AFFINITY",
        since: None,
        removed: None,
        defaults: &[(Version(2, 4), "0 (variable since 2.4.6)")],
        decides: "whether NCCL's threads use the CPUs near the GPU even if the process may use only others",
        advice: Some(Advice {
            value: "1",
            why_not: "set by cloud images; threads then run on CPUs that Slurm or Kubernetes gave to other jobs: bind the job to the CPUs near its GPUs instead",
        }),
        source: "NCCL src/graph/topo.cc",
    },
    Variable {
        name: "NCCL_MNNVL_ENABLE",
        since: Some(Version(2, 21)),
        removed: None,
        defaults: &[(Version(2, 21), "2 (automatic)")],
        decides: "whether NVLink connects GPUs of several nodes (NVL72)",
        advice: Some(Advice {
            value: "0 or 1",
            why_not: "automatic if the GPUs of the nodes are in one NVLink clique; 0 moves their traffic to the RDMA NICs (`bedplate verify` finds IMEX and fabric problems)",
        }),
        source: "NCCL src/init.cc, src/mnnvl.cc",
    },
    Variable {
        name: "NCCL_NCHANNELS_PER_NET_PEER",
        since: Some(Version(2, 12)),
        removed: None,
        defaults: &[
            (Version(2, 12), "2"),
            (Version(2, 20), "automatic (-1)"),
            (Version(2, 28), "automatic (unset)"),
        ],
        decides: "channels for each peer across the network in point-to-point operations (all-to-all); collectives ignore it",
        advice: Some(Advice {
            value: "4 or more",
            why_not: "automatic since 2.20, by rate and number of the NICs near the GPU",
        }),
        source: "NCCL src/graph/paths.cc, since 2.28 also src/init.cc",
    },
    Variable {
        name: "NCCL_NET",
        since: Some(Version(2, 10)),
        removed: None,
        defaults: &[(Version(2, 10), "unset (a plugin, then IB, then Socket)")],
        decides: "network to use, by name",
        advice: Some(Advice {
            value: "IB",
            why_not: "already tried first; if set, jobs fail on hosts without InfiniBand or RoCE",
        }),
        source: "handbook §8.5",
    },
    Variable {
        name: "NCCL_NET_GDR_C2C",
        since: Some(Version(2, 26)),
        removed: None,
        defaults: &[(Version(2, 26), "0"), (Version(2, 27), "1")],
        decides: "whether GPUDirect RDMA uses chip-to-chip links",
        advice: None,
        source: "handbook §8.4",
    },
    Variable {
        name: "NCCL_NET_GDR_LEVEL",
        since: None,
        removed: None,
        defaults: &[
            (Version(2, 4), "2 (PXB; numbers only)"),
            (Version(2, 6), "PXB"),
            (Version(2, 29), "P2C with NCCL_NET_GDR_C2C=1, else PXB"),
        ],
        decides: "maximum distance of GPU and NIC for GPUDirect RDMA",
        advice: Some(Advice {
            value: "5",
            why_not: "a legacy number for SYS: any distance, which across sockets can be slower than staging in host \
                      memory; if needed, use a name (PHB) and measure",
        }),
        source: "handbook §8.4; NCCL src/graph/paths.cc, src/transport/net.cc",
    },
    Variable {
        name: "NCCL_NET_GDR_READ",
        since: None,
        removed: None,
        defaults: &[
            (Version(2, 4), "-2 (if the GPU has NVLink)"),
            (Version(2, 19), "-2 (on Ampere and later, else if the GPU has NVLink)"),
        ],
        decides: "whether NICs read GPU memory when sending",
        advice: Some(Advice {
            value: "1",
            why_not: "automatic; since 2.19 always on for Ampere and later",
        }),
        source: "handbook §8.4; NCCL src/graph/paths.cc",
    },
    Variable {
        name: "NCCL_NET_MERGE_LEVEL",
        since: Some(Version(2, 24)),
        removed: None,
        defaults: &[(Version(2, 24), "PORT (ports of one adapter)")],
        decides: "maximum distance of ports that form one NIC",
        advice: Some(Advice {
            value: "LOC",
            why_not: "merges nothing, so that each port is a NIC of its own; a higher level than PORT can give NICs to GPUs that are far away",
        }),
        source: "NCCL src/graph/topo.cc",
    },
    Variable {
        name: "NCCL_NET_PLUGIN",
        since: Some(Version(2, 11)),
        removed: None,
        defaults: &[(Version(2, 11), "libnccl-net.so, if it can be loaded")],
        decides: "network plugins to load: file, or suffix of libnccl-net-; `none` (since 2.28: no plugin)",
        advice: Some(Advice {
            value: "none",
            why_not: "NCCL's own transport is used anyway if there is no plugin; some networks (EFA) need theirs",
        }),
        source: "NCCL src/plugin/net.cc",
    },
    Variable {
        name: "NCCL_NVLS_ENABLE",
        since: Some(Version(2, 17)),
        removed: None,
        defaults: &[(Version(2, 17), "1"), (Version(2, 18), "2 (automatic)")],
        decides: "whether NVSwitches reduce and multicast (NVLink SHARP)",
        advice: Some(Advice {
            value: "0",
            why_not: "automatic if the GPUs support multicast; 0 hides problems of the fabric manager or IMEX, which `bedplate verify` finds",
        }),
        source: "NCCL src/transport/nvls.cc",
    },
    Variable {
        name: "NCCL_P2P_LEVEL",
        since: None,
        removed: None,
        defaults: &[
            (Version(2, 4), "3 (PHB; numbers only)"),
            (Version(2, 5), "3 (PHB) on several sockets, 2 (PXB) on one; numbers only"),
            (Version(2, 6), "SYS; PXB on Arm and Intel Broadwell"),
            (Version(2, 7), "SYS; PXB on Arm and Intel Broadwell, PHB on other Intel CPUs"),
            (Version(2, 9), "SYS; PXB on Arm, Intel and Zhaoxin CPUs"),
            (Version(2, 23), "PXB; SYS on AMD CPUs with at most 2 GPUs"),
        ],
        decides: "maximum distance for direct transfers between GPUs over PCIe",
        advice: Some(Advice {
            value: "a number",
            why_not: "legacy numbers mean other distances in other versions; invalid levels are silently ignored",
        }),
        source: "handbook §8.3, §8.4; NCCL src/graph/paths.cc, src/transport/p2p.cc",
    },
    Variable {
        name: "NCCL_SHM_DISABLE",
        since: None,
        removed: None,
        defaults: &[(Version(2, 4), "0")],
        decides: "whether shared memory is disabled",
        advice: Some(Advice { value: "0", why_not: "already the default" }),
        source: "handbook §8.5",
    },
    Variable {
        name: "NCCL_SOCKET_IFNAME",
        since: None,
        removed: None,
        defaults: &[(Version(2, 4), "unset (NCCL selects one)")],
        decides: "interfaces for the bootstrap, for addresses exchanged by NET/IB, and for NET/Socket data",
        advice: None,
        source: "handbook §8.5",
    },
];
