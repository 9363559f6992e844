//! NCCL's debug output, read as a stream with any number of ranks. Memory does not grow with the log but with the
//! number of processes in it, which is bounded. Pure.

pub mod line;
mod reader;
mod setup;
pub mod verdict;
pub mod warning_meanings;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::Serialize;

use bedplate_base::terminal::brief;
use line::{Channel, Line};
use warning_meanings::WarningSeverity;

pub use reader::Reader;

/// Maximum number of GPUs tracked; ranks beyond are counted and not analysed.
const MOST_WORKERS: usize = 1 << 16;
/// Maximum number of kinds of warnings, values of a variable, versions and networks tracked.
const MOST_KINDS: usize = 64;
/// Maximum number of texts retained per kind of warning, in addition to the first.
const MOST_ALIKE: usize = 3;
/// Maximum number of NICs tracked per GPU.
const MOST_NICS: usize = 64;
/// Entries in the cache of recent senders, a power of two.
const SLOTS: usize = 1 << 12;
/// Number of [`Carrier`]s.
pub const CARRIERS: usize = 7;
/// Maximum number of characters shown of a text.
const CHARACTERS: usize = 200;

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
    fn count(seen: &mut Option<Tally>, place: Place) {
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

    fn from_channel(channel: &Channel) -> Self {
        match (channel.transport, channel.how) {
            (b"NET" | b"COLLNET", _) if channel.direct => Carrier::Direct,
            (b"NET", b"Socket") => Carrier::Sockets,
            (b"NET" | b"COLLNET", _) => Carrier::Staged,
            (b"P2P", b"MNNVL") => Carrier::Fabric,
            (b"P2P", _) => Carrier::Peer,
            // Up to 2.13: `via direct shared memory`.
            (b"SHM" | b"direct shared memory", _) => Carrier::SharedMemory,
            _ => Carrier::Other,
        }
    }
}

/// A GPU of a job; in most jobs a rank.
#[derive(Debug, Default)]
pub struct Worker {
    /// Node, an index into [`Log::hosts`].
    pub host: usize,
    /// Process id.
    pub pid: u32,
    /// CUDA's number of the GPU in the process.
    pub device: u32,
    /// Rank in the largest communicator in the log, and the size of that.
    pub rank: Option<(u32, u32)>,
    /// Position of the message that setup starts.
    pub started: Option<Place>,
    /// Whether the log reports setup as complete.
    pub complete: bool,
    /// Connections established, by [`Carrier`].
    pub carriers: [Option<Tally>; CARRIERS],
    /// Connections by NIC number; NICs without GPUDirect RDMA first.
    pub nics: BTreeMap<(bool, u32), u64>,
}

/// A process of a job.
#[derive(Debug, Default)]
pub struct Process {
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
    /// Some similar texts; they may name other peers.
    pub more: Vec<String>,
    /// Node that reported it first.
    pub host: usize,
    /// Number of occurrences, and the first position.
    pub seen: Tally,
}

/// Reason for missing GPUDirect RDMA, as worded by NCCL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// `NET/IB : No device found.`
    NoDevice,
    /// `GPU Direct RDMA Disabled for HCA`: neither DMA-BUF nor a peer memory module.
    NoModule,
    /// `GPU Direct RDMA Disabled for GPU … (distance 9 > 4)`.
    TooFar,
}

/// Content of a log read so far.
#[derive(Debug, Default)]
pub struct Log {
    /// Total number of lines.
    pub lines: u64,
    /// Number of lines from NCCL.
    pub said: u64,
    /// Versions, each with whether it is RCCL's.
    pub versions: BTreeMap<(String, bool), Tally>,
    /// Nodes, in order of appearance.
    pub hosts: Vec<String>,
    /// GPUs, in order of appearance.
    pub workers: Vec<Worker>,
    /// Processes, by node and id.
    pub processes: BTreeMap<(usize, u32), Process>,
    /// Variables with their values.
    pub environment: BTreeMap<String, BTreeMap<String, Tally>>,
    /// Warnings.
    pub warnings: Vec<Warning>,
    /// Network plugins, each with whether it failed to start.
    pub plugins: BTreeMap<(String, bool), Tally>,
    /// Versions of GDRCopy's library and driver.
    pub gdrcopy: BTreeMap<String, Tally>,
    /// Reasons for missing GPUDirect RDMA, by node.
    pub causes: BTreeMap<(Cause, usize), Tally>,
    /// Nodes that report DMA-BUF as available.
    pub dma_buf: BTreeMap<usize, Tally>,
    /// Whether data that decides nothing was dropped at a limit.
    pub cut: bool,
    /// Messages that are unreadable, or from more processes than the maximum; their content is unknown.
    pub lost: Option<Tally>,
    lists: BTreeSet<Arc<[String]>>,
    known: HashMap<(usize, u32, u32), usize>,
    host_index: HashMap<Vec<u8>, usize>,
    warning_index: HashMap<String, usize>,
    /// Cache of workers by a cheap hash of the sender: most of a log's millions of lines are from a known sender.
    recent: Vec<u32>,
}

