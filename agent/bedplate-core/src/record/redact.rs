//! What a snapshot carries: a list of what it may, not of what it must not. Of each file only what bedplate uses, of command
//! lines names and harmless values; whatever identifies the machine is replaced by something in the same spelling. Replaced the
//! same way every time, so that the same host gives the same snapshot, and so that what was equal still is: the plan for the
//! snapshot is the plan for the host. Pure.

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
mod uki;

use std::collections::BTreeMap;
use std::fmt;

use bedplate_facts::vpd;
use bedplate_host::snapshot::{Node, Snapshot};
use bedplate_host::{HostKind, Reader as _};

use masker::Masker;

/// What was kept out of a snapshot, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Redactions(BTreeMap<String, Redaction>);

/// What was kept out of one file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Redaction {
    /// Nothing of it is in the snapshot.
    whole: bool,
    /// Words masked.
    words: usize,
    /// Addresses, ids and serial numbers replaced.
    identifiers: usize,
    /// Bytes that it is shorter by: mostly lines of comments, and of what bedplate does not use.
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
                writeln!(f, "{path}: only that it is there")?;
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
            say(shorter, "byte less", "bytes less");
            writeln!(f, "{path}: {}", parts.join(", "))?;
        }
        Ok(())
    }
}

/// The snapshot with what it may carry, and what was kept out of it. `with_identifiers`: hardware addresses, serial numbers and
/// machine ids stay.
pub(crate) fn snapshot(snapshot: &Snapshot, with_identifiers: bool) -> (Snapshot, Redactions) {
    let mut words = Masker::new(with_identifiers);
    let mut serials = Serials::default();
    let mut redactions = Redactions::default();
    let running = snapshot.kind() != HostKind::Image;
    // Names first: what they show is no secret in files any more.
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
    // Arguments that a profile wants off the line are asked for by name.
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
                // Readers read no more of a beginning than is kept. An empty file has nothing to hide.
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

/// Keywords of Vital Product Data that name a product, not a piece (PCI 3.0, appendix I; `VA`, `V0`: NVIDIA's).
const OF_A_PRODUCT: [&[u8; 2]; 4] = [b"PN", b"EC", b"VA", b"V0"];

/// Serial numbers met so far. Each becomes a number of its own, so that what bears the same serial still does.
#[derive(Default)]
struct Serials(BTreeMap<Vec<u8>, usize>);

impl Serials {
    /// Vital Product Data in which every value that may name a piece has been replaced, by one of the same length. The checksum
    /// no longer fits; nothing here reads it.
    fn mask(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut clean = bytes.to_vec();
        for (keyword, place) in vpd::keywords(bytes) {
            if OF_A_PRODUCT.contains(&&keyword) {
                continue;
            }
            // Too short for a serial number (the checksum is one byte): not worth a number, which would not fit.
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
