//! Redaction of snapshots by an allowlist. Of files only the parts that bedplate uses are retained, of command lines
//! names and harmless values. Identifiers of the machine are replaced by others in the same spelling. Replacement is
//! deterministic and preserves equality: the same host gives the same snapshot, and the snapshot the same plan. Pure.

mod cufile;
mod files;
mod imex;
mod kernel_log;
mod ledger;
mod lines;
mod masker;
mod nccl;
mod profile;
mod script;
mod settings;
mod uki;

use std::collections::BTreeMap;
use std::fmt;

use bedplate_facts::vpd;
use bedplate_host::snapshot::{Node, Snapshot};
use bedplate_host::{HostKind, Reader as _};

use masker::Masker;

/// Redactions of a snapshot, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Redactions(BTreeMap<String, Redaction>);

/// Redactions of one file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Redaction {
    /// The content is omitted completely.
    whole: bool,
    /// Number of masked words.
    words: usize,
    /// Number of replaced addresses, ids, and serial numbers.
    identifiers: usize,
    /// Number of removed bytes: mostly lines of comments, and lines that bedplate does not use.
    shorter: usize,
}

impl fmt::Display for Redactions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return writeln!(f, "nothing was masked");
        }
        for (path, redacted) in &self.0 {
            let Redaction { whole, words, identifiers, shorter } = *redacted;
            if whole {
                writeln!(f, "{path}: content omitted")?;
                continue;
            }
            let mut parts = Vec::new();
            let mut say = |count: usize, one: &str, many: &str| match count {
                0 => {}
                1 => parts.push(format!("1 {one}")),
                _ => parts.push(format!("{count} {many}")),
            };
            say(words, "value masked", "values masked");
            say(identifiers, "identifier replaced", "identifiers replaced");
            say(shorter, "byte removed", "bytes removed");
            writeln!(f, "{path}: {}", parts.join(", "))?;
        }
        Ok(())
    }
}

/// Returns the redacted snapshot and the list of redactions. `with_identifiers` preserves hardware addresses, serial
/// numbers, and machine ids.
pub(crate) fn snapshot(snapshot: &Snapshot, with_identifiers: bool) -> (Snapshot, Redactions) {
    let mut words = Masker::new(with_identifiers);
    let mut serials = Serials::default();
    let mut redactions = Redactions::default();
    let running = snapshot.kind() != HostKind::Image;
    // Names first: a word in a visible name need not be masked in files.
    let paths: Vec<String> = snapshot.nodes().map(|(path, _)| words.identities(path)).collect();
    paths.iter().for_each(|path| words.show(path));
    for (_, node) in snapshot.nodes() {
        if let Node::Dir(Some(entries)) = node {
            entries.iter().for_each(|entry| {
                let entry = words.identities(entry);
                words.show(&entry);
            });
        }
    }
    // Planning searches by name for arguments in a profile's `absent` list.
    for (path, node) in snapshot.nodes() {
        if let Node::File(bytes) = node
            && path.starts_with("/etc/bedplate/")
        {
            profile::absent(bytes).iter().for_each(|name| words.show(name));
        }
    }
    let mut clean = Snapshot::new(running);
    for ((given, node), path) in snapshot.nodes().zip(&paths) {
        (words.masked, words.identified) = (0, 0);
        let file = |bytes: &Vec<u8>, words: &mut Masker, serials: &mut Serials| match given
            .ends_with("/vpd")
        {
            true if with_identifiers => Some(bytes.clone()),
            true => Some(serials.mask(bytes)),
            false => files::redact(path, bytes, words),
        };
        let node = match node {
            Node::File(bytes) | Node::Start(bytes) => {
                let kept = file(bytes, &mut words, &mut serials);
                redactions.note(path, bytes, kept.as_deref(), &words);
                // Readers read no more of a file's start than the retained part. An empty file has no secrets.
                match kept {
                    None if bytes.is_empty() => Node::File(Vec::new()),
                    kept => kept.map_or(Node::Present, Node::File),
                }
            }
            Node::Link(text) => Node::Link(words.identities(text)),
            Node::Dir(Some(entries)) => {
                let mut entries: Vec<String> =
                    entries.iter().map(|entry| words.identities(entry)).collect();
                entries.sort_unstable();
                Node::Dir(Some(entries))
            }
            other => other.clone(),
        };
        clean.insert(path, node);
    }
    (clean, redactions)
}

impl Redactions {
    fn note(&mut self, path: &str, given: &[u8], kept: Option<&[u8]>, words: &Masker) {
        if kept == Some(given) {
            return;
        }
        let redacted = Redaction {
            whole: kept.is_none(),
            words: words.masked,
            identifiers: words.identified,
            shorter: given.len().saturating_sub(kept.map_or(0, <[u8]>::len)),
        };
        if redacted != Redaction::default() {
            self.0.insert(path.to_owned(), redacted);
        }
    }
}

/// Keywords of Vital Product Data that identify a product, not a unit (PCI 3.0, appendix I; `VA`, `V0`: NVIDIA).
const OF_A_PRODUCT: [&[u8; 2]; 4] = [b"PN", b"EC", b"VA", b"V0"];

/// Serial numbers found so far. Each is replaced by its own number, so that equal serials stay equal.
#[derive(Default)]
struct Serials(BTreeMap<Vec<u8>, usize>);

impl Serials {
    /// Replaces every value of Vital Product Data that may identify a unit by one of the same length. The checksum is
    /// then wrong; nothing here reads it.
    fn mask(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut clean = bytes.to_vec();
        for (keyword, place) in vpd::keywords(bytes) {
            if OF_A_PRODUCT.contains(&&keyword) {
                continue;
            }
            // Too short for a serial number (the checksum is one byte), and for its replacement.
            if place.len() < 4 {
                clean[place].fill(b'0');
                continue;
            }
            if bytes[place.clone()].starts_with(vpd::MANAGES_SWITCHES) {
                clean[place][vpd::MANAGES_SWITCHES.len()..].fill(b'0');
                continue;
            }
            let next = self.0.len();
            let number = *self.0.entry(bytes[place.clone()].to_vec()).or_insert(next);
            let digits = format!("{number:0length$}", length = place.len());
            let from = digits.len() - place.len();
            clean[place].copy_from_slice(&digits.as_bytes()[from..]);
        }
        clean
    }
}

#[cfg(test)]
mod tests;
