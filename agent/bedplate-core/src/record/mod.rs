//! Records a host as a snapshot. A [`Recorder`] is a reader that stores every result of another reader; [`record`]
//! drives it over all reads of planning and inspection, for any profile. Its output contains no secrets (`redact`).

mod manifest;
mod redact;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use bedplate_base::ReadError;
use bedplate_base::value::PciAddress;
use bedplate_base::value::flow_control::FlowControl;
use bedplate_base::value::vf::{EswitchMode, VfTable};
use bedplate_host::snapshot::{Config, Node, Snapshot};
use bedplate_host::snapshot_paths::{
    GRUB_HEADER_BLOCK, KERNEL_LOG, ROUTES, eswitch_at, flow_control_at, vfs_at,
};
use bedplate_host::{ConfigSpace, HostKind, KernelLog, LineFilter, ReadCost, Reader, symlink};

pub(crate) use redact::Redactions;

/// Records everything that planning and inspection may read.
pub fn record(reader: &dyn Reader) -> Snapshot {
    record_and_say(reader, HostNames::default()).0
}

/// Path of the hostname.
pub const HOSTNAME: &str = "/proc/sys/kernel/hostname";

/// Identifying data that a snapshot contains only on request.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostNames {
    /// Hardware addresses, serial numbers, and machine ids.
    pub identifiers: bool,
    /// The hostname.
    pub hostname: bool,
}

/// Records like [`record`], and also returns the list of redactions.
pub fn record_and_say(reader: &dyn Reader, with: HostNames) -> (Snapshot, Redactions) {
    let with_identifiers = with.identifiers;
    let recorder = Recorder { with_identifiers, ..Recorder::new(reader) };
    manifest::read_all(&recorder);
    if with.hostname {
        let _ = recorder.read(HOSTNAME);
    }
    redact::snapshot(&recorder.recorded(), with_identifiers)
}

/// Reads through another reader and stores its results.
pub struct Recorder<'a> {
    inner: &'a dyn Reader,
    snapshot: RefCell<Snapshot>,
    with_identifiers: bool,
}

impl<'a> Recorder<'a> {
    /// Creates a recorder of reads from `inner`.
    pub fn new(inner: &'a dyn Reader) -> Self {
        let running = inner.kind() != HostKind::Image;
        let snapshot = RefCell::new(Snapshot::new(running));
        Recorder { inner, snapshot, with_identifiers: false }
    }

    /// Records only the part of a file that `cut` returns.
    fn read_part(&self, path: &str, cut: impl FnOnce(&[u8]) -> Vec<u8>) {
        let _ = self.note(path, self.inner.read(path), |bytes| Node::File(cut(bytes)));
    }

    /// Records only the names in a directory that pass `keep`.
    fn list_part(&self, path: &str, keep: impl Fn(&str) -> bool) {
        let _ = self.note(path, self.inner.list(path), |names| {
            Node::Dir(Some(names.iter().filter(|name| keep(name)).cloned().collect()))
        });
    }

    /// Returns the snapshot, without secrets.
    pub fn finish(self) -> Snapshot {
        redact::snapshot(&self.recorded(), false).0
    }

    fn recorded(self) -> Snapshot {
        let mut snapshot = self.snapshot.into_inner();
        snapshot.forget_listed_absences();
        snapshot
    }

    /// Resolves the links of a path and records each. `None` if a component is missing, which is recorded too.
    fn walk(&self, path: &str, follow: bool) -> Option<String> {
        let mut links = 0;
        let walked = symlink::walk(path, |at, next, is_last| {
            let target = self.step(at, next).ok_or(())?.filter(|_| follow || !is_last);
            links += usize::from(target.is_some());
            if links > symlink::MOST_LINKS { Err(()) } else { Ok(target) }
        });
        walked.ok()
    }

    /// Returns the link target of entry `next` in directory `at`; `Some(None)` if it is not a link, `None` if
    /// unreachable.
    fn step(&self, at: &str, next: &str) -> Option<Option<String>> {
        // These links contain the id of the reading process, which differs on every run.
        if matches!(next, "/proc/net" | "/proc/mounts" | "/proc/self") {
            return Some(None);
        }
        match self.snapshot.borrow().node(next) {
            Some(Node::Link(target)) => return Some(Some(target.clone())),
            Some(Node::Absent) => return None,
            Some(_) => return Some(None),
            None => {}
        }
        match self.inner.link(next) {
            Ok(target) => {
                self.merge(next, Node::Link(target.clone()));
                Some(Some(target))
            }
            Err(ReadError::NotFound { .. }) => {
                self.merge(next, Node::Absent);
                None
            }
            Err(ReadError::Denied { .. }) => {
                self.merge(at, Node::Denied);
                None
            }
            Err(ReadError::NotRecorded { .. }) => None,
            // Whether it is a link is unknown, as its content.
            Err(ReadError::Hidden { .. }) => Some(None),
            // Exists, and is not a link.
            Err(ReadError::Failed { .. } | ReadError::Untrusted { .. }) => Some(None),
        }
    }

