//! A recording of a ready host, changed as a fault changes it.

use std::collections::BTreeMap;

use bedplate_core::engine::profile_source::Choice;
use bedplate_core::engine::{self, Request, observe};
use bedplate_core::verify::{Report, Selection};
use bedplate_facts::Depth;
use bedplate_facts::pci::{Function, PciTree};
use bedplate_facts::topology::{Peer, Topology};
use bedplate_host::snapshot::{Config, Node, Snapshot};
use bedplate_testhosts::HostSpec;
use serde::Deserialize;

/// One change to a recording.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Change {
    /// Every read of this function's config space returns ones.
    Ones(String),
    /// Clears bits of a byte of config space: `["{gpu}", offset, bits]`.
    Clear(String, u16, u8),
    Raise(String, u16, u8),
    /// Sets a word in the capability with this id, at this offset in it: `["{nic}", id, offset, word]`. Classic ids are
    /// below 0x100.
    Capability(String, u16, u16, u16),
    /// Sets the ACS control of a port, or of all ports with ACS.
    Acs(String, u16),
    /// Adds an ATS capability that is off.
    Ats(String),
    /// Writes a file: path and text.
    Write(String, String),
    /// Writes a link: path and target.
    Link(String, String),
    /// Replaces a text in a file: path, old, new.
    Replace(String, String, String),
    /// Makes a path absent, with everything below it.
    Remove(String),
    /// Makes a path absent that the host's description does not contain.
    Absent(String),
    /// Removes a function and all links to it.
    Gone(String),
    /// Makes a path unrecorded.
    Unrecord(String),
    /// Makes a path unreadable: permission denied.
    Deny(String),
    /// Adds a line to the kernel's log.
    Log(String),
    /// Whether the kernel's log has lost its first lines.
    LogWrapped(bool),
    /// Adds a line to the host's description.
    Describe(String),
}

