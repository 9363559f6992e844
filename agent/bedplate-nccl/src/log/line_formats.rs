//! Every line form in handbook §8.8, as worded by each version, and the data read from it.

use super::{Carrier, Log, Reader};

/// Short summary of everything in a log.
fn summary(log: &Log) -> String {
    let mut said = Vec::new();
    for worker in &log.workers {
        let kinds = Carrier::ALL.iter().zip(worker.carriers).filter(|(_, seen)| seen.is_some());
        said.extend(kinds.map(|(carrier, _)| format!("{carrier:?}")));
        said.extend(worker.nics.keys().map(|(direct, nic)| format!("nic {nic} {direct}")));
        said.extend(worker.rank.map(|(own, all)| format!("rank {own} of {all}")));
        said.extend(worker.started.map(|_| "started".to_owned()));
        said.extend(worker.complete.then(|| "complete".to_owned()));
    }
    for process in log.processes.values() {
        said.extend(process.network.as_ref().map(|(name, _)| format!("network {name}")));
        said.extend(process.hcas.iter().map(|hca| format!("hca {hca}")));
    }
    said.extend(log.plugins.keys().map(|(name, failed)| format!("plugin {name} {failed}")));
    said.extend(log.gdrcopy.keys().map(|versions| format!("gdrcopy {versions}")));
    said.extend(log.causes.keys().map(|(cause, _)| format!("{cause:?}")));
    said.extend(log.dma_buf.keys().map(|_| "DMA-BUF".to_owned()));
    for (name, values) in &log.environment {
        said.extend(values.keys().map(|value| format!("{name}={value}")));
    }
    said.extend(log.warnings.iter().map(|warning| format!("warns {}", warning.text)));
    said.join("; ")
}

