//! Tests of the table, of text matching, and of log recognition. Diagnoses of hosts are in tests/data/cli/doctor.txt.

use std::collections::BTreeSet;

use super::*;
use crate::verify;

fn ids(symptoms: &[&Symptom]) -> Vec<&'static str> {
    symptoms.iter().map(|symptom| symptom.id).collect()
}

fn recognised(log: &[u8]) -> Recognised {
    let mut recogniser = Recogniser::default();
    log.chunks(7).for_each(|piece| recogniser.feed(piece));
    recogniser.finish()
}

fn symptoms_of(log: &str) -> Vec<(&'static str, u64)> {
    recognised(log.as_bytes())
        .symptoms()
        .map(|(symptom, lines)| (symptom.id, lines.count))
        .collect()
}

#[test]
fn every_symptom_is_complete_and_its_checks_exist() {
    let mut seen = BTreeSet::new();
    for symptom in SYMPTOMS {
        assert!(seen.insert(symptom.id), "two symptoms are called {}", symptom.id);
        assert!(!symptom.phrases.is_empty() && !symptom.lines.is_empty(), "{}", symptom.id);
        assert!(symptom.causes.len() >= 2, "{} has one cause only: it is a check", symptom.id);
        for cause in symptom.causes {
            assert!(
                verify::find(cause.check).is_some(),
                "{}: no check {}",
                symptom.id,
                cause.check
            );
            assert!(!cause.explains.ends_with('.'), "{}: {}", symptom.id, cause.explains);
        }
    }
}

#[test]
fn symptom_matches_its_own_phrases() {
    for symptom in SYMPTOMS {
        assert_eq!(find(symptom.id).map(|found| found.id), Some(symptom.id));
        assert_eq!(ids(&matching(symptom.title)), [symptom.id], "{}", symptom.title);
        for phrase in symptom.phrases {
            let said = format!("Why: {}?!", phrase.to_uppercase());
            assert_eq!(ids(&matching(&said)), [symptom.id], "{phrase}");
        }
    }
}

#[test]
fn free_text_matches_one_symptom() {
    for (text, id) in [
        ("NET/Socket fallback", "socket-fallback"),
        ("NCCL says GPU Direct RDMA Disabled for HCA 0", "gdr-disabled"),
        ("modprobe: could not insert 'nvidia_peermem'", "peermem"),
        ("peermem won\u{2019}t load", "peermem"),
        ("IOMMU groups are too large", "groups-large"),
        ("all_reduce is slow", "low-bandwidth"),
        ("the NIC port is down", "nic-down"),
        ("NCCL uses sockets", "socket-fallback"),
        ("nccl is using tcp instead of rdma", "socket-fallback"),
        ("NET/Socket fallback on node 17", "socket-fallback"),
        ("it fell back to TCP", "socket-fallback"),
        ("NCCL is not using InfiniBand", "socket-fallback"),
        ("slow all-reduce", "low-bandwidth"),
        ("slow allreduce on 2 nodes", "low-bandwidth"),
        ("NCCL WARN Call to ibv_modify_qp failed with error Invalid argument", "rdma-connect"),
        ("ibv_reg_mr: Cannot allocate memory", "registration"),
        ("GDS runs in compatibility mode", "storage-copies"),
    ] {
        assert_eq!(ids(&matching(text)), [id], "{text}");
    }
    assert_eq!(ids(&matching("xid and low bandwidth")), ["gpu-lost", "low-bandwidth"]);
    // Only whole words match.
    for text in ["", "it does not work", "slowly", "taxidermy", "\u{0}\u{1b}[31m"] {
        assert_eq!(ids(&matching(text)), Vec::<&str>::new(), "{text}");
    }
}

