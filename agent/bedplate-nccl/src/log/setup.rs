//! Messages that a process prints once or a few times: its rank, devices, environment, and reasons for missing
//! GPUDirect RDMA.

use std::sync::Arc;

use super::line::{self, Line};
use super::{
    Cause, Log, MOST_KINDS, MOST_NICS, MOST_WORKERS, Place, Reason, Tally, count, printable,
};
use bedplate_base::terminal::brief;

/// Maximum number of distinct NIC lists.
const MOST_LISTS: usize = 1 << 10;

impl Log {
    /// Reads a message other than a channel or a warning.
    pub(super) fn other(&mut self, said: &Line, worker: usize, place: Place) {
        let text = said.text;
        let host = self.workers[worker].host;
        let process = (host, said.pid);
        if text.ends_with(b"Init COMPLETE") || text.ends_with(b"Init START") {
            self.communicator(text, worker, place);
        } else if text.ends_with(b" - Destroy COMPLETE") {
            let worker = &mut self.workers[worker];
            worker.destroyed = worker.destroyed.saturating_add(1);
        } else if text.starts_with(b"Connected ") {
            self.connected(text, worker, place);
        } else if let Some((bytes, algorithm)) = algorithm(text) {
            if self.algorithm.as_ref().is_none_or(|(before, _)| *before < bytes) {
                self.algorithm = Some((bytes, printable(algorithm)));
            }
        } else if let Some((port, rate)) = port_rate(text) {
            if self.rates.len() < MOST_WORKERS {
                self.rates.insert((host, port), rate);
            }
        } else if let Some(list) = text.strip_prefix(b"NET/IB : Using") {
            // Every communicator repeats the list.
            if self.processes.get(&process).is_none_or(|process| process.hcas.is_empty()) {
                let hcas = self.list(hcas(list));
                self.processes.entry(process).or_default().hcas = hcas;
            }
        } else if let Some(network) = network(text) {
            self.processes.entry(process).or_default().network = Some((printable(network), place));
        } else if text.starts_with(b"NET/IB : No device found") {
            self.cause(Cause::NoDevice, host, said, place);
        } else if memchr::memmem::find(text, b"GPU Direct RDMA Disabled for ").is_some() {
            // GPUDirect RDMA does not apply to TCP.
            if text.starts_with(b"NET/Socket") {
                return;
            }
            let of_hca = memchr::memmem::find(text, b"Disabled for HCA").is_some()
                || memchr::memmem::find(text, b"(no module").is_some();
            self.cause(if of_hca { Cause::NoModule } else { Cause::TooFar }, host, said, place);
        } else if text.starts_with(b"DMA-BUF is available") {
            let entry = self.dma_buf.entry(host);
            entry.or_insert(Tally { count: 0, first: place }).count += 1;
        } else if let Some(at) = memchr::memmem::find(text, b" set by environment to ") {
            let name = &text[..at];
            let value = &text[at + b" set by environment to ".len()..];
            // Numbers are printed with a full stop.
            let number =
                value.strip_suffix(b".").filter(|rest| rest.iter().all(u8::is_ascii_digit));
            self.variable(name, number.unwrap_or(value), place);
        } else if let Some((version, rccl)) = line::version(text) {
            self.version(version, rccl, place);
        } else if let Some((plugin, failed)) = plugin(text) {
            count(&mut self.plugins, (printable(plugin), failed), place, &mut self.cut);
        } else if let Some(versions) = text.strip_prefix(b"GDRCOPY enabled ") {
            count(&mut self.gdrcopy, printable(versions), place, &mut self.cut);
        }
    }

    /// Reads the start or the end of the setup of a communicator.
    fn communicator(&mut self, text: &[u8], worker: usize, place: Place) {
        let own = line::after(text, b" rank ").zip(line::after(text, b" nranks "));
        if let Some(id) = communicator_id(text) {
            self.job_index.join(worker, id, own);
        }
        let worker = &mut self.workers[worker];
        let process = (worker.host, worker.pid);
        match text.ends_with(b"COMPLETE") {
            true => {
                worker.complete = true;
                worker.completed_at = Some(place);
                self.processes.entry(process).or_default().complete = true;
                worker.completed = worker.completed.saturating_add(1);
                let is_joined = own.is_none_or(|(_, ranks)| ranks > 1);
                worker.communicators = worker.communicators.saturating_add(u32::from(is_joined));
                // Older versions do not report the start: their connections precede this line.
                if worker.started.is_none() {
                    worker.setups = worker.setups.saturating_add(1);
                    worker.end_communicator();
                }
            }
            false => {
                worker.started.get_or_insert(place);
                worker.setups = worker.setups.saturating_add(1);
                worker.end_communicator();
            }
        }
        if let Some((rank, ranks)) = own
            && worker.rank.is_none_or(|(_, before)| before < ranks)
        {
            worker.rank = Some((rank, ranks));
        }
    }

