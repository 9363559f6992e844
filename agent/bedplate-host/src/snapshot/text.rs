//! The text form of a snapshot (`.bp`): JSON, one line per entry, sorted by path, so that it can be read, searched and
//! compared line by line. The same snapshot always gives the same text.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::{Config, Node, Snapshot};
use crate::symlink::is_plain;

/// Format version written here, and the newest that can be read.
const VERSION: u32 = 1;
/// Longest path that Linux accepts (include/uapi/linux/limits.h, PATH_MAX).
const LONGEST_PATH: usize = 4096;
/// Characters of an invalid path that are shown.
const SHOWN: usize = 200;
/// Limit for the total length of directory paths without an entry, per byte of the text. Snapshots of real hosts need
/// less than one.
const MOST_ABOVE: usize = 8;
/// Length of the longest config space (PCI Express Base Specification, 7.2.2).
const LONGEST_CONFIG: u16 = 4096;

/// Reason why a text is not a usable snapshot.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct SnapshotError {
    what: String,
    source: Option<serde_json::Error>,
}

#[derive(Deserialize)]
struct Header {
    bedplate_snapshot: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(rename = "bedplate_snapshot")]
    version: u32,
    running: bool,
    entries: Entries,
}

/// Nodes by path, or the reason why an entry is no node. A list, because the searches of a map take a quarter of the time.
struct Entries(Vec<(String, Result<Node, &'static str>)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, text: &mut fmt::Formatter) -> fmt::Result {
        text.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let mut entries = Vec::new();
        while let Some((path, entry)) = map.next_entry::<String, Entry>()? {
            entries.push((path, entry.into_node()));
        }
        Ok(Entries(entries))
    }
}

/// One entry with exactly one of the fields (`at` and `zero_elsewhere` belong to `config`).
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Entry {
    /// A whole UTF-8 file.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// A whole file that is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
    /// The start of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<String>,
    /// A complete listing.
    #[serde(skip_serializing_if = "Option::is_none")]
    dir: Option<Vec<String>>,
    /// `directory` (no listing), `absent`, `denied` or `present`.
    #[serde(skip_serializing_if = "Option::is_none")]
    is: Option<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
    /// Length of a config space.
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<u16>,
    /// Its bytes by hexadecimal offset.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    at: BTreeMap<String, String>,
    /// Whether its other bytes are zero.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    zero_elsewhere: bool,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Directory,
    Absent,
    Denied,
    Present,
}

