//! A recorded host: a tree of nodes that answers every read like the host did, including links and errors. Reads of
//! paths that were neither recorded nor proved absent fail as not recorded. No file access; the text form is in `text`.

mod text;

use std::collections::BTreeMap;
use std::convert::Infallible;

use super::symlink::{MOST_LINKS, walk};
use super::{ConfigSpace, HostKind, Reader};
use bedplate_base::value::PciAddress;
use bedplate_base::{OptionalRead as _, ReadError};

/// Recorded state of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A whole file.
    File(Vec<u8>),
    /// Only the first bytes of a file.
    Start(Vec<u8>),
    /// A symbolic link and its text.
    Link(String),
    /// A directory; with its complete listing, sorted, if that was recorded.
    Dir(Option<Vec<String>>),
    /// Config space of a PCI function.
    Config(Config),
    /// Known to be absent.
    Absent,
    /// Present, but the reader had no right to read it.
    Denied,
    /// Present, but reading it failed with this system error.
    Failed(String),
    /// Present and not a link; nothing else was recorded.
    Present,
}

/// Recorded config space.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// Length that the reader could access: 64, 256 or 4096 bytes.
    pub length: u16,
    /// Recorded bytes by offset; blocks neither touch nor overlap.
    pub blocks: BTreeMap<u16, Vec<u8>>,
    /// Whether all other bytes are zero (an emulated device) rather than not recorded.
    pub rest_is_zero: bool,
}

impl Config {
    /// Adds bytes at an offset and joins them with adjacent blocks. Existing bytes win.
    pub fn add(&mut self, offset: u16, bytes: &[u8]) {
        let end = usize::from(offset) + bytes.len();
        let end_of = |start: u16, block: &[u8]| usize::from(start) + block.len();
        let touches = |(start, block): &(&u16, &Vec<u8>)| {
            usize::from(**start) <= end && end_of(**start, block) >= usize::from(offset)
        };
        let starts: Vec<u16> =
            self.blocks.iter().filter(touches).map(|(start, _)| *start).collect();
        let touching: Vec<(u16, Vec<u8>)> =
            starts.iter().filter_map(|start| self.blocks.remove_entry(start)).collect();
        let first = touching.first().map_or(offset, |(start, _)| offset.min(*start));
        let last = touching.last().map_or(end, |(start, block)| end.max(end_of(*start, block)));
        let mut joined = vec![0; last - usize::from(first)];
        let added = (offset, bytes);
        let blocks = touching.iter().map(|(start, block)| (*start, &block[..]));
        for (start, block) in std::iter::once(added).chain(blocks) {
            let at = usize::from(start - first);
            joined[at..at + block.len()].copy_from_slice(block);
        }
        self.blocks.extend((!joined.is_empty()).then_some((first, joined)));
    }

    /// Returns up to `length` bytes from `offset`. `None` if they were not recorded.
    pub fn get(&self, offset: u16, length: usize) -> Option<Vec<u8>> {
        let end = (usize::from(offset) + length).min(usize::from(self.length));
        let mut bytes = vec![0; end.saturating_sub(usize::from(offset))];
        let mut covered = 0;
        for (start, block) in &self.blocks {
            let from = usize::from(*start).max(usize::from(offset));
            let to = (usize::from(*start) + block.len()).min(end);
            if from < to {
                let source = &block[from - usize::from(*start)..to - usize::from(*start)];
                bytes[from - usize::from(offset)..to - usize::from(offset)].copy_from_slice(source);
                covered += to - from;
            }
        }
        (self.rest_is_zero || covered == bytes.len()).then_some(bytes)
    }
}

/// A recorded host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Whether it was recorded from a running machine, not from an image root.
    running: bool,
    /// By absolute path without `.`, `..` or links; every parent of an entry is an entry.
    nodes: BTreeMap<String, Node>,
}

impl Snapshot {
    /// Creates an empty snapshot of a running machine (`true`) or an image root.
    pub fn new(running: bool) -> Self {
        Snapshot { running, nodes: BTreeMap::from([(String::new(), Node::Dir(None))]) }
    }