fn spec(text: &str) -> HostSpec {
    HostSpec::from_toml(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Values of the words in braces: `{gpu}`, a GPU that shares a switch with a NIC (or the first GPU), `{nic}`, that NIC,
/// `{nic-pf}`, the NIC by which programs know it, `{gpu-port}` and `{nic-port}` above them, `{root}`, `{rdma}` (an RDMA
/// device), `{net}`.
fn parts(tree: &PciTree) -> BTreeMap<&'static str, String> {
    let topology = Topology::new(tree);
    let pairs = topology.pairs();
    let pair = pairs
        .iter()
        .find(|pair| pair.kind == Peer::DataDirect)
        .or_else(|| pairs.iter().find(|pair| pair.kind == Peer::Nic));
    let gpu = pair.map(|pair| pair.gpu).or(topology.gpus().first().copied()).expect("a GPU");
    let with_rdma = |function: &&Function| !function.infiniband.is_empty() && !function.is_vf();
    let first = tree.functions.values().find(with_rdma).expect("an RDMA NIC").address;
    let nic = pair.map_or(first, |pair| pair.peer);
    let pf = match tree.get(nic).expect("listed").infiniband.is_empty() {
        true => topology.nics_of(nic).first().copied().unwrap_or(first),
        false => nic,
    };
    let up = |address| tree.path_up(address);
    let mut parts = BTreeMap::from([
        ("gpu", gpu.to_string()),
        ("nic", nic.to_string()),
        ("nic-pf", pf.to_string()),
        ("rdma", tree.get(pf).expect("listed").infiniband[0].clone()),
        ("net", tree.get(pf).expect("listed").net.first().cloned().unwrap_or_default()),
    ]);
    let ports = [("gpu-port", up(gpu).first().copied()), ("nic-port", up(nic).first().copied())];
    parts.extend(ports.into_iter().filter_map(|(name, at)| Some((name, at?.to_string()))));
    parts.extend(up(gpu).last().map(|root| ("root", root.to_string())));
    parts
}

/// A recording under construction.
#[derive(Clone)]
pub struct Host {
    snapshot: Snapshot,
    parts: BTreeMap<&'static str, String>,
    tree: PciTree,
}

/// Hosts by their descriptions, before any change. Most faults use the same few hosts.
pub type Unchanged = BTreeMap<String, Host>;

impl Host {
    fn unchanged(description: &HostSpec) -> Self {
        let snapshot = description.build();
        let tree = observe(&snapshot, Depth::Thorough).pci.known().expect("a PCI tree").clone();
        let parts = parts(&tree);
        Host { snapshot, parts, tree }
    }

    /// Builds the recording of a host with these changes.
    pub fn new<'a>(
        description: &str,
        changes: impl Iterator<Item = &'a Change> + Clone,
        unchanged: &mut Unchanged,
    ) -> Self {
        let mut text = String::new();
        let mut log = Vec::new();
        let mut whole = true;
        for change in changes.clone() {
            match change {
                Change::Describe(line) => text = format!("{line}\n{text}"),
                Change::Log(line) => log.push(line.clone()),
                Change::LogWrapped(wrapped) => whole = !wrapped,
                _ => {}
            }
        }
        let text = format!("{text}{description}");
        let mut described = spec(&text);
        let host = unchanged.entry(text).or_insert_with(|| Host::unchanged(&described));
        let mut host = host.clone();
        if !log.is_empty() || !whole {
            described.kernel_log.extend(log.iter().map(|line| host.filled(line)));
            described.kernel_log_whole &= whole;
            host.snapshot = described.build();
        }
        changes.for_each(|change| host.change(change));
        host
    }

    fn filled(&self, text: &str) -> String {
        let filled = self
            .parts
            .iter()
            .fold(text.to_owned(), |text, (name, part)| text.replace(&format!("{{{name}}}"), part));
        assert!(!filled.contains('{') || filled.contains("\""), "{filled}: no such part");
        filled
    }

    fn path(&self, text: &str) -> String {
        self.snapshot.canonical(&self.filled(text))
    }

    /// Returns the functions that a word selects.
    fn functions(&self, word: &str) -> Vec<String> {
        let all = |is: &dyn Fn(&Function) -> bool| -> Vec<String> {
            let such = self.tree.functions.values().filter(|function| is(function));
            such.map(|function| function.address.to_string()).collect()
        };
        match word {
            "every gpu" => all(&|f| f.is_gpu()),
            "every nic" => all(&|f| f.is_nic() && !f.infiniband.is_empty() && !f.is_vf()),
            "every port" => all(&|f| f.is_bridge() && f.acs.known().is_some()),
            word => vec![self.filled(word)],
        }
    }

    fn config(&mut self, function: &str, change: impl FnOnce(&mut [u8])) {
        let path = self.snapshot.canonical(&format!("/sys/bus/pci/devices/{function}/config"));
        let Some(Node::Config(config)) = self.snapshot.node_mut(&path) else {
            panic!("{path}: no config space")
        };
        let length = usize::from(config.length);
        let mut bytes = config.get(0, length).unwrap_or_else(|| {
            let byte = |at: u16| config.get(at, 1).map_or(0, |bytes| bytes[0]);
            (0..config.length).map(byte).collect()
        });
        change(&mut bytes);
        // `add` never replaces existing bytes.
        *config = Config { length: config.length, ..Config::default() };
        config.add(0, &bytes);
    }

    /// Applies changes of config space.
    fn registers(&mut self, change: &Change) {
        match change {
            Change::Ones(word) => {
                for function in self.functions(word) {
                    self.config(&function, |bytes| bytes.fill(0xff));
                }
            }
            Change::Clear(word, at, bits) | Change::Raise(word, at, bits) => {
                let clears = matches!(change, Change::Clear(..));
                for function in self.functions(word) {
                    self.config(&function, |bytes| {
                        let byte = &mut bytes[usize::from(*at)];
                        *byte = if clears { *byte & !bits } else { *byte | bits };
                    });
                }
            }
            Change::Capability(word, id, offset, value) => {
                for function in self.functions(word) {
                    self.config(&function, |bytes| {
                        let at = capability(bytes, *id).expect("it has this capability");
                        bytes[at + usize::from(*offset)..][..2]
                            .copy_from_slice(&value.to_le_bytes());
                    });
                }
            }
            Change::Acs(word, value) => {
                for function in self.functions(word) {
                    self.config(&function, |bytes| {
                        if let Some(at) = capability(bytes, 0x10d) {
                            bytes[at + 6..][..2].copy_from_slice(&value.to_le_bytes());
                        }
                    });
                }
            }
            Change::Ats(word) => {
                for function in self.functions(word) {
                    self.config(&function, add_ats);
                }
            }
            _ => {}
        }
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::Write(path, text) => {
                let (path, text) = (self.path(path), self.filled(text));
                self.insert(&path, Node::File(text.into_bytes()));
            }
            Change::Link(path, target) => {
                let (path, target) = (self.path(path), self.filled(target));
                self.insert(&path, Node::Link(target));
            }
            Change::Replace(path, from, to) => {
                let path = self.path(path);
                let Some(Node::File(bytes)) = self.snapshot.node(&path) else {
                    panic!("{path}: no file")
                };
                let text = String::from_utf8(bytes.clone()).expect("text");
                let (from, to) = (self.filled(from), self.filled(to));
                assert!(text.contains(&from), "{path}: {from} is not in it");
                self.insert(&path, Node::File(text.replace(&from, &to).into_bytes()));
            }
            Change::Remove(path) => self.replace_all(path, |_| Node::Absent),
            Change::Absent(path) => self.snapshot.insert(path, Node::Absent),
            Change::Deny(path) => self.replace_all(path, |_| Node::Denied),
            Change::Unrecord(path) => {
                for path in self.matching(path) {
                    self.snapshot.remove(&path);
                    self.unlist(&path, true);
                }
            }
            Change::Gone(word) => {
                for function in self.functions(word) {
                    self.gone(&function);
                }
            }
            Change::Log(_) | Change::LogWrapped(_) | Change::Describe(_) => {}
            registers => self.registers(registers),
        }
    }

    fn insert(&mut self, path: &str, node: Node) {
        self.snapshot.insert(path, node);
        let mut at = path;
        while let Some((parent, name)) = at.rsplit_once('/') {
            match self.snapshot.node_mut(parent) {
                Some(Node::Dir(Some(names))) => {
                    if let Err(place) = names.binary_search_by(|known| known.as_str().cmp(name)) {
                        names.insert(place, name.to_owned());
                    }
                }
                Some(parent @ Node::Absent) => *parent = Node::Dir(Some(vec![name.to_owned()])),
                _ => {}
            }
            at = parent;
        }
    }

    /// Returns existing paths that match; `*` matches one part of a path.
    fn matching(&self, path: &str) -> Vec<String> {
        let path = self.filled(path);
        if !path.contains(['*', '[']) {
            return vec![self.snapshot.canonical(&path)];
        }
        let pattern = glob::Pattern::new(&path).expect("a pattern");
        let options = glob::MatchOptions { require_literal_separator: true, ..Default::default() };
        let found = self.snapshot.nodes().map(|(path, _)| path.to_owned());
        let found: Vec<String> = found.filter(|path| pattern.matches_with(path, options)).collect();
        assert!(!found.is_empty(), "{path}: nothing matches");
        found
    }

    fn replace_all(&mut self, path: &str, node: impl Fn(&str) -> Node) {
        for path in self.matching(path) {
            assert!(self.snapshot.node(&path).is_some(), "{path}: not there");
            self.snapshot.remove(&path);
            let node = node(&path);
            let is_gone = node == Node::Absent;
            self.snapshot.insert(&path, node);
            if is_gone {
                self.unlist(&path, false);
            }
        }
    }

    /// Removes a name from the listing of its directory. An unrecorded name makes the listing incomplete.
    fn unlist(&mut self, path: &str, incomplete: bool) {
        let Some((parent, name)) = path.rsplit_once('/') else { return };
        if let Some(Node::Dir(listing)) = self.snapshot.node_mut(parent) {
            match listing {
                Some(names) if !incomplete => names.retain(|known| known != name),
                listing => *listing = None,
            }
        }
    }

    fn gone(&mut self, function: &str) {
        let directory = self.snapshot.canonical(&format!("/sys/bus/pci/devices/{function}/."));
        let leads = |node: &Node| match node {
            Node::Link(target) => target.contains(&format!("/{function}")),
            _ => false,
        };
        let links: Vec<String> = self
            .snapshot
            .nodes()
            .filter(|(_, node)| leads(node))
            .map(|(path, _)| path.to_owned())
            .collect();
        for path in links.into_iter().chain([directory]) {
            self.snapshot.remove(&path);
            self.unlist(&path, false);
        }
    }

    /// Evaluates all checks.
    pub fn report(&self) -> Report {
        let choice = Choice::HostOnly;
        let request = Request::dry_run(choice);
        engine::verify(&self.snapshot, &request, &Selection::default()).expect("a report").report
    }
}

/// Returns the offset of a capability. Ids of extended ones have 0x100 added.
fn capability(bytes: &[u8], id: u16) -> Option<usize> {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    if id < 0x100 {
        let mut at = usize::from(bytes[0x34]);
        while at >= 0x40 {
            if u16::from(bytes[at]) == id {
                return Some(at);
            }
            at = usize::from(bytes[at + 1]);
        }
        return None;
    }
    let mut at = 0x100;
    while at >= 0x100 && word(at) != 0 {
        if word(at) as u16 == id - 0x100 {
            return Some(at);
        }
        at = (word(at) >> 20) as usize;
    }
    None
}

fn add_ats(bytes: &mut [u8]) {
    let word = |bytes: &[u8], at: usize| {
        u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
    };
    let mut last = 0x100;
    while word(bytes, last) >> 20 != 0 {
        last = (word(bytes, last) >> 20) as usize;
    }
    let linked = word(bytes, last) | 0xf00 << 20;
    bytes[last..last + 4].copy_from_slice(&linked.to_le_bytes());
    bytes[0xf00..0xf04].copy_from_slice(&0x0001_000f_u32.to_le_bytes());
    bytes[0xf04..0xf08].copy_from_slice(&0x20_u32.to_le_bytes());
}