impl Snapshot {
    /// Returns the text form.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "{{\n\"bedplate_snapshot\": {VERSION},\n\"running\": {},\n\"entries\": {{",
            self.running
        );
        let mut comma = "";
        for (path, node) in &self.nodes {
            // Parents without a listing are implied by the entries below them.
            if *node == Node::Dir(None) && self.has_below(path) {
                continue;
            }
            let path = if path.is_empty() { "/" } else { path };
            let key = serde_json::Value::from(path);
            // Writing to a String and serialising maps with text keys cannot fail.
            let entry = serde_json::to_string(&Entry::from_node(node)).unwrap_or_default();
            let _ = write!(text, "{comma}\n{key}: {entry}");
            comma = ",";
        }
        text.push_str("\n}\n}\n");
        text
    }

    fn has_below(&self, path: &str) -> bool {
        let below = format!("{path}/");
        self.nodes.range(below.clone()..).next().is_some_and(|(next, _)| next.starts_with(&below))
    }

    /// Parses the text form.
    pub fn from_text(text: &str) -> Result<Self, SnapshotError> {
        let (running, Entries(entries)) = match serde_json::from_str(text) {
            Ok(Document { version: ..=VERSION, running, entries }) => (running, entries),
            Ok(_) => return Err(unreadable(text, None)),
            Err(error) => return Err(unreadable(text, Some(error))),
        };
        let wrong = |path: &str, reason| {
            let path: String = path.chars().take(SHOWN).collect();
            let what = format!("damaged snapshot: entry {path:?} {reason}");
            SnapshotError { what, source: None }
        };
        let mut nodes = Vec::with_capacity(entries.len());
        for (path, node) in entries {
            if path.len() > LONGEST_PATH {
                return Err(wrong(&path, "has a path longer than 4,096 bytes"));
            }
            if path != "/" && !is_plain(&path) {
                return Err(wrong(&path, "is not a plain absolute path"));
            }
            let node = node.map_err(|reason| wrong(&path, reason))?;
            nodes.push((if path == "/" { String::new() } else { path }, node));
        }
        let mut snapshot = Snapshot { running, nodes: BTreeMap::from_iter(nodes) };
        // Paths are sorted, so most are in the directory of the previous one.
        let mut first_in_directory: Vec<String> = Vec::new();
        let mut directory = None;
        for path in snapshot.nodes.keys() {
            let parent = path.rsplit_once('/').map(|(parent, _)| parent);
            if parent != directory {
                first_in_directory.push(path.clone());
                directory = parent;
            }
        }
        // Directories above entries are nodes too, so their total size is limited.
        let mut room = text.len().saturating_mul(MOST_ABOVE);
        for path in first_in_directory {
            room = room
                .checked_sub(snapshot.missing_above(&path))
                .ok_or_else(|| wrong(&path, "is in too many directories without other entries"))?;
            snapshot.insert_above(&path);
        }
        snapshot.nodes.entry(String::new()).or_insert(Node::Dir(None));
        Ok(snapshot)
    }

    /// Returns the total length of the directory paths that [`Snapshot::insert`] would add.
    fn missing_above(&self, path: &str) -> usize {
        let above = path.rmatch_indices('/').map(|(slash, _)| &path[..slash]);
        above.take_while(|path| !self.nodes.contains_key(*path)).map(str::len).sum()
    }
}

/// Creates the error for a text that this program cannot read. `error` is the parse error in the current format.
fn unreadable(text: &str, error: Option<serde_json::Error>) -> SnapshotError {
    let damaged = |error| SnapshotError {
        what: "damaged snapshot; record it again with `bedplate snapshot`".to_owned(),
        source: error,
    };
    match serde_json::from_str(text) {
        Ok(Header { bedplate_snapshot: ..=VERSION }) => damaged(error),
        Ok(Header { bedplate_snapshot: found }) => SnapshotError {
            what: format!(
                "snapshot has format {found}, but this bedplate reads only up to {VERSION}; use a newer bedplate"
            ),
            source: None,
        },
        // A truncated file still has its first line.
        Err(error) if text.trim_start().starts_with("{\n\"bedplate_snapshot\"") => {
            damaged(Some(error))
        }
        Err(error) => SnapshotError {
            what: "not a bedplate snapshot: no \"bedplate_snapshot\" version".to_owned(),
            source: Some(error),
        },
    }
}

impl Entry {
    fn from_node(node: &Node) -> Self {
        let mut entry = Entry::default();
        match node {
            Node::File(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => entry.text = Some(text.to_owned()),
                Err(_) => entry.hex = Some(to_hex(bytes)),
            },
            Node::Start(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => entry.start = Some(text.to_owned()),
                Err(_) => entry.start_hex = Some(to_hex(bytes)),
            },
            Node::Link(text) => entry.link = Some(text.clone()),
            Node::Dir(Some(names)) => entry.dir = Some(names.clone()),
            Node::Dir(None) => entry.is = Some(State::Directory),
            Node::Absent => entry.is = Some(State::Absent),
            Node::Denied => entry.is = Some(State::Denied),
            Node::Present => entry.is = Some(State::Present),
            Node::Failed(reason) => entry.failed = Some(reason.clone()),
            Node::Config(config) => {
                entry.config = Some(config.length);
                entry.at = config
                    .blocks
                    .iter()
                    .map(|(at, bytes)| (format!("{at:03x}"), to_hex(bytes)))
                    .collect();
                entry.zero_elsewhere = config.rest_is_zero;
            }
        }
        entry
    }