    /// Puts a node at a plain absolute path and adds the directories above it. Replaces an existing node.
    pub fn insert(&mut self, path: &str, node: Node) {
        let path = path.trim_end_matches('/');
        self.insert_above(path);
        self.nodes.insert(path.to_owned(), node);
    }

    /// Adds the directories above a path.
    fn insert_above(&mut self, path: &str) {
        // From the nearest directory outwards: above an existing one, all exist.
        for (slash, _) in path.rmatch_indices('/') {
            match self.nodes.get_mut(&path[..slash]) {
                Some(Node::Dir(_) | Node::Denied) => break,
                Some(parent) => *parent = Node::Dir(None),
                None => drop(self.nodes.insert(path[..slash].to_owned(), Node::Dir(None))),
            }
        }
    }

    /// Removes a path and everything below it.
    pub fn remove(&mut self, path: &str) {
        let below = format!("{path}/");
        self.nodes.retain(|at, _| at != path && !at.starts_with(&below));
    }

    /// Returns the node at a plain path; links are not followed.
    pub fn node(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// Returns the node at a plain path, for changes.
    pub fn node_mut(&mut self, path: &str) -> Option<&mut Node> {
        self.nodes.get_mut(path)
    }

    /// Returns all nodes by path; the root directory is the empty path.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(path, node)| (path.as_str(), node))
    }

    /// Declares that only the inserted paths exist: gives every directory its complete listing.
    pub fn complete(&mut self) {
        let mut listings: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (path, node) in &self.nodes {
            if let Node::Dir(_) = node {
                listings.entry(path.clone()).or_default();
            }
            if let Some((parent, name)) = path.rsplit_once('/')
                && *node != Node::Absent
            {
                listings.entry(parent.to_owned()).or_default().push(name.to_owned());
            }
        }
        for (path, mut names) in listings {
            names.sort_unstable();
            if let Some(node @ Node::Dir(_)) = self.nodes.get_mut(&path) {
                *node = Node::Dir(Some(names));
            }
        }
    }

    /// Drops absent nodes that their directory's complete listing already proves absent.
    pub fn forget_listed_absences(&mut self) {
        let told = |path: &str| {
            let (parent, name) = path.rsplit_once('/')?;
            let Some(Node::Dir(Some(names))) = self.nodes.get(parent) else { return None };
            (!is_listed(names, name)).then(|| path.to_owned())
        };
        let absent = self.nodes.iter().filter(|(_, node)| **node == Node::Absent);
        for path in absent.filter_map(|(path, _)| told(path)).collect::<Vec<_>>() {
            self.nodes.remove(&path);
        }
    }

    /// Returns the plain path of a path: follows links among its directories, as far as they were recorded.
    pub fn canonical(&self, path: &str) -> String {
        let mut links = 0;
        let walked = walk::<Infallible>(path, |_, next, is_last| match self.nodes.get(next) {
            Some(Node::Link(target)) if !is_last && links < MOST_LINKS => {
                links += 1;
                Ok(Some(target.clone()))
            }
            _ => Ok(None),
        });
        match walked {
            Ok(at) => at,
        }
    }

    /// Resolves a path (the last link only if `follow`). Returns the node and its plain path.
    fn node_at(&self, path: &str, follow: bool) -> Result<(&Node, String), ReadError> {
        let absent = || ReadError::NotFound { path: path.to_owned() };
        let mut links = 0;
        let at = walk(path, |at, next, is_last| match self.nodes.get(next) {
            Some(Node::Link(target)) if follow || !is_last => {
                links += 1;
                match links > MOST_LINKS {
                    true => Err(failed(path, "Too many levels of symbolic links")),
                    false => Ok(Some(target.clone())),
                }
            }
            Some(Node::Absent) => Err(absent()),
            Some(Node::Dir(_) | Node::Denied) => Ok(None),
            Some(Node::Present) if !is_last => Err(not_recorded(path)),
            // Only directories can have entries below them.
            Some(_) if !is_last => Err(absent()),
            Some(_) => Ok(None),
            None => Err(match self.nodes.get(at) {
                Some(Node::Dir(Some(names))) if !is_listed(names, &next[at.len() + 1..]) => {
                    absent()
                }
                Some(Node::Denied) => ReadError::Denied { path: path.to_owned() },
                _ => not_recorded(path),
            }),
        })?;
        self.nodes.get(&at).map(|node| (node, at)).ok_or_else(|| not_recorded(path))
    }
}