/// Text after `NCCL INFO `, and the expected result. Lines that begin with `#` are headings.
const FORMS: &str = "
    # NIC lists.
    NET/IB : Using [0]mlx5_0:1/IB ; OOB eth0:10.0.0.1<0> => hca mlx5_0:1/IB
    NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB bond0:10.0.0.1<0> => hca mlx5_0:1/IB; hca mlx5_1:1/RoCE
    NET/IB : No device found. => NoDevice
    NET/Socket : Using [0]eth0:10.0.0.1<0> [1]eth1:10.0.1.1<0> =>
    # GPUDirect RDMA, by NIC and by pair.
    NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0' (no module) => NoModule
    NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0' => NoModule
    NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0' =>
    NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0' =>
    GPU Direct RDMA Enabled for GPU 18000 / HCA 0 (distance 3 <= 4), read 1 =>
    GPU Direct RDMA Enabled for GPU 0 / HCA 1 (distance 3 <= 4), read 1 mode Default =>
    GPU Direct RDMA Disabled for GPU 18000 / HCA 1 (distance 9 > 4) => TooFar
    GPU Direct RDMA Disabled for GPU 18000 / HCA 19000 (distance 9 > 4) => TooFar
    GPU Direct RDMA Disabled for GPU 0 / HCA 1 (distance 9 > 4) => TooFar
    GPU Direct RDMA Disabled for GPU/0-18000 (rank 3) - NET/0-1 (distance 9 > 4) => TooFar
    GPU Direct RDMA Enabled for GPU/0-18000 (rank 3) - NET/0-0 (distance 3 <= 4, read 1, mode Default) =>
    DMA-BUF is available on GPU device 3 => DMA-BUF
    # Networks and plugins.
    Using network IB => network IB
    Using network AWS Libfabric => network AWS Libfabric
    Assigned NET plugin IB to comm => network IB
    Assigned GIN plugin GIN_IB_GDAKI to comm =>
    Initialized NET plugin IB => plugin IB false
    Failed to initialize NET plugin IB => plugin IB true
    Successfully loaded external network plugin libnccl-net-ofi.so => plugin libnccl-net-ofi.so false
    Successfully loaded external plugin libnccl-net.so => plugin libnccl-net.so false
    NET/Plugin: Loaded net plugin AWS Libfabric (v8) => plugin AWS Libfabric (v8) false
    GDRCOPY enabled library 2.4 driver 2.4 => gdrcopy library 2.4 driver 2.4
    # Connections over networks.
    Ring 00 : 1 -> 8 [receive] via NET/IB/0 => Staged; nic 0 false; rank 8 of 0
    Ring 00 : 8 -> 1 [send] via NET/IB/0/GDRDMA => Direct; nic 0 true; rank 8 of 0
    Channel 02 : 8[1a000] -> 1[1b000] [send] via NET/IB/3/GDRDMA => Direct; nic 3 true; rank 8 of 0
    Channel 02/0 : 1[1a000] -> 8[1b000] [receive] via NET/IB/3 => Staged; nic 3 false; rank 8 of 0
    Channel 02/0 : 8[1] -> 1[1] [send] via NET/IB/3/GDRDMA/Shared => Direct; nic 3 true; rank 8 of 0
    Channel 02/0 : 8[1] -> 1[1] [send] via NET/IB/3/GDRDMA(PCI) => Direct; nic 3 true; rank 8 of 0
    Channel 02/0 : 8[1] -> 1[1] [send] via NET/IB/3/GDRDMA(PCI)/Shared => Direct; nic 3 true; rank 8 of 0
    Channel 02/0 : 8[1] -> 1[1] [send] via NET/IB/3(10)/GDRDMA => Direct; nic 3 true; rank 8 of 0
    Channel 02/0 : 8[1] -> 1[1] [send] via NET/IB/3(10) => Staged; nic 3 false; rank 8 of 0
    Channel 02/0 : 1[1] -> 8[1] [receive] via NET/Socket/0 => Sockets; rank 8 of 0
    Channel 02/0 : 8[1] -> 1[1] [send] via NET/Socket/0/Shared => Sockets; rank 8 of 0
    # Connections inside of nodes.
    Ring 00 : 8[0] -> 1[1] via P2P/IPC => Peer; rank 8 of 0
    Ring 00 : 8 -> 1 via P2P/common device => Peer; rank 8 of 0
    Ring 00 : 8[0] -> 1[1] via P2P/direct pointer => Peer; rank 8 of 0
    Channel 00/0 : 8[0] -> 1[1] via P2P/direct pointer/read => Peer; rank 8 of 0
    Channel 00/0 : 8[0] -> 1[1] via P2P/IPC/read => Peer; rank 8 of 0
    Channel 00/0 : 8[0] -> 1[1] via P2P/IPC/CE => Peer; rank 8 of 0
    Channel 00/0 : 8[0] -> 1[1] via P2P/IPC/read/CE => Peer; rank 8 of 0
    Channel 00/0 : 8[0] -> 1[1] via P2P/CUMEM => Peer; rank 8 of 0
    Channel 00/0 : 8[0] -> 1[1] via P2P/CUMEM/read => Peer; rank 8 of 0
    Channel 00/0 : 8[0] -> 1[1] via P2P/CUMEM/CE => Peer; rank 8 of 0
    Channel 00/0 : 8[0] -> 1[1] via P2P/MNNVL => Fabric; rank 8 of 0
    Channel 00/0 : 8[0] -> 1[1] via P2P/MNNVL/read => Fabric; rank 8 of 0
    Channel 00/0 : 8[0] -> 1[1] via P2P/indirect/2[2] => Peer; rank 8 of 0
    Channel 00/0 : 8[0] -> 1[1] via P2P/indirect/2[2]/read => Peer; rank 8 of 0
    Channel 00 : 8[17000] -> 1[18000] via direct shared memory => SharedMemory; rank 8 of 0
    Ring 00 : 8[0] -> 1[1] via direct shared memory => SharedMemory; rank 8 of 0
    Channel 00/0 : 8[0] -> 1[1] via SHM/direct/direct => SharedMemory; rank 8 of 0
    Channel 00/0 : 8[0] -> 1[1] via SHM/CE/direct => SharedMemory; rank 8 of 0
    # Environment.
    NCCL_NET_GDR_LEVEL set by environment to PXB => NCCL_NET_GDR_LEVEL=PXB
    NCCL_NET_GDR_LEVEL set by environment to 2 => NCCL_NET_GDR_LEVEL=2
    NCCL_IB_GID_INDEX set by environment to 3. => NCCL_IB_GID_INDEX=3
    NCCL_SOCKET_IFNAME set by environment to bond0 => NCCL_SOCKET_IFNAME=bond0
    # Ranks.
    comm 0x55 rank 3 nranks 16 cudaDev 3 nvmlDev 3 busId 1b000 commId 0x9 - Init START => rank 3 of 16; started
    comm 0x55 rank 3 nranks 16 cudaDev 3 busId 1b000 - Init COMPLETE => rank 3 of 16; complete
    ncclCommInitRank comm 0x55 rank 3 nranks 16 cudaDev 3 nvmlDev 3 busId 1b000 commId 0x9 - Init COMPLETE => rank 3 of 16; complete
    # Said, and no proof of anything.
    Channel 00/16 :    0   1   2   3   4   5   6   7 =>
    Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1 =>
    Connected all rings =>
    Channel 00/0 : 8[0] -> 1[1] [send] via NET/IB/3/GDR => Staged; nic 3 false; rank 8 of 0
";

#[test]
fn every_line_form_is_read() {
    for row in FORMS.trim().lines().map(str::trim).filter(|row| !row.starts_with('#')) {
        let (text, expected) = row.split_once(" =>").unwrap();
        for before in
            ["node-7:41:57 [3] NCCL INFO ", "[2026-11-20 10:00:00] node-7:41:57 [3] NCCL INFO "]
        {
            let mut reader = Reader::default();
            reader.feed(format!("{before}{text}\n").as_bytes());
            let log = reader.finish();
            assert_eq!(log.said, 1, "{text}");
            assert_eq!(summary(&log), expected.trim(), "{text}");
        }
    }
}
