//! NCCL's debug output, read as a stream with any number of ranks. Memory does not grow with the log but with the
//! number of processes in it, which is bounded. Pure.

mod channel;
mod completeness;
pub mod failures;
mod finding;
mod findings;
mod glued;
mod jobs;
pub mod line;
mod model;
mod reader;
mod setup;
pub mod verdict;
pub mod warning_meanings;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::perf::Results;
use bedplate_base::terminal::brief;
use channel::{Channel, End};
use jobs::JobIndex;
use line::Line;
use warning_meanings::WarningSeverity;

pub use jobs::Job;
pub use model::{
    CARRIERS, Carrier, Cause, FailureLine, Place, Process, Reason, Tally, Warning, Worker,
};
pub use reader::Reader;

/// Maximum number of GPUs tracked; ranks beyond are counted and not analysed.
const MOST_WORKERS: usize = 1 << 16;
/// Maximum number of kinds of warnings, values of a variable, versions and networks tracked.
const MOST_KINDS: usize = 64;
/// Maximum number of kinds of warnings whose meaning is looked up.
const MOST_LOOKUPS: usize = 1 << 14;
/// Maximum number of texts retained per kind of warning, in addition to the first.
const MOST_ALIKE: usize = 3;
/// Maximum number of NICs tracked per GPU.
const MOST_NICS: usize = 64;
/// Entries in the cache of recent senders, a power of two.
const SLOTS: usize = 1 << 12;
/// Name of the node of messages that do not name theirs.
pub const ANONYMOUS: &str = "unknown node";
/// Maximum number of characters shown of a text.
const CHARACTERS: usize = 200;

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
    /// Warnings, and traces of failed calls.
    pub warnings: Vec<Warning>,
    /// Lines of launchers and programs that prove that the job failed or was ended.
    pub failures: Vec<FailureLine>,
    /// Network plugins, each with whether it failed to start.
    pub plugins: BTreeMap<(String, bool), Tally>,
    /// Versions of GDRCopy's library and driver.
    pub gdrcopy: BTreeMap<String, Tally>,
    /// Reasons for missing GPUDirect RDMA, by node.
    pub causes: BTreeMap<(Cause, usize), Reason>,
    /// Nodes that report DMA-BUF as available.
    pub dma_buf: BTreeMap<usize, Tally>,
    /// Whether data that decides nothing was dropped at a limit.
    pub cut: bool,
    /// Whether warnings of unknown meaning were dropped at a limit.
    pub dropped_warnings: bool,
    /// Messages that are unreadable, or from more processes than the maximum; their content is unknown.
    pub lost: Option<Tally>,
    /// Messages without node and process id. They are read as those of [`ANONYMOUS`].
    pub anonymous: Option<Tally>,
    /// Rates of RDMA ports in Gb/s, by node and name (`mlx5_0:1`).
    pub rates: BTreeMap<(usize, String), f64>,
    /// Algorithm of the largest operation (NCCL's name), with its size in bytes.
    pub algorithm: Option<(u64, String)>,
    /// Connections through switches that reduce (SHARP).
    pub collnet: Option<Tally>,
    /// Trees between nodes with reduction in NVSwitches.
    pub nvls_tree: Option<Tally>,
    /// Whether there are bytes that no text has.
    pub is_binary: bool,
    /// Whether the last line of a file has no end.
    pub is_cut_off: bool,
    /// Result tables, by file.
    pub results: Vec<Results>,
    job_index: JobIndex,
    lists: BTreeSet<Arc<[String]>>,
    known: HashMap<(usize, u32, u32), usize>,
    host_index: HashMap<Vec<u8>, usize>,
    /// Nodes by their names without a domain.
    short_names: HashMap<String, usize>,
    /// Node of a block of lines about a failed process.
    block_node: Option<usize>,
    /// Warnings whose meaning was looked up.
    looked_up: usize,
    /// First line of each node.
    host_places: Vec<Place>,
    warning_index: HashMap<String, usize>,
    /// Cache of workers by a cheap hash of the sender: most of a log's millions of lines are from a known sender.
    recent: Vec<u32>,
}

