//! What NCCL said: its debug output, read as a stream, however many ranks speak in it. Memory does not grow with the log but with
//! the number of processes in it, which is bounded. Pure.

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

/// GPUs that are told apart; ranks beyond are counted and not looked at.
const MOST_WORKERS: usize = 1 << 16;
/// Kinds of warnings, and values of a variable, versions and networks, that are told apart.
const MOST_KINDS: usize = 64;
/// Texts of one kind of warning that are kept besides the first.
const MOST_ALIKE: usize = 3;
/// NICs of a GPU that are told apart.
const MOST_NICS: usize = 64;
/// Places for those who spoke last, a power of two.
const SLOTS: usize = 1 << 12;
/// How many [`Carrier`]s there are.
pub const CARRIERS: usize = 7;
/// Characters of a text of the log that are shown.
const CHARACTERS: usize = 200;

/// Where something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Which of the files.
    pub file: usize,
    /// Line, from 1.
    pub line: u64,
}

/// How often something is said, and where first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// How often.
    pub count: u64,
    /// Where first.
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

/// How connections carry data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// Over a network that reads and writes GPU memory itself (GPUDirect RDMA).
    Direct,
    /// Over a network, through host memory.
    Staged,
    /// Over TCP sockets.
    Sockets,
    /// Between GPUs of several nodes that NVLink joins (MNNVL), and of one node of these.
    Fabric,
    /// Between GPUs of a node.
    Peer,
    /// Through shared memory of a node.
    SharedMemory,
    /// Another way.
    Other,
}

impl Carrier {
    /// All of them, in order.
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

/// A GPU of a job: a rank, in most jobs.
#[derive(Debug, Default)]
pub struct Worker {
    /// Its node, an index of [`Log::hosts`].
    pub host: usize,
    /// Its process.
    pub pid: u32,
    /// CUDA's number of the GPU in the process.
    pub device: u32,
    /// Its rank in the largest communicator that the log shows, and the size of that.
    pub rank: Option<(u32, u32)>,
    /// Where its setup is said to begin.
    pub started: Option<Place>,
    /// Whether its setup is said to be complete.
    pub complete: bool,
    /// The connections that it has set up, by [`Carrier`].
    pub carriers: [Option<Tally>; CARRIERS],
    /// NICs by number, those that were used without GPUDirect RDMA first.
    pub nics: BTreeMap<(bool, u32), u64>,
}

/// A process of a job.
#[derive(Debug, Default)]
pub struct Process {
    /// `mlx5_0:1/IB`, by NCCL's number. Those of most processes are alike, and kept once.
    pub hcas: Arc<[String]>,
    /// `IB`, `Socket` or a plugin's name, where first said.
    pub network: Option<(String, Place)>,
}

/// A warning, and what it is like elsewhere but for its numbers.
#[derive(Debug)]
pub struct Warning {
    /// As it was said first.
    pub text: String,
    /// Whether it is known to be a fault.
    pub is_fault: bool,
    /// Others that are like it, of which a few are kept: they may name other peers.
    pub more: Vec<String>,
    /// The node that said it first.
    pub host: usize,
    /// How often, and where first.
    pub seen: Tally,
}

/// Why there is no GPUDirect RDMA, in NCCL's own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// `NET/IB : No device found.`
    NoDevice,
    /// `GPU Direct RDMA Disabled for HCA`: neither DMA-BUF nor a peer memory module.
    NoModule,
    /// `GPU Direct RDMA Disabled for GPU … (distance 9 > 4)`.
    TooFar,
}

/// A log, as far as it was read.
#[derive(Debug, Default)]
pub struct Log {
    /// Lines in all, and those of NCCL's.
    pub lines: u64,
    /// Lines of NCCL's.
    pub said: u64,
    /// Versions, with whether they are RCCL's.
    pub versions: BTreeMap<(String, bool), Tally>,
    /// The nodes, in the order in which they come.
    pub hosts: Vec<String>,
    /// GPUs, in the order in which they come.
    pub workers: Vec<Worker>,
    /// Processes, by node and number.
    pub processes: BTreeMap<(usize, u32), Process>,
    /// Variables with their values.
    pub environment: BTreeMap<String, BTreeMap<String, Tally>>,
    /// Warnings.
    pub warnings: Vec<Warning>,
    /// Network plugins, and whether one is said to have failed.
    pub plugins: BTreeMap<(String, bool), Tally>,
    /// The library and driver of GDRCopy.
    pub gdrcopy: BTreeMap<String, Tally>,
    /// Why there is no GPUDirect RDMA, by node.
    pub causes: BTreeMap<(Cause, usize), Tally>,
    /// Nodes that say that DMA-BUF is there.
    pub dma_buf: BTreeMap<usize, Tally>,
    /// Whether more was said than is kept, of what decides nothing.
    pub cut: bool,
    /// Messages that could not be taken apart, or are of more processes than are told apart: what they say is not known.
    pub lost: Option<Tally>,
    lists: BTreeSet<Arc<[String]>>,
    known: HashMap<(usize, u32, u32), usize>,
    host_index: HashMap<Vec<u8>, usize>,
    warning_index: HashMap<String, usize>,
    /// Workers by a cheap hash of who speaks: a log has millions of lines, and most are of one that was met before.
    recent: Vec<u32>,
}

impl Log {
    /// Takes the first message of a line; `Some`: where the next one begins.
    fn take<'l>(&mut self, line: &'l [u8], place: Place) -> Option<&'l [u8]> {
        let Some((said, rest)) = Line::parse(line) else {
            // It stands alone where only NCCL_DEBUG=VERSION is set.
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
            // Where the first one ends cannot be told for certain.
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
        // There are at most MOST_WORKERS.
        self.recent[slot] = u32::try_from(at).unwrap_or(u32::MAX);
        Some(at)
    }

    fn channel(&mut self, worker: usize, channel: &Channel, place: Place) {
        let worker = &mut self.workers[worker];
        let carrier = Carrier::from_channel(channel);
        Tally::count(&mut worker.carriers[carrier as usize], place);
        // What an Init line says counts more: there may be communicators of several sizes.
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
        // The same but for its numbers is the same.
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
        // What is known to be a fault has room of its own.
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

    /// The name of a NIC by the number that a process gives it.
    pub fn nic(&self, worker: &Worker, number: u32) -> Option<&str> {
        let process = self.processes.get(&(worker.host, worker.pid))?;
        process.hcas.get(usize::try_from(number).ok()?).map(String::as_str)
    }
}

/// Where one who speaks is looked for first.
fn slot(said: &Line) -> usize {
    // The end of a name tells nodes apart. FNV-1a's prime spreads the numbers.
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

/// A text of the log without what steers a terminal.
fn printable(text: &[u8]) -> String {
    brief(String::from_utf8_lossy(text).trim(), CHARACTERS)
}

#[cfg(test)]
mod line_formats;
#[cfg(test)]
mod tests;
