//! Single faults, each put into a recording of a ready host (`tests/data/faults/*.toml`), and the result that `bedplate
//! verify` must give. A host on which a job would break must not be ready; a healthy or recovered neighbour of a fault must
//! cause no warning.
//!
//! Each row was written, with the source of its expectation, before it was run. Words in braces are replaced by a part of
//! the host, see [`parts`].

use std::collections::{BTreeMap, BTreeSet};

use bedplate_core::engine::profile_source::Choice;
use bedplate_core::engine::{self, Request, observe};
use bedplate_core::verify::{Answer, Report, Selection, Verdict};
use bedplate_facts::Depth;
use bedplate_facts::pci::{Function, PciTree};
use bedplate_facts::topology::{Peer, Topology};
use bedplate_host::snapshot::{Config, Node, Snapshot};
use bedplate_testhosts::HostSpec;
use serde::Deserialize;

/// The expectation of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Expected {
    /// Not ready, by this check.
    NotReady,
    /// Ready, with a warning of this check.
    Warning,
    /// The check is unknown, and no other check fails.
    Unknown,
    /// Ready, without a warning.
    Ready,
}

/// One change to a recording.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Change {
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

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Neighbour {
    change: Vec<Change>,
    #[serde(default = "ready")]
    expect: Expected,
    by: Option<String>,
}