impl Log {
    /// Reads the first message of a line. Returns the start of the next message, if any. `is_whole`: the line has its
    /// end.
    fn take<'l>(&mut self, line: &'l [u8], place: Place, is_whole: bool) -> Option<&'l [u8]> {
        let (said, rest) = match Line::parse(line) {
            Some(parsed) => parsed,
            None => {
                self.job_failure(line, place);
                // Printed alone with NCCL_DEBUG=VERSION, and at the end of PyTorch's errors.
                if let Some((version, rccl)) = line::version(line) {
                    self.said += 1;
                    self.version(version, rccl, place);
                    return None;
                }
                let anonymous = Line::anonymous(line, ANONYMOUS.as_bytes())?;
                Tally::count(&mut self.anonymous, place);
                (anonymous, None)
            }
        };
        self.said += 1;
        if rest.is_some() {
            // The end of the first message is ambiguous.
            Tally::count(&mut self.lost, place);
        }
        let Some(worker) = self.worker(&said, place) else {
            Tally::count(&mut self.lost, place);
            return rest;
        };
        self.workers[worker].span.get_or_insert((place, place)).1 = place;
        if said.warning {
            self.warning(&said, worker, place, false);
            return rest;
        }
        // Most lines are about channels.
        let may_be_channel = matches!(said.text.first(), Some(b'C' | b'R'));
        match may_be_channel.then(|| channel::channel(said.text)).flatten() {
            // The rest of a line that is being written may be `/GDRDMA`.
            Some(channel) if !is_whole && Carrier::from_channel(&channel) == Carrier::Staged => {}
            Some(channel) => self.channel(worker, &channel, place),
            None if line::is_trace(said.text) => self.warning(&said, worker, place, true),
            None => self.other(&said, worker, place),
        }
        rest
    }

    fn worker(&mut self, said: &Line, place: Place) -> Option<usize> {
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
                let name = String::from_utf8_lossy(said.host).into_owned();
                let short = name.split('.').next().unwrap_or_default().to_owned();
                self.short_names.entry(short).or_insert(self.hosts.len());
                self.hosts.push(name);
                self.host_places.push(place);
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
        if channel.transport == b"COLLNET" {
            Tally::count(&mut self.collnet, place);
        }
        let worker = &mut self.workers[worker];
        let carrier = Carrier::from_channel(channel);
        Tally::count(&mut worker.carriers[carrier as usize], place);
        (worker.has_connection, worker.has_connection_in_ring) = (true, true);
        match channel.end {
            Some(End::Send) => worker.sends += 1,
            Some(End::Receive) => worker.receives += 1,
            None => {}
        }
        // Init lines take precedence: there may be communicators of several sizes.
        worker.rank.get_or_insert((channel.own, 0));
        // The numbers of sockets are those of network interfaces.
        if let Some(nic) = channel.nic.filter(|_| carrier != Carrier::Sockets) {
            let key = (channel.direct, nic);
            if let Some(count) = worker.nics.get_mut(&key) {
                *count += 1;
            } else if worker.nics.len() < MOST_NICS {
                worker.nics.insert(key, 1);
            }
        }
    }

    /// Records a line of a launcher or program that proves that the job failed.
    fn job_failure(&mut self, line: &[u8], place: Place) {
        // A block of torchrun names the host two lines before the exit code.
        if let Some(host) = line.trim_ascii_start().strip_prefix(b"host      :") {
            self.block_node = self.node_in(&printable(host));
        }
        let Some(failure) = failures::find(line) else { return };
        let text = printable(line);
        let node = self.node_in(&text).or_else(|| self.block_node.take());
        let alike = |one: &&mut FailureLine| std::ptr::eq(one.failure, failure);
        let count = self.failures.iter_mut().filter(alike).count();
        let known = |one: &&mut FailureLine| one.node == node || count >= MOST_ALIKE;
        match self.failures.iter_mut().filter(alike).find(known) {
            Some(one) => one.seen.count += 1,
            None => {
                let seen = Tally { count: 1, first: place };
                self.failures.push(FailureLine { failure, node, text, seen });
            }
        }
    }

    fn version(&mut self, version: &[u8], rccl: bool, place: Place) {
        let version = printable(version);
        count(&mut self.versions, (version, rccl), place, &mut self.cut);
    }

    fn warning(&mut self, said: &Line, worker: usize, place: Place, is_trace: bool) {
        let text = printable(said.text);
        // Warnings that differ only in numbers are the same kind.
        let alike: String =
            text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).take(80).collect();
        // Threads of the network do not know the process's GPU.
        let process = (self.workers[worker].host, self.workers[worker].pid);
        let is_after_setup = self.processes.get(&process).is_some_and(|process| process.complete);
        if let Some(at) = self.warning_index.get(&alike) {
            let warning = &mut self.warnings[*at];
            warning.seen.count += 1;
            warning.is_after_setup |= is_after_setup;
            let is_new = text != warning.text && !warning.more.contains(&text);
            if is_new && warning.more.len() < MOST_ALIKE {
                warning.more.push(text);
            }
            return;
        }
        self.looked_up += 1;
        if self.looked_up > MOST_LOOKUPS {
            (self.cut, self.dropped_warnings) = (true, true);
            return;
        }
        // Known faults have their own limit.
        let meaning = warning_meanings::meaning(&text).filter(|_| !is_trace);
        let is_fault = is_trace || meaning.is_some_and(|row| row.weight == WarningSeverity::Fault);
        let alike_in_weight = self.warnings.iter().filter(|one| one.is_fault == is_fault).count();
        if alike_in_weight >= MOST_KINDS {
            self.cut = true;
            self.dropped_warnings |= meaning.is_none();
            return;
        }
        self.warning_index.insert(alike, self.warnings.len());
        let host = self.workers[worker].host;
        self.warnings.push(Warning {
            text,
            is_fault,
            is_unknown: meaning.is_none() && !is_trace,
            is_after_setup,
            is_trace,
            worker,
            more: Vec::new(),
            host,
            seen: Tally { count: 1, first: place },
        });
    }

    /// Returns the last node that a text names, with or without its domain.
    fn node_in(&self, text: &str) -> Option<usize> {
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        let words = text.rsplit(|c: char| !is_of_name(c));
        let node = |name: &str| self.host_index.get(name.as_bytes()).copied();
        let mut nodes = words.filter(|word| !word.is_empty()).filter_map(|word| {
            let short = word.split('.').next().unwrap_or_default();
            node(word).or_else(|| node(short)).or_else(|| self.short_names.get(short).copied())
        });
        nodes.next()
    }

    /// Combines a version with its longer form: `2.21.5` and `2.21.5+cuda12.4`.
    fn merge_versions(&mut self) {
        let all: Vec<(String, bool)> = self.versions.keys().cloned().collect();
        for key in &all {
            let is_longer = |other: &&(String, bool)| {
                let rest = other.0.strip_prefix(key.0.as_str());
                other.1 == key.1 && rest.is_some_and(|rest| rest.starts_with(['+', '-']))
            };
            let Some(longer) = all.iter().find(is_longer) else { continue };
            if let Some(short) = self.versions.remove(key)
                && let Some(seen) = self.versions.get_mut(longer)
            {
                seen.count += short.count;
                seen.first = seen.first.min(short.first);
            }
        }
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
mod job_tests;
#[cfg(test)]
mod line_formats;
#[cfg(test)]
mod tests;
