//! RCCL's variables. RCCL is a fork of NCCL: NCCL's variables, and those that differ, are from the source of its
//! releases from ROCm 4.2 (2.8.4) to 2.21.5. Later changes are from RCCL's changelog, or unknown.

use super::super::library::Library;
use super::super::version::Version;
use super::{Advice, Variable, nccl};

/// Newest version with reviewed source.
pub(crate) const READ: Version = Version(2, 21);

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
        decides: "whether NICs are given GPU memory by DMA-BUF",
        advice: Some(Advice {
            value: "1",
            why_not: "it is needed where the kernel has no peer memory of amdgpu, up to ROCm 7.11, and only there (`bedplate verify`)",
        }),
        source: "RCCL src/misc/rocmwrap.cc, CHANGELOG",
    },
    Variable {
        name: "NCCL_NET_GDR_LEVEL",
        since: None,
        removed: None,
        defaults: &[(
            Version(2, 8),
            "PXB; PHB on AMD Rome where GPU and NIC are on one CPU node; some known machines have their own",
        )],
        decides: "up to which distance of GPU and NIC GPUDirect RDMA is used",
        advice: Some(Advice {
            value: "a number",
            why_not: "legacy numbers mean other distances than people think: 3 is PHB, 4 and more are SYS",
        }),
        source: "RCCL src/graph/paths.cc",
    },
    Variable {
        name: "NCCL_NET_GDR_READ",
        since: None,
        removed: None,
        defaults: &[
            (Version(2, 8), "-2 (where the GPU has xGMI)"),
            (Version(2, 20), "-2 (always on AMD GPUs)"),
        ],
        decides: "whether NICs read GPU memory when sending",
        advice: Some(Advice { value: "1", why_not: "automatic, and always on since 2.20" }),
        source: "RCCL src/graph/paths.cc",
    },
    Variable {
        name: "NCCL_P2P_LEVEL",
        since: None,
        removed: None,
        defaults: &[
            (Version(2, 8), "SYS; PXB on Arm, Intel's Broadwell and Zhaoxin"),
            (Version(2, 9), "SYS; PXB on Arm and on CPUs of Intel's and Zhaoxin's"),
        ],
        decides: "up to which distance GPUs use each other's memory over PCIe",
        advice: Some(Advice {
            value: "a number",
            why_not: "anything that is no level is ignored without a word",
        }),
        source: "RCCL src/graph/paths.cc",
    },
    Variable {
        name: "RCCL_FORCE_ENABLE_DMABUF",
        since: Some(Version(2, 27)),
        removed: None,
        defaults: &[(
            Version(2, 27),
            "0 (RCCL looks for two options of the kernel's configuration)",
        )],
        decides: "whether DMA-BUF is taken for possible without checking the kernel's configuration",
        advice: Some(Advice {
            value: "1",
            why_not: "needed on Linux 7.1 and later alone, which lack an option that RCCL looks for and do what it was for; elsewhere \
                      registering memory fails instead",
        }),
        source: "RCCL src/misc/rocmwrap.cc, CHANGELOG (2.27.3)",
    },
    Variable {
        name: "RCCL_FORCE_ENABLE_GDRDMA",
        since: Some(Version(2, 21)),
        removed: None,
        defaults: &[(Version(2, 21), "-1 (RCCL looks for peer memory)")],
        decides: "whether GPUDirect RDMA is taken for possible without looking",
        advice: Some(Advice {
            value: "1",
            why_not: "for debugging: without peer memory in the kernel, registering memory fails instead",
        }),
        source: "RCCL src/transport/net_ib.cc",
    },
];

/// Returns NCCL's entries that RCCL has, and its own.
pub(super) fn table() -> Vec<Variable> {
    let (oldest, _) = Library::Rccl.versions();
    let is_own = |row: &Variable| OWN.iter().any(|own| own.name == row.name);
    let shared = nccl::VARIABLES.iter().filter(|row| !is_own(row)).filter_map(|row| {
        let there = row.since.is_none_or(|since| since <= READ)
            && row.removed.is_none_or(|removed| removed > oldest);
        there.then(|| {
            let first = row.defaults.iter().rposition(|(from, _)| *from <= oldest).unwrap_or(0);
            let end = row.defaults.partition_point(|(from, _)| *from <= READ);
            let since = row.since.filter(|since| *since > oldest);
            Variable { since, defaults: &row.defaults[first.min(end)..end], ..*row }
        })
    });
    let mut rows: Vec<Variable> = shared.chain(OWN.iter().copied()).collect();
    rows.sort_by_key(|row| row.name);
    rows
}

/// Default of a variable in a version, if known. Beyond [`READ`] only defaults in the changelog are.
pub(crate) fn default_in(row: &Variable, version: Version) -> Option<&'static str> {
    let spoken_of = row.defaults.last().is_some_and(|(from, _)| *from > READ);
    row.default_in(version).filter(|_| version <= READ || spoken_of)
}
