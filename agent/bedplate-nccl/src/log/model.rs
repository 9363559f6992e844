//! Content of a log: processes, GPUs, connections, warnings.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::channel::Channel;
use super::failures::JobFailure;

/// Number of [`Carrier`]s.
pub const CARRIERS: usize = 7;

/// Position in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Index of the file.
    pub file: usize,
    /// Line number, from 1.
    pub line: u64,
}

/// Number of occurrences, and the first position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Number of occurrences.
    pub count: u64,
    /// First position.
    pub first: Place,
}

impl Tally {
    pub(super) fn count(seen: &mut Option<Tally>, place: Place) {
        match seen {
            Some(seen) => seen.count += 1,
            None => *seen = Some(Tally { count: 1, first: place }),
        }
    }
}

/// Transport of a connection's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// Network with direct access to GPU memory (GPUDirect RDMA).
    Direct,
    /// Network, through host memory.
    Staged,
    /// TCP sockets.
    Sockets,
    /// NVLink that spans nodes (MNNVL), also between GPUs within one node.
    Fabric,
    /// Direct transfers between GPUs of a node.
    Peer,
    /// Shared memory of a node.
    SharedMemory,
    /// Another transport.
    Other,
}

impl Carrier {
    /// All carriers, in order.
    pub const ALL: [Carrier; CARRIERS] = [
        Carrier::Direct,
        Carrier::Staged,
        Carrier::Sockets,
        Carrier::Fabric,
        Carrier::Peer,
        Carrier::SharedMemory,
        Carrier::Other,
    ];

    pub(super) fn from_channel(channel: &Channel) -> Self {
        match (channel.transport, channel.how) {
            (b"NET" | b"COLLNET", _) if channel.direct => Carrier::Direct,
            (b"NET", b"Socket") => Carrier::Sockets,
            (b"NET" | b"COLLNET", _) => Carrier::Staged,
            (b"P2P", b"MNNVL") => Carrier::Fabric,
            (b"P2P", _) => Carrier::Peer,
            (b"SHM", _) => Carrier::SharedMemory,
            // Up to 2.13; RCCL adds the communicator.
            (other, _) if other.starts_with(b"direct shared memory") => Carrier::SharedMemory,
            _ => Carrier::Other,
        }
    }
}

/// A GPU of a job; in most jobs a rank.
#[derive(Debug, Default)]
pub struct Worker {
    /// Node, an index into [`Log::hosts`](super::Log::hosts).
    pub host: usize,
    /// Process id.
    pub pid: u32,
    /// CUDA's number of the GPU in the process.
    pub device: u32,
    /// Rank in the largest communicator in the log, and the size of that.
    pub rank: Option<(u32, u32)>,
    /// Positions of its first and last message.
    pub span: Option<(Place, Place)>,
    /// Last report of a complete setup.
    pub completed_at: Option<Place>,
    /// Position of the message that setup starts.
    pub started: Option<Place>,
    /// Whether the log reports setup as complete.
    pub complete: bool,
    /// Connections established, by [`Carrier`].
    pub carriers: [Option<Tally>; CARRIERS],
    /// Connections by NIC number; NICs without GPUDirect RDMA first.
    pub nics: BTreeMap<(bool, u32), u64>,
    /// Network connections that it sends on.
    pub sends: u64,
    /// Network connections that it receives on.
    pub receives: u64,
    /// Setups of communicators that it has started, and those that it has completed without a report of the start.
    pub setups: u32,
    /// Setups that it has completed.
    pub completed: u32,
    /// Communicators that it has destroyed, the regular end of a program. An aborted one proves nothing: programs abort
    /// communicators at their end, and after a failure.
    pub destroyed: u32,
    /// Communicators of several ranks that it joined.
    pub communicators: u32,
    /// Parts of the log, each from the start of one setup to the next, with connections.
    pub(super) with_connections: u32,
    /// Reports of a connected ring with connections before them.
    pub(super) rings: u32,
    /// Whether there were connections since the last start of a setup.
    pub(super) has_connection: bool,
    /// Whether there were connections since the last connected ring.
    pub(super) has_connection_in_ring: bool,
}

impl Worker {
    /// Whether the log shows that it takes part in a job. Launchers print the version only.
    pub fn takes_part(&self) -> bool {
        let has_connection = self.carriers.iter().any(Option::is_some);
        self.rank.is_some() || self.started.is_some() || has_connection
    }

    /// Returns the number of communicators with connections in the log. NCCL connects at setup, or from 2.22 on at the
    /// first use, after which it reports a connected ring.
    pub fn connected_communicators(&self) -> u32 {
        (self.with_connections + u32::from(self.has_connection)).max(self.rings)
    }

    /// Ends the part of the log that belongs to one communicator.
    pub(super) fn end_communicator(&mut self) {
        self.with_connections += u32::from(self.has_connection);
        self.has_connection = false;
    }
}

/// A process of a job.
#[derive(Debug, Default)]
pub struct Process {
    /// Whether the log reports a setup of it as complete.
    pub complete: bool,
    /// `mlx5_0:1/IB`, by NCCL's number. Most processes have equal lists, which are shared.
    pub hcas: Arc<[String]>,
    /// `IB`, `Socket` or a plugin's name, and its position.
    pub network: Option<(String, Place)>,
}

/// A warning, with similar ones that differ only in numbers.
#[derive(Debug)]
pub struct Warning {
    /// First text.
    pub text: String,
    /// Whether it is a known fault.
    pub is_fault: bool,
    /// Whether it is not in the table of known warnings.
    pub is_unknown: bool,
    /// Whether one of them came after the setup of its rank.
    pub is_after_setup: bool,
    /// Whether it is a trace of a failed call: `proxy.cc:679 -> 6`.
    pub is_trace: bool,
    /// GPU that reported it first, an index into [`Log::workers`](super::Log::workers).
    pub worker: usize,
    /// Some similar texts; they may name other peers.
    pub more: Vec<String>,
    /// Node that reported it first.
    pub host: usize,
    /// Number of occurrences, and the first position.
    pub seen: Tally,
}

/// A line that is not from NCCL and proves that the job failed or was ended.
#[derive(Debug)]
pub struct FailureLine {
    /// Its meaning.
    pub failure: &'static JobFailure,
    /// Node that it names, an index into [`Log::hosts`](super::Log::hosts).
    pub node: Option<usize>,
    /// First text.
    pub text: String,
    /// Number of occurrences, and the first position.
    pub seen: Tally,
}

/// Reason for missing GPUDirect RDMA on a node.
#[derive(Debug)]
pub struct Reason {
    /// First text.
    pub text: String,
    /// Number of occurrences, and the first position.
    pub seen: Tally,
}

/// Kind of reason for missing GPUDirect RDMA, as worded by NCCL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// `NET/IB : No device found.`
    NoDevice,
    /// `GPU Direct RDMA Disabled for HCA`: neither DMA-BUF nor a peer memory module.
    NoModule,
    /// `GPU Direct RDMA Disabled for GPU … (distance 9 > 4)`.
    TooFar,
}
