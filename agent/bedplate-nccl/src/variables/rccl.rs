//! RCCL's variables. RCCL is a fork of NCCL: NCCL's variables, and those that differ, are from the source of its
//! releases from ROCm 4.2 (2.8.4) to 2.21.5. Later changes are from RCCL's changelog, or unknown.

use super::super::library::Library;
use super::super::version::Version;
use super::{Advice, Variable, nccl};

/// Newest version with reviewed source.
pub(crate) const READ: Version = Version(2, 21);

/// NCCL's variables without effect: cuMem is always off (src/misc/rocmwrap.cc), which multi-node NVLink needs, and NVLS is
/// compiled only for CUDA (src/transport/nvls.cc).
const WITHOUT_EFFECT: [&str; 3] = ["NCCL_CUMEM_ENABLE", "NCCL_MNNVL_ENABLE", "NCCL_NVLS_ENABLE"];

/// Entries that differ from NCCL's.
pub(super) const OWN: &[Variable] = &[
    Variable {
        name: "NCCL_DMABUF_ENABLE",
        since: Some(Version(2, 13)),
        removed: None,
        defaults: &[
            (Version(2, 13), "0"),
            (Version(2, 28), "1 from ROCm 7.12 on, 0 before"),
            (Version(2, 29), "1, after peer memory"),
        ],
        decides: "whether GPU memory is registered with NICs through DMA-BUF",
        advice: Some(Advice {
            value: "1",
            why_not: "only needed up to ROCm 7.11 on kernels without amdgpu peer memory (`bedplate verify`)",
        }),
        source: "RCCL src/misc/rocmwrap.cc, CHANGELOG",
    },
    Variable {
        name: "NCCL_NCHANNELS_PER_NET_PEER",
        since: Some(Version(2, 12)),
        removed: None,
        defaults: &[(Version(2, 12), "1"), (Version(2, 20), "-1 (automatic)")],
        decides: "channels for each peer across the network in point-to-point operations (all-to-all)",
        advice: Some(Advice {
            value: "4 or more",
            why_not: "automatic since 2.20, by rate and number of the NICs near the GPU",
        }),
        source: "RCCL src/graph/paths.cc",
    },
    Variable {
        name: "NCCL_NET_GDR_LEVEL",
        since: None,
        removed: None,
        defaults: &[(
            Version(2, 8),
            "PXB; PHB on AMD Rome if GPU and NIC are on one CPU node; other values on some known machines",
        )],
        decides: "maximum distance of GPU and NIC for GPUDirect RDMA",
        advice: Some(Advice {
            value: "a number",
            why_not: "legacy numbers are misleading: 3 is PHB, 4 and more are SYS",
        }),
        source: "RCCL src/graph/paths.cc",
    },
    Variable {
        name: "NCCL_NET_GDR_READ",
        since: None,
        removed: None,
        defaults: &[
            (Version(2, 8), "-2 (if the GPU has xGMI)"),
            (Version(2, 20), "-2 (always on AMD GPUs)"),
        ],
        decides: "whether NICs read GPU memory when sending",
        advice: Some(Advice { value: "1", why_not: "automatic; always on since 2.20" }),
        source: "RCCL src/graph/paths.cc",
    },
    Variable {
        name: "NCCL_P2P_LEVEL",
        since: None,
        removed: None,
        defaults: &[
            (Version(2, 8), "SYS; PXB on Arm, Intel Broadwell and Zhaoxin"),
            (Version(2, 9), "SYS; PXB on Arm, Intel and Zhaoxin CPUs"),
        ],
        decides: "maximum distance for direct transfers between GPUs over PCIe",
        advice: Some(Advice { value: "a number", why_not: "invalid levels are silently ignored" }),
        source: "RCCL src/graph/paths.cc",
    },
    Variable {
        name: "RCCL_FORCE_ENABLE_DMABUF",
        since: Some(Version(2, 27)),
        removed: None,
        defaults: &[(Version(2, 27), "0 (RCCL checks two kernel build options)")],
        decides: "whether to assume DMA-BUF support without checking the kernel's configuration",
        advice: Some(Advice {
            value: "1",
            why_not: "only needed on Linux 7.1 and later, which lack an option that RCCL checks but have its \
                      behaviour; elsewhere memory registration fails instead",
        }),
        source: "RCCL src/misc/rocmwrap.cc, CHANGELOG (2.27.3)",
    },
    Variable {
        name: "RCCL_FORCE_ENABLE_GDRDMA",
        since: Some(Version(2, 21)),
        removed: None,
        defaults: &[(Version(2, 21), "-1 (RCCL checks for peer memory)")],
        decides: "whether to assume GPUDirect RDMA support without checking",
        advice: Some(Advice {
            value: "1",
            why_not: "for debugging: without peer memory in the kernel, memory registration fails instead",
        }),
        source: "RCCL src/transport/net_ib.cc",
    },
];

/// Returns NCCL's entries that RCCL has, and its own.
pub(super) fn table() -> Vec<Variable> {
    let (oldest, _) = Library::Rccl.versions();
    let is_own = |row: &Variable| OWN.iter().any(|own| own.name == row.name);
    let is_shared = |row: &Variable| !is_own(row) && !WITHOUT_EFFECT.contains(&row.name);
    let shared = nccl::table().into_iter().filter(is_shared).filter_map(|row| {
        let there = row.since.is_none_or(|since| since <= READ)
            && row.removed.is_none_or(|removed| removed > oldest);
        there.then(|| {
            let first = row.defaults.iter().rposition(|(from, _)| *from <= oldest).unwrap_or(0);
            let end = row.defaults.partition_point(|(from, _)| *from <= READ);
            let since = row.since.filter(|since| *since > oldest);
            Variable { since, defaults: &row.defaults[first.min(end)..end], ..row }
        })
    });
    let mut rows: Vec<Variable> = shared.chain(OWN.iter().copied()).collect();
    rows.sort_by_key(|row| row.name);
    rows
}

/// Returns the default of a variable in a version, if known. Beyond [`READ`] only defaults in the changelog are.
pub(crate) fn default_in(row: &Variable, version: Version) -> Option<&'static str> {
    let spoken_of = row.defaults.last().is_some_and(|(from, _)| *from > READ);
    row.default_in(version).filter(|_| version <= READ || spoken_of)
}