impl Log {
    /// Reads the first message of a line. Returns the start of the next message, if any.
    fn take<'l>(&mut self, line: &'l [u8], place: Place) -> Option<&'l [u8]> {
        let Some((said, rest)) = Line::parse(line) else {
            // With NCCL_DEBUG=VERSION the version is printed alone.
            if let Some((version, rccl)) = line::version(line) {
                self.said += 1;
                self.version(version, rccl, place);
            } else if line::is_torn(line) {
                Tally::count(&mut self.lost, place);
            }
            return None;
        };
        self.said += 1;
        if rest.is_some() {
            // The end of the first message is ambiguous.
            Tally::count(&mut self.lost, place);
        }
        match self.worker(&said) {
            None => Tally::count(&mut self.lost, place),
            Some(worker) if said.warning => self.warning(&said, worker, place),
            Some(worker) => {
                let may_be_channel = matches!(said.text.first(), Some(b'C' | b'R'));
                match may_be_channel.then(|| line::channel(said.text)).flatten() {
                    Some(channel) => self.channel(worker, &channel, place),
                    None => self.other(&said, worker, place),
                }
            }
        }
        rest
    }

    fn worker(&mut self, said: &Line) -> Option<usize> {
        let slot = slot(said);
        if let Some(worker) = self.recent.get(slot).and_then(|at| self.workers.get(*at as usize)) {
            let same = worker.pid == said.pid && worker.device == said.device;
            if same && self.hosts[worker.host].as_bytes() == said.host {
                return Some(self.recent[slot] as usize);
            }
        }
        let host = match self.host_index.get(said.host) {
            Some(host) => *host,
            None => {
                if self.hosts.len() >= MOST_WORKERS {
                    return None;
                }
                self.host_index.insert(said.host.to_vec(), self.hosts.len());
                self.hosts.push(String::from_utf8_lossy(said.host).into_owned());
                self.hosts.len() - 1
            }
        };
        let key = (host, said.pid, said.device);
        let at = match self.known.get(&key) {
            Some(at) => *at,
            None => {
                if self.workers.len() >= MOST_WORKERS {
                    return None;
                }
                self.known.insert(key, self.workers.len());
                let (pid, device) = (said.pid, said.device);
                self.workers.push(Worker { host, pid, device, ..Worker::default() });
                self.workers.len() - 1
            }
        };
        self.recent.resize(SLOTS, u32::MAX);
        // The number of workers is at most MOST_WORKERS.
        self.recent[slot] = u32::try_from(at).unwrap_or(u32::MAX);
        Some(at)
    }

    fn channel(&mut self, worker: usize, channel: &Channel, place: Place) {
        let worker = &mut self.workers[worker];
        let carrier = Carrier::from_channel(channel);
        Tally::count(&mut worker.carriers[carrier as usize], place);
        // Init lines take precedence: there may be communicators of several sizes.
        worker.rank.get_or_insert((channel.own, 0));
        if let Some(nic) = channel.nic {
            let room = worker.nics.len() < MOST_NICS;
            let key = (channel.direct, nic);
            if room || worker.nics.contains_key(&key) {
                *worker.nics.entry(key).or_default() += 1;
            }
        }
    }

    fn version(&mut self, version: &[u8], rccl: bool, place: Place) {
        let version = printable(version);
        count(&mut self.versions, (version, rccl), place, &mut self.cut);
    }

    fn warning(&mut self, said: &Line, worker: usize, place: Place) {
        let text = printable(said.text);
        // Warnings that differ only in numbers are the same kind.
        let alike: String =
            text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).take(80).collect();
        if let Some(at) = self.warning_index.get(&alike) {
            let warning = &mut self.warnings[*at];
            warning.seen.count += 1;
            let is_new = text != warning.text && !warning.more.contains(&text);
            if is_new && warning.more.len() < MOST_ALIKE {
                warning.more.push(text);
            }
            return;
        }
        // Known faults have their own limit.
        let is_fault = warning_meanings::meaning(&text)
            .is_some_and(|row| row.weight == WarningSeverity::Fault);
        let alike_in_weight = self.warnings.iter().filter(|one| one.is_fault == is_fault).count();
        if alike_in_weight >= MOST_KINDS {
            self.cut = true;
            return;
        }
        self.warning_index.insert(alike, self.warnings.len());
        let host = self.workers[worker].host;
        self.warnings.push(Warning {
            text,
            is_fault,
            more: Vec::new(),
            host,
            seen: Tally { count: 1, first: place },
        });
    }

    /// Returns the name of a NIC by its number in a process.
    pub fn nic(&self, worker: &Worker, number: u32) -> Option<&str> {
        let process = self.processes.get(&(worker.host, worker.pid))?;
        process.hcas.get(usize::try_from(number).ok()?).map(String::as_str)
    }
}

/// Returns the cache slot of a sender.
fn slot(said: &Line) -> usize {
    // The end of a name distinguishes nodes. FNV-1a's prime spreads the numbers.
    let end = said.host.iter().rev().take(4).fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
    let mixed =
        (end ^ said.pid.rotate_left(7) ^ said.device.rotate_left(20)).wrapping_mul(0x0100_0193);
    (mixed ^ mixed >> 15) as usize % SLOTS
}

fn count<K: Ord>(map: &mut BTreeMap<K, Tally>, key: K, place: Place, cut: &mut bool) {
    if let Some(seen) = map.get_mut(&key) {
        seen.count += 1;
    } else if map.len() < MOST_KINDS {
        map.insert(key, Tally { count: 1, first: place });
    } else {
        *cut = true;
    }
}

/// Returns the text of the log without terminal control characters.
fn printable(text: &[u8]) -> String {
    brief(String::from_utf8_lossy(text).trim(), CHARACTERS)
}

#[cfg(test)]
mod line_formats;
#[cfg(test)]
mod tests;