fn is_listed(names: &[String], name: &str) -> bool {
    names.binary_search_by(|known| known.as_str().cmp(name)).is_ok()
}

fn not_recorded(path: &str) -> ReadError {
    ReadError::NotRecorded { path: path.to_owned() }
}

fn failed(path: &str, reason: &str) -> ReadError {
    ReadError::Failed { path: path.to_owned(), reason: reason.to_owned() }
}

impl Reader for Snapshot {
    fn kind(&self) -> HostKind {
        if self.running { HostKind::Snapshot } else { HostKind::Image }
    }

    fn is_recording(&self) -> bool {
        true
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        match self.node_at(path, true)?.0 {
            Node::File(bytes) => Ok(bytes.clone()),
            Node::Config(config) => {
                config.get(0, config.length.into()).ok_or_else(|| not_recorded(path))
            }
            Node::Dir(_) => Err(failed(path, "Is a directory")),
            Node::Denied => Err(ReadError::Denied { path: path.to_owned() }),
            Node::Failed(reason) => Err(failed(path, reason)),
            Node::Start(_) | Node::Link(_) | Node::Present | Node::Absent => {
                Err(not_recorded(path))
            }
        }
    }

    fn read_start(&self, path: &str, limit: usize) -> Result<Vec<u8>, ReadError> {
        match self.node_at(path, true)?.0 {
            Node::Start(bytes) if limit <= bytes.len() => Ok(bytes[..limit].to_vec()),
            Node::File(bytes) => Ok(bytes[..limit.min(bytes.len())].to_vec()),
            _ => self.read(path).map(|mut bytes| {
                bytes.truncate(limit);
                bytes
            }),
        }
    }

    fn list(&self, path: &str) -> Result<Vec<String>, ReadError> {
        match self.node_at(path, true)?.0 {
            Node::Dir(Some(names)) => Ok(names.clone()),
            Node::Denied => Err(ReadError::Denied { path: path.to_owned() }),
            Node::Dir(None) | Node::Present => Err(not_recorded(path)),
            // A path that is not a directory reads as missing, like on a real host.
            _ => Err(ReadError::NotFound { path: path.to_owned() }),
        }
    }

    fn link(&self, path: &str) -> Result<String, ReadError> {
        match self.node_at(path, false)?.0 {
            Node::Link(text) => Ok(text.clone()),
            _ => Err(failed(path, "Invalid argument")),
        }
    }

    fn links(&self, path: &str) -> Result<Vec<(String, String)>, ReadError> {
        let names = self.list(path)?;
        let (_, at) = self.node_at(path, true)?;
        let mut links = Vec::new();
        for name in names {
            match self.nodes.get(&format!("{at}/{name}")) {
                Some(Node::Link(text)) => links.push((name, text.clone())),
                Some(_) => {}
                None => return Err(not_recorded(path)),
            }
        }
        Ok(links)
    }

    fn exists(&self, path: &str) -> Result<bool, ReadError> {
        Ok(self.node_at(path, true).optional()?.is_some())
    }

    fn config(&self, address: PciAddress) -> Result<Box<dyn ConfigSpace + '_>, ReadError> {
        let path = format!("/sys/bus/pci/devices/{address}/config");
        match self.node_at(&path, true)?.0 {
            Node::Config(config) => Ok(Box::new(Recorded { config, path })),
            Node::Denied => Err(ReadError::Denied { path }),
            Node::Failed(reason) => Err(failed(&path, reason)),
            _ => Err(not_recorded(&path)),
        }
    }
}

struct Recorded<'a> {
    config: &'a Config,
    path: String,
}

impl ConfigSpace for Recorded<'_> {
    fn read(&self, offset: u16, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let bytes =
            self.config.get(offset, buffer.len()).ok_or_else(|| not_recorded(&self.path))?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

#[cfg(test)]
mod tests;