    /// Returns the shared copy of a list, adding it if new.
    fn list(&mut self, names: Vec<String>) -> Arc<[String]> {
        let names: Arc<[String]> = names.into();
        if let Some(known) = self.lists.get(&names) {
            return Arc::clone(known);
        }
        if self.lists.len() >= MOST_LISTS {
            self.cut = true;
            return Arc::default();
        }
        self.lists.insert(Arc::clone(&names));
        names
    }

    fn cause(&mut self, cause: Cause, host: usize, said: &Line, place: Place) {
        let reason = self.causes.entry((cause, host)).or_insert_with(|| Reason {
            text: printable(said.text),
            seen: Tally { count: 0, first: place },
        });
        reason.seen.count += 1;
    }

    /// Reads a report of finished connections.
    fn connected(&mut self, text: &[u8], worker: usize, place: Place) {
        if text.starts_with(b"Connected all rings") {
            let worker = &mut self.workers[worker];
            worker.rings = worker.rings.saturating_add(u32::from(worker.has_connection_in_ring));
            worker.has_connection_in_ring = false;
        } else if text.starts_with(b"Connected NVLS tree") {
            Tally::count(&mut self.nvls_tree, place);
        }
    }

    fn variable(&mut self, name: &[u8], value: &[u8], place: Place) {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        if name.is_empty() || name.len() > 64 || !name.iter().all(plain) {
            return;
        }
        let name = printable(name);
        if !self.environment.contains_key(&name) && self.environment.len() >= 4 * MOST_KINDS {
            self.cut = true;
            return;
        }
        let values = self.environment.entry(name).or_default();
        count(values, printable(value), place, &mut self.cut);
    }
}

/// Parses the id that all ranks of a communicator print: `commId 0x7d8e28a3cb1f3f2c`.
fn communicator_id(text: &[u8]) -> Option<u64> {
    const BEFORE: &[u8] = b" commId 0x";
    let rest = &text[memchr::memmem::find(text, BEFORE)? + BEFORE.len()..];
    let digits = rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    u64::from_str_radix(std::str::from_utf8(&rest[..digits]).ok()?, 16).ok()
}

/// Parses `AllReduce: 8589934592 Bytes -> Algo NVLS_TREE proto SIMPLE …` (src/enqueue.cc; from 2.24 on with
/// NCCL_DEBUG_SUBSYS=TUNING); returns bytes and algorithm of an all_reduce.
fn algorithm(text: &[u8]) -> Option<(u64, &[u8])> {
    let rest = std::str::from_utf8(text.strip_prefix(b"AllReduce: ")?).ok()?;
    let (bytes, rest) = rest.split_once(" Bytes -> Algo ")?;
    Some((bytes.parse().ok()?, rest.split(' ').next()?.as_bytes()))
}

/// Parses `NET/IB: [0] mlx5_0:uverbs0:1/IB provider=Mlx5 speed=400000 …` (src/transport/net_ib/init.cc; from 2.27 on);
/// returns `mlx5_0:1` and the rate in Gb/s.
fn port_rate(text: &[u8]) -> Option<(String, f64)> {
    let text = std::str::from_utf8(text.strip_prefix(b"NET/IB: [")?).ok()?;
    let (_, rest) = text.split_once("] ")?;
    let (port, rest) = rest.split_once('/')?;
    let mut parts = port.split(':');
    let (device, number) = (parts.next()?, parts.next_back()?);
    let (_, rest) = rest.split_once(" speed=")?;
    let rate = rest.split(' ').next()?.parse::<u32>().ok().filter(|rate| *rate > 0)?;
    Some((brief(&format!("{device}:{number}"), 80), f64::from(rate) / 1000.0))
}

/// Returns the network that a communicator uses, in the old wording and the one since 2.27.
fn network(text: &[u8]) -> Option<&[u8]> {
    text.strip_prefix(b"Using network ")
        .or_else(|| text.strip_prefix(b"Assigned NET plugin ")?.strip_suffix(b" to comm"))
}

/// Returns a network plugin, and whether it failed to start (src/plugin/net.cc; src/net.cc up to 2.26).
fn plugin(text: &[u8]) -> Option<(&[u8], bool)> {
    const GOOD: [&[u8]; 4] = [
        b"Initialized NET plugin ",
        b"Successfully loaded external network plugin ",
        b"Successfully loaded external plugin ",
        b"NET/Plugin: Loaded net plugin ",
    ];
    let good = GOOD.iter().find_map(|start| text.strip_prefix(*start));
    let failed = || text.strip_prefix(b"Failed to initialize NET plugin ");
    good.map(|name| (name, false)).or_else(|| Some((failed()?, true)))
}

/// Parses ` [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB bond0:10.0.0.1<0>`.
fn hcas(list: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(list);
    let list = text.split("; OOB").next().unwrap_or_default();
    let items = list.split_ascii_whitespace().filter_map(|item| {
        let (number, name) = item.strip_prefix('[')?.split_once(']')?;
        (number.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty())
            .then(|| brief(name, 80))
    });
    items.take(MOST_NICS).collect()
}