    /// Adds a node, unless the existing one has more information.
    fn merge(&self, path: &str, node: Node) {
        let worth = |node: &Node| match node {
            Node::Absent | Node::Present | Node::Dir(None) => 0,
            Node::Denied | Node::Failed(_) | Node::Start(_) => 1,
            Node::File(_) | Node::Link(_) | Node::Dir(Some(_)) | Node::Config(_) => 2,
        };
        let mut snapshot = self.snapshot.borrow_mut();
        let better = snapshot.node(path).is_none_or(|known| match (known, &node) {
            (Node::Start(known), Node::Start(new)) => new.len() > known.len(),
            (Node::Present, Node::Dir(None)) => true,
            (known, new) => worth(new) > worth(known),
        });
        if better {
            snapshot.insert(path, node);
        }
    }

    /// Records that reading `path` failed.
    fn fail(&self, path: &str, error: &ReadError) {
        let Some(at) = self.walk(path, true) else { return };
        match error {
            ReadError::Denied { .. } if self.inner.exists(path) == Ok(true) => {
                self.merge(&at, Node::Denied)
            }
            ReadError::Failed { reason, .. } if reason == "Is a directory" => {
                self.merge(&at, Node::Dir(None))
            }
            ReadError::Failed { reason, .. } | ReadError::Hidden { why: reason, .. } => {
                self.merge(&at, Node::Failed(reason.clone()))
            }
            // A directory was expected, and this is something else.
            ReadError::NotFound { .. } if self.inner.exists(path) == Ok(true) => {
                self.merge(&at, Node::Present)
            }
            ReadError::NotFound { .. }
            | ReadError::Denied { .. }
            | ReadError::Untrusted { .. }
            | ReadError::NotRecorded { .. } => {}
        }
    }

    /// Records a kernel response that is not from a file.
    fn note_answer<T: serde::Serialize>(&self, at: &str, answer: Result<&T, &ReadError>) {
        let node = match answer.map(serde_json::to_vec) {
            Ok(Ok(bytes)) => Node::File(bytes),
            Err(ReadError::Denied { .. }) => Node::Denied,
            Err(ReadError::Failed { reason, .. } | ReadError::Hidden { why: reason, .. }) => {
                Node::Failed(reason.clone())
            }
            Ok(Err(_))
            | Err(
                ReadError::NotFound { .. }
                | ReadError::Untrusted { .. }
                | ReadError::NotRecorded { .. },
            ) => return,
        };
        self.merge(at, node);
    }

    /// Records a result, including failures.
    fn note<T>(
        &self,
        path: &str,
        answer: Result<T, ReadError>,
        node: impl FnOnce(&T) -> Node,
    ) -> Result<T, ReadError> {
        match &answer {
            Ok(value) => {
                if let Some(at) = self.walk(path, true) {
                    self.merge(&at, node(value));
                }
            }
            Err(error) => self.fail(path, error),
        }
        answer
    }
}