#[test]
fn nccl_and_kernel_log_lines_are_recognised() {
    let nccl = "n1:7:9 [0] NCCL INFO NCCL_DEBUG set\n\
        n1:7:9 [0] NCCL INFO NET/IB : No device found.\n\
        n1:7:9 [0] NCCL INFO Using network Socket\n\
        n1:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0\n";
    assert_eq!(symptoms_of(nccl), [("socket-fallback", 3)]);
    let staged = "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0\nChannel 01/0 : 0[0] -> 8[0] via NET/IB/0/GDRDMA";
    assert_eq!(symptoms_of(staged), [("gdr-disabled", 1)]);
    assert_eq!(recognised(staged.as_bytes()).direct, 1);
    let broken = "n1:7:9 [0] misc/ibvwrap.cc:284 NCCL WARN Call to ibv_modify_qp failed with error Invalid argument\n\
        n1:7:9 [0] transport/net_ib.cc:1296 NCCL WARN NET/IB : Got completion from peer 10.2.0.5<33092> with error 12\n\
        n1:7:9 [0] misc/ibvwrap.cc:153 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory\n";
    assert_eq!(symptoms_of(broken), [("rdma-connect", 2), ("registration", 1)]);
    let kernel = "[ 9.1] NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU has fallen off the bus.\n\
        [ 9.2] pcieport 0000:17:01.0: PCIe Bus Error: severity=Uncorrectable (Fatal)\n\
        [ 9.3] mlx5_core 0000:19:00.0 mlx5_0: Port: 1 Link DOWN\n\
        [ 9.4] pcieport 0000:17:01.0: AER: Corrected error received: 0000:18:00.0\n";
    assert_eq!(symptoms_of(kernel), [("gpu-lost", 1), ("nic-down", 1), ("pcie-errors", 2)]);
    let shared = "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-x (size 9)\n";
    assert_eq!(symptoms_of(shared), [("registration", 1)]);
    // How-tos quote these lines; NCCL never printed them (handbook §8.8).
    assert_eq!(symptoms_of("Could not enable GPU Direct RDMA\nUsing GPUDirect RDMA\n"), []);
}

#[test]
fn hostile_log_needs_little_memory_and_is_sanitised() {
    let mut log = vec![b'x'; 1 << 20];
    log.extend_from_slice(b"Using network Socket NCCL INFO\n\0\0\x1b[2J NCCL INFO Using network Socket \x1b]0;own\x07\xff\n");
    log.extend_from_slice(&b"NET/IB : No device found.\n".repeat(1000));
    let mut recogniser = Recogniser::default();
    log.chunks(64 << 10).for_each(|piece| recogniser.feed(piece));
    assert!(format!("{recogniser:?}").len() < 64 << 10, "the long line was kept");
    let found = recogniser.finish();
    assert_eq!(found.lines, 1002);
    let (symptom, lines) = found.symptoms().next().unwrap();
    assert_eq!((symptom.id, lines.count, lines.first.len()), ("socket-fallback", 1001, 3));
    assert_eq!(lines.first[0].line, 2);
    assert!(
        !lines.first[0].text.contains(bedplate_base::terminal::is_control),
        "{:?}",
        lines.first[0]
    );
    assert_eq!(recognised(b"").lines, 0);
    assert_eq!(recognised(b"\n\nx").lines, 3);
}