fn ready() -> Expected {
    Expected::Ready
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Fault {
    name: String,
    /// Hosts on which the fault is tried.
    #[serde(default = "hgx")]
    on: Vec<String>,
    /// Source of the expectation.
    source: String,
    change: Vec<Change>,
    expect: Expected,
    by: String,
    /// Name in JSON of the required recovery.
    recovery: Option<String>,
    /// The same host after the fault, or with a similar change that is not a fault.
    neighbour: Neighbour,
}

fn hgx() -> Vec<String> {
    vec!["hgx".to_owned()]
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Good {
    name: String,
    host: String,
    #[serde(default)]
    change: Vec<Change>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    good: Vec<Good>,
    #[serde(default)]
    fault: Vec<Fault>,
}

/// The names of the files, without their extension.
fn files() -> Vec<String> {
    let entries = bedplate_tests::data("faults").read_dir().expect("tests/data/faults");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut names: Vec<String> = paths
        .map(|path| path.file_stem().expect("a file").to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn file(name: &str) -> File {
    let path = bedplate_tests::data(&format!("faults/{name}.toml"));
    let text = std::fs::read_to_string(&path).expect("a readable file");
    toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn goods() -> BTreeMap<String, Good> {
    file("good").good.into_iter().map(|good| (good.name.clone(), good)).collect()
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
struct Host {
    snapshot: Snapshot,
    parts: BTreeMap<&'static str, String>,
    tree: PciTree,
}

/// Hosts by their descriptions, before any change. Most faults use the same few hosts.
type Unchanged = BTreeMap<String, Host>;

impl Host {
    fn unchanged(description: &HostSpec) -> Self {
        let snapshot = description.build();
        let tree = observe(&snapshot, Depth::Thorough).pci.known().expect("a PCI tree").clone();
        let parts = parts(&tree);
        Host { snapshot, parts, tree }
    }

    fn new(good: &Good, changes: &[Change], unchanged: &mut Unchanged) -> Self {
        let mut text = String::new();
        let mut log = Vec::new();
        let mut whole = true;
        for change in good.change.iter().chain(changes) {
            match change {
                Change::Describe(line) => text = format!("{line}\n{text}"),
                Change::Log(line) => log.push(line.clone()),
                Change::LogWrapped(wrapped) => whole = !wrapped,
                _ => {}
            }
        }
        let text = format!("{text}{}", good.host);
        let mut described = spec(&text);
        let host = unchanged.entry(text).or_insert_with(|| Host::unchanged(&described));
        let mut host = host.clone();
        if !log.is_empty() || !whole {
            described.kernel_log.extend(log.iter().map(|line| host.filled(line)));
            described.kernel_log_whole &= whole;
            host.snapshot = described.build();
        }
        good.change.iter().chain(changes).for_each(|change| host.change(change));
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

    fn report(&self) -> Report {
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

fn warned(report: &Report) -> BTreeSet<&'static str> {
    let all = report.checks.iter().filter(|judged| judged.verdict == Verdict::Warn);
    all.map(|judged| judged.id).collect()
}

/// Returns the difference from the expectation. `usual`: warnings of the host without the fault.
fn differs(
    report: &Report,
    (expect, by): (Expected, Option<&str>),
    usual: &BTreeSet<&'static str>,
) -> Option<String> {
    let verdict = |id: &str| {
        let judged = report.checks.iter().find(|judged| judged.id == id);
        judged.unwrap_or_else(|| panic!("no check is called {id}")).verdict
    };
    for judged in &report.checks {
        let found = matches!(judged.verdict, Verdict::Fail | Verdict::Warn);
        assert!(!judged.finding.is_empty(), "{}: no words", judged.id);
        assert_eq!(found, !judged.codes.is_empty(), "{}: {:?}", judged.id, judged.codes);
    }
    let more: Vec<&str> = warned(report).difference(usual).copied().collect();
    let is_as_expected = match (expect, by) {
        (Expected::NotReady, Some(by)) => {
            report.answer == Answer::NotReady && verdict(by) == Verdict::Fail
        }
        (Expected::Warning, Some(by)) => {
            report.answer == Answer::Ready && verdict(by) == Verdict::Warn
        }
        (Expected::Unknown, Some(by)) => {
            report.answer != Answer::NotReady && verdict(by) == Verdict::Unknown
        }
        (Expected::Ready, _) => report.answer == Answer::Ready && more.is_empty(),
        (_, None) => panic!("`by` is missing"),
    };
    let by = by.map(|by| format!("{by} is {:?}", verdict(by))).unwrap_or_default();
    let because = report.reason.as_deref().unwrap_or_default();
    (!is_as_expected).then(|| {
        format!("expected {expect:?}, got {:?}: {because}; {by}; warned of {more:?}", report.answer)
    })
}

#[test]
fn good_hosts_are_ready_without_warnings() {
    for good in goods().values() {
        let report = Host::new(good, &[], &mut Unchanged::new()).report();
        let warned = warned(&report);
        assert_eq!(report.answer, Answer::Ready, "{}: {:?}", good.name, report.reason);
        assert!(warned.is_empty(), "{}: {warned:?}", good.name);
    }
}

/// Checks that each fault of a file has the result that its source states.
fn assert_faults(name: &str) {
    let (goods, faults, mut unchanged) = (goods(), file(name).fault, Unchanged::new());
    let mut wrong = Vec::new();
    assert!(!faults.is_empty(), "{name}.toml has no fault");
    for fault in &faults {
        assert!(!fault.source.is_empty(), "{}: no source", fault.name);
        for on in &fault.on {
            let good = goods.get(on).unwrap_or_else(|| panic!("{}: no host {on}", fault.name));
            let usual = BTreeSet::new();
            let report = Host::new(good, &fault.change, &mut unchanged).report();
            let found = differs(&report, (fault.expect, Some(&fault.by)), &usual);
            wrong.extend(found.map(|found| format!("{} on {on}: {found}", fault.name)));
            if let Some(recovery) = &fault.recovery
                && recovery != report.recovery.name()
            {
                wrong.push(format!("{} on {on}: recovery {}", fault.name, report.recovery.name()));
            }
            let Neighbour { change, expect, by } = &fault.neighbour;
            let report = Host::new(good, change, &mut unchanged).report();
            let found = differs(&report, (*expect, by.as_deref()), &usual);
            wrong
                .extend(found.map(|found| format!("neighbour of {} on {on}: {found}", fault.name)));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), faults.len(), wrong.join("\n"));
}

/// Defines one test per file of faults, so that they run in parallel.
macro_rules! faults {
    ($($file:ident)*) => {
        $(
            #[test]
            fn $file() {
                assert_faults(stringify!($file));
            }
        )*

        #[test]
        fn every_file_has_a_test_and_fault_names_are_unique() {
            let tested = BTreeSet::from([$(stringify!($file).to_owned()),*]);
            let all: BTreeSet<String> = files().into_iter().filter(|name| name != "good").collect();
            assert_eq!(tested, all);
            let mut names = BTreeSet::new();
            for fault in all.iter().flat_map(|name| file(name).fault) {
                assert!(names.insert(fault.name.clone()), "two faults are called {}", fault.name);
            }
            assert!(file("good").fault.is_empty());
            assert!(all.iter().all(|name| file(name).good.is_empty()));
        }
    };
}

faults! { devices driver fabric guests host links log nccl window }