impl Reader for Recorder<'_> {
    fn kind(&self) -> HostKind {
        self.inner.kind()
    }

    fn is_recording(&self) -> bool {
        self.inner.is_recording()
    }

    fn display_path(&self, path: &str) -> String {
        self.inner.display_path(path)
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        self.note(path, self.inner.read(path), |bytes| Node::File(bytes.clone()))
    }

    fn read_start(&self, path: &str, limit: usize) -> Result<Vec<u8>, ReadError> {
        self.note(path, self.inner.read_start(path, limit), |bytes| {
            if bytes.len() < limit { Node::File(bytes.clone()) } else { Node::Start(bytes.clone()) }
        })
    }

    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        self.note(path, self.inner.list(path), |names| Node::Dir(Some(names.clone())))
    }

    fn link(&self, path: &str) -> Result<String, ReadError> {
        let answer = self.inner.link(path);
        if let (Some(at), Err(ReadError::Failed { .. })) = (self.walk(path, false), &answer) {
            self.merge(&at, Node::Present);
        }
        answer
    }

    fn links(&self, path: &str) -> Result<Vec<(String, String)>, ReadError> {
        let names = self.list(path)?;
        let links = self.inner.links(path)?;
        if let Some(at) = self.walk(path, true) {
            let targets: BTreeMap<&str, &str> =
                links.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
            for name in names {
                let node = targets
                    .get(name.as_str())
                    .map_or(Node::Present, |text| Node::Link((*text).to_owned()));
                self.merge(&format!("{at}/{name}"), node);
            }
        }
        Ok(links)
    }

    fn exists(&self, path: &str) -> Result<bool, ReadError> {
        let answer = self.inner.exists(path);
        if let (Some(at), Ok(true)) = (self.walk(path, true), &answer) {
            self.merge(&at, Node::Present);
        }
        answer
    }

    fn config(&self, address: PciAddress) -> Result<Box<dyn ConfigSpace + '_>, ReadError> {
        let path = format!("/sys/bus/pci/devices/{address}/config");
        let inner = match self.inner.config(address) {
            Ok(inner) => inner,
            Err(error) => {
                self.fail(&path, &error);
                return Err(error);
            }
        };
        let at = self.walk(&path, true).unwrap_or(path);
        let known = matches!(self.snapshot.borrow().node(&at), Some(Node::Config(_)));
        if !known {
            let config = Config { length: readable_length(inner.as_ref()), ..Config::default() };
            self.merge(&at, Node::Config(config));
        }
        Ok(Box::new(RecordedConfig { recorder: self, inner, at }))
    }

    /// Masks addresses here already, unless identifiers are requested, so that derived addresses remain recognizable.
    fn vfs(&self, pf: PciAddress, interface: &str) -> Result<VfTable, ReadError> {
        let answer = self.inner.vfs(pf, interface);
        let at = vfs_at(interface);
        match &answer {
            Ok(table) if !self.with_identifiers => self.note_answer(&at, Ok(&table.masked())),
            answer => self.note_answer(&at, answer.as_ref()),
        }
        answer
    }

    fn default_routes(&self) -> Result<BTreeSet<String>, ReadError> {
        let answer = self.inner.default_routes();
        self.note_answer(ROUTES, answer.as_ref());
        answer
    }

    fn eswitch(&self, pf: PciAddress) -> Result<Option<EswitchMode>, ReadError> {
        let answer = self.inner.eswitch(pf);
        self.note_answer(&eswitch_at(pf), answer.as_ref());
        answer
    }

    fn flow_control(
        &self,
        function: PciAddress,
        interface: &str,
    ) -> Result<Option<FlowControl>, ReadError> {
        let answer = self.inner.flow_control(function, interface);
        self.note_answer(&flow_control_at(interface), answer.as_ref());
        answer
    }

    fn kernel_log(&self, keep: LineFilter) -> Result<KernelLog, ReadError> {
        let answer = self.inner.kernel_log(keep);
        self.note_answer(KERNEL_LOG, answer.as_ref());
        answer
    }

    fn grub_header_block(&self, device: &str) -> Result<String, ReadError> {
        let answer = self.inner.grub_header_block(device);
        self.note_answer(GRUB_HEADER_BLOCK, answer.as_ref());
        answer
    }

    fn cost(&self) -> ReadCost {
        self.inner.cost()
    }
}

/// Returns the readable length of config space: all of it, the conventional part, or the unprivileged part.
fn readable_length(config: &dyn ConfigSpace) -> u16 {
    // A snapshot may contain other parts only, and reports that past its end.
    let ends = |end: u16| {
        matches!(config.read(end - 4, &mut [0; 4]), Ok(4) | Err(ReadError::NotRecorded { .. }))
    };
    [4096, 256, 128].into_iter().find(|end| ends(*end)).unwrap_or(64)
}

struct RecordedConfig<'a> {
    recorder: &'a Recorder<'a>,
    inner: Box<dyn ConfigSpace + 'a>,
    at: String,
}

impl ConfigSpace for RecordedConfig<'_> {
    fn read(&self, offset: u16, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let got = self.inner.read(offset, buffer)?;
        let mut snapshot = self.recorder.snapshot.borrow_mut();
        if let Some(Node::Config(config)) = snapshot.node_mut(&self.at)
            && config.get(offset, got).is_none()
        {
            config.add(offset, &buffer[..got]);
        }
        Ok(got)
    }
}

#[cfg(test)]
mod tests;