    fn into_node(self) -> Result<Node, &'static str> {
        const BAD_HEX: &str = "has invalid hexadecimal bytes";
        let (at, rest_is_zero) = (self.at, self.zero_elsewhere);
        if self.config.is_none() && (!at.is_empty() || rest_is_zero) {
            return Err("has config bytes without a config length");
        }
        let config = match self.config {
            Some(length) => {
                Some(config(length, &at, rest_is_zero).ok_or("has an invalid config space")?)
            }
            None => None,
        };
        let mut nodes = [
            self.text.map(|text| Node::File(text.into_bytes())),
            self.hex.map(|hex| from_hex(&hex).map(Node::File)).transpose_or(BAD_HEX)?,
            self.start.map(|text| Node::Start(text.into_bytes())),
            self.start_hex.map(|hex| from_hex(&hex).map(Node::Start)).transpose_or(BAD_HEX)?,
            self.link
                .map(|text| (text.len() <= LONGEST_PATH).then_some(Node::Link(text)))
                .transpose_or("has a link longer than 4,096 bytes")?,
            self.dir.map(sorted).transpose_or("has a listing with invalid names")?,
            self.is.map(|state| match state {
                State::Directory => Node::Dir(None),
                State::Absent => Node::Absent,
                State::Denied => Node::Denied,
                State::Present => Node::Present,
            }),
            self.failed.map(Node::Failed),
            config.map(Node::Config),
        ]
        .into_iter()
        .flatten();
        match (nodes.next(), nodes.next()) {
            (Some(node), None) => Ok(node),
            (None, _) => Err("has no node type"),
            (Some(_), Some(_)) => Err("has more than one node type"),
        }
    }
}

/// Turns the inner `None` of an `Option<Option<T>>` into an error.
trait TransposeOr<T> {
    fn transpose_or(self, reason: &'static str) -> Result<Option<T>, &'static str>;
}

impl<T> TransposeOr<T> for Option<Option<T>> {
    fn transpose_or(self, reason: &'static str) -> Result<Option<T>, &'static str> {
        match self {
            None => Ok(None),
            Some(Some(value)) => Ok(Some(value)),
            Some(None) => Err(reason),
        }
    }
}

fn sorted(mut names: Vec<String>) -> Option<Node> {
    names.sort_unstable();
    names.dedup();
    let good =
        |name: &String| !name.is_empty() && name != "." && name != ".." && !name.contains('/');
    names.iter().all(good).then_some(Node::Dir(Some(names)))
}

/// Checks lengths first, before decoding. Blocks may neither overlap nor touch, as in the format written here.
fn config(length: u16, at: &BTreeMap<String, String>, rest_is_zero: bool) -> Option<Config> {
    if length > LONGEST_CONFIG {
        return None;
    }
    let mut blocks = BTreeMap::new();
    for (offset, hex) in at {
        // A sign is not a digit.
        let plain = offset.bytes().all(|digit| digit.is_ascii_hexdigit());
        let offset = u16::from_str_radix(offset, 16).ok().filter(|_| plain)?;
        if usize::from(offset) + hex.len() / 2 > usize::from(length) {
            return None;
        }
        let apart = blocks.insert(offset, from_hex(hex)?).is_none();
        if !apart || hex.is_empty() {
            return None;
        }
    }
    let ends =
        blocks.iter().map(|(start, block): (&u16, &Vec<u8>)| usize::from(*start) + block.len());
    let touch = ends.zip(blocks.keys().skip(1)).any(|(end, next)| end >= usize::from(*next));
    (!touch).then_some(Config { length, blocks, rest_is_zero })
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.iter().all(u8::is_ascii_hexdigit) || !digits.len().is_multiple_of(2) {
        return None;
    }
    digits
        .chunks_exact(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}