/// Phrases, each with the one symptom that it means.
const PHRASES: &[(&str, &[&str])] = &[
    (
        "gpu-lost",
        &[
            "GPU fell off",
            "gpu has fallen off the bus",
            "lost a gpu",
            "only 7 gpus",
            "only 6 gpus",
            "nvidia-smi shows only 3 GPUs",
            "only 7 of 8 gpus",
            "ECC errors",
            "nvlink down",
            "xid 79",
            "Xid 48 on GPU 3",
            "gpu missing",
            "a GPU is missing after reboot",
            "nvidia-smi shows 7 gpus",
            "gpu is dead",
            "GPU disappeared",
        ],
    ),
    (
        "no-cuda-device",
        &[
            "no CUDA-capable device is detected",
            "cuda sees no device",
            "CUDA error 100",
            "No CUDA GPUs are available",
            "torch.cuda.is_available() is False",
            "nvidia-smi no devices",
        ],
    ),
    (
        "cuda-start",
        &[
            "Cuda failure 802",
            "Cuda failure 802 'system not yet initialized'",
            "error 802",
            "fabric manager",
            "SXid 12028",
            "IMEX",
            "imex channel",
            "nvswitch error",
            "cudaErrorSystemNotReady",
            "cuda failure",
            "unhandled cuda error",
            "CUDA initialization fails",
            "nvidia-fabricmanager is not running",
            "NVRM: API mismatch",
            "Driver/library version mismatch",
            "driver mismatch",
            "error 803",
        ],
    ),
    (
        "job-hangs",
        &[
            "job hangs",
            "hang in allreduce",
            "hang",
            "nccl timeout",
            "NCCL watchdog",
            "watchdog caught collective operation timeout",
            "training is stuck",
            "all ranks hung",
            "deadlock in all_gather",
            "collective timed out",
            "the job never finishes",
        ],
    ),
    (
        "nic-down",
        &[
            "port is down",
            "link is down",
            "link flapping",
            "mlx5_3 port down",
            "no carrier",
            "cable unplugged",
            "NIC down",
        ],
    ),
    (
        "socket-fallback",
        &["NET/Socket fallback", "nccl falls back to sockets", "fell back to TCP", "uses socket"],
    ),
    (
        "rdma-connect",
        &[
            "ibv_modify_qp failed",
            "got completion with error 12",
            "retry exceeded",
            "unhandled system error",
            "no gid",
            "wrong GID index",
        ],
    ),
    (
        "registration",
        &[
            "ibv_reg_mr failed",
            "Cannot allocate memory",
            "memlock",
            "ulimit -l",
            "max locked memory",
            "shared memory",
            "No space left on device",
        ],
    ),
    (
        "gdr-disabled",
        &[
            "GDRDMA missing",
            "no gdr",
            "gpudirect not working",
            "GPU Direct RDMA Disabled",
            "no GDRDMA",
            "gpudirect rdma not used",
            "GPUDirect does not work",
        ],
    ),
    ("peermem", &["nvidia_peermem won't load", "could not insert nvidia_peermem", "nv_peer_mem"]),
    ("vfs-missing", &["VFs not created", "no VFs", "VFs missing", "sriov_numvfs is 0", "SR-IOV"]),
    ("groups-large", &["iommu groups too large", "group is not viable", "same group as the NIC"]),
    ("dma-faults", &["DMAR fault", "IO_PAGE_FAULT", "iommu fault", "dma faults"]),
    ("bar-space", &["no space for BAR", "BAR1 too small", "above 4G decoding", "resizable bar"]),
    ("pcie-errors", &["AER errors", "PCIe Bus Error", "DPC event", "correctable errors"]),
    (
        "low-bandwidth",
        &[
            "busbw is 12 GB/s",
            "nccl slow",
            "slow all_reduce",
            "ACS enabled",
            "acs is on",
            "topology wrong",
            "port is only 100G",
            "low throughput",
            "half the bandwidth",
            "poor performance",
            "straggler",
            "7 gpus are slow",
        ],
    ),
    ("storage-copies", &["GDS compat mode", "gpudirect storage", "cufile", "nvidia_fs"]),
    ("not-in-effect", &["reboot pending", "iommu=pt ignored", "profile drift"]),
];

#[test]
fn common_phrases_match_the_intended_symptom() {
    assert!(PHRASES.iter().map(|(_, phrases)| phrases.len()).sum::<usize>() >= 80);
    for (symptom, phrases) in PHRASES {
        for phrase in *phrases {
            let found: Vec<&str> = matching(phrase).iter().map(|found| found.id).collect();
            assert_eq!(found, [*symptom], "{phrase}");
        }
    }
}

#[test]
fn unknown_phrase_suggests_symptoms_sharing_a_word() {
    assert!(matching("the port does odd things").is_empty());
    let near: Vec<&str> =
        nearest("the port does odd things").iter().map(|found| found.id).collect();
    assert!(near.contains(&"nic-down"), "{near:?}");
    assert!(nearest("xyzzy").is_empty());
    for (text, id) in [
        ("link dwon", "nic-down"),
        ("bandwith", "low-bandwidth"),
        ("iommu gruops", "groups-large"),
        ("gpu missng", "gpu-lost"),
    ] {
        assert!(matching(text).is_empty(), "{text}");
        let near: Vec<&str> = nearest(text).iter().map(|found| found.id).collect();
        assert!(near.contains(&id), "{text}: {near:?}");
    }
}
