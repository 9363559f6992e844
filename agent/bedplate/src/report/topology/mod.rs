//! Formats distances of `bedplate topology`: the matrix, recommended pairs, JSON. Pure.

mod document;
mod import;
mod labels;
mod matrix;
mod page;
pub(in crate::report) mod picture;
pub(crate) mod variables;

use super::names;
use super::style::{FAINT, HEAD, WARN, paint};
use super::wrap;
use bedplate_base::some_of;
use bedplate_base::terminal::one_line;
use bedplate_facts::Facts;
use bedplate_facts::names::Names;
use bedplate_facts::pci::{Function, PciTree};
use bedplate_facts::placement::Placement;
use bedplate_facts::topology::Topology;
use bedplate_facts::topology::devices::{Device, DeviceClass, Devices};
use bedplate_facts::topology::pairing::{Candidates, Choice, Pairing, Pairings, pair};
use bedplate_nccl::nets::merged_by_nccl;
use bedplate_nccl::topology_xml::{self, Detail};

#[cfg(feature = "schemars")]
pub(crate) use document::Document;
pub use document::{SCHEMA, document};
pub use import::imported;
pub(crate) use page::html;
pub(super) use page::{draw, tables};
pub use picture::svg;

/// A host as `bedplate topology` shows it.
pub struct TopologyView<'a> {
    facts: &'a Facts,
    names: &'a Names<'a>,
    placement: &'a Placement,
    topology: Topology<'a>,
    devices: Devices<'a>,
    pairings: Pairings,
}

/// Optional content.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Shows VFs of NICs.
    pub vfs: bool,
    /// Shows rows for NICs and disks too.
    pub all: bool,
}

impl<'a> TopologyView<'a> {
    /// Computes the view of a host.
    pub fn new(
        facts: &'a Facts,
        tree: &'a PciTree,
        placement: &'a Placement,
        names: &'a Names<'a>,
        options: Options,
    ) -> Self {
        let topology = Topology::new(tree);
        let devices = Devices::find(&topology, placement, options.vfs);
        let pairings = pair(&topology, &devices);
        TopologyView { facts, names, placement, topology, devices, pairings }
    }

    /// Returns the devices that have their own rows.
    fn rows(&self, options: Options) -> Vec<&Device<'a>> {
        match options.all || self.devices.gpus.is_empty() {
            true => self.devices.all().collect(),
            false => self.devices.gpus.iter().collect(),
        }
    }

    /// Returns the GPUs with their pairings. GPUs that do not respond have no pairing.
    fn paired_gpus(&self) -> impl Iterator<Item = (&Device<'a>, &Pairing)> {
        let pairings = self.pairings.gpus.iter();
        pairings.filter_map(|pairing| Some((self.devices.at(pairing.gpu)?, pairing)))
    }

    fn cpus(&self, device: &Device) -> Option<&str> {
        let node = device.spot.node?;
        self.placement.node_cpus.get(&node)?.known().map(String::as_str)
    }
}

/// Returns the topology file in the format that NCCL dumps.
pub fn nccl_xml(shown: &TopologyView) -> String {
    let TopologyView { facts, placement, topology, devices, .. } = shown;
    topology_xml::xml(topology_xml::Machine { facts, topology, devices, placement }, Detail::Dump)
}

/// Returns the gaps of the topology file of [`nccl_xml`].
pub fn nccl_xml_gaps(shown: &TopologyView) -> Vec<String> {
    unread(shown).into_iter().chain(topology_xml::unknown_cpu(shown.facts)).collect()
}

/// Formats matrix, pairs, key and legend, in `width` columns.
pub fn text(shown: &TopologyView, options: Options, width: usize) -> String {
    let mut out = format!("{}\n", paint(HEAD, &one_line(&shown.facts.label())));
    let rows = shown.rows(options);
    if rows.is_empty() {
        return out + &paint(WARN, NOTHING) + "\n";
    }
    let heads = matrix::heads(shown);
    if let Some(dead) = dead(shown) {
        out += &format!("{}\n", paint(WARN, &dead));
    }
    out += &matrix::text(shown, &rows, &heads, width);
    out += &pairs(shown, width);
    let key = shown.devices.all().map(|device| labels::key(shown, device, &heads));
    out += &format!("\n{}\n{}", paint(HEAD, "Key"), columns(&key.collect::<Vec<_>>(), width));
    let numbered = shown.devices.nics.iter().any(|nic| heads(nic) == nic.id);
    out + &legend(shown, &rows, numbered, width)
}

/// Lists devices that do not respond to reads of their config space, if any.
fn dead(shown: &TopologyView) -> Option<String> {
    let dead = shown.devices.all().filter(|device| device.function.is_dead());
    let dead: Vec<String> =
        dead.map(|device| format!("{} {}", device.called(), device.address())).collect();
    let named = || some_of(dead.clone().into_iter(), 8, "devices");
    (!dead.is_empty()).then(|| format!("not responding, not paired: {}", named()))
}

/// Message for a host without devices.
const NOTHING: &str = "No GPU, NIC or NVMe disk among the PCI functions.";

/// Titles of the recommendations for each GPU.
const LISTS: [(&str, labels::Noun); 2] = [
    ("Recommended NIC for each GPU", labels::NIC),
    ("Recommended disk for each GPU (GPUDirect Storage)", labels::DISK),
];

/// Formats the recommended pairs.
fn pairs(shown: &TopologyView, width: usize) -> String {
    if shown.pairings.gpus.is_empty() {
        return format!("\n{}\n", paint(WARN, "No GPU: nothing to pair."));
    }
    let mut out = String::new();
    for (title, what) in LISTS {
        out += &format!("\n{}\n", paint(HEAD, title));
        let rows = paired(shown, what);
        if rows.is_empty() {
            out += &format!("  none: no {} on this host\n", what.0);
            continue;
        }
        out += &columns(&rows, width);
        if what == labels::NIC {
            let lines = remarks(shown).into_iter().map(|remark| format!("  {remark}\n"));
            out += &wrap::wrap(&lines.collect::<String>(), width);
        }
    }
    out
}

/// Returns one row per recommended device: GPU (once), device, distance, reason.
fn paired(shown: &TopologyView, what: labels::Noun) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (gpu, pairing) in shown.paired_gpus() {
        let choices = if what == labels::NIC { &pairing.nics } else { &pairing.nvmes };
        for (nth, choice) in choices.iter().enumerate() {
            let first = if nth == 0 { gpu.id.clone() } else { String::new() };
            rows.push(row(shown, (gpu, first), choice, what, nth > 0));
        }
    }
    rows
}

/// Returns notes about the considered NICs.
fn remarks(shown: &TopologyView) -> Vec<String> {
    let Pairings { candidates, counts, spare_nics, .. } = &shown.pairings;
    let mut remarks = Vec::new();
    if *candidates == Candidates::All && counts.0 > 0 {
        remarks.push("No NIC has an RDMA device; all NICs were considered.".to_owned());
    }
    if !spare_nics.is_empty() {
        let spare = spare_nics.iter().filter_map(|nic| shown.devices.at(*nic));
        let spare: Vec<&str> = spare.map(Device::called).collect();
        remarks.push(format!("NICs not paired with a GPU: {}.", one_line(&spare.join(", "))));
    }
    for nics in merged_by_nccl(&shown.devices.nics) {
        let names: Vec<&str> = nics.iter().map(|nic| nic.called()).collect();
        remarks.push(format!(
            "NCCL treats {} as ports of one NIC, because they are on one bus without a bridge; NCCL_IB_MERGE_VFS=0 prevents this.",
            one_line(&names.join(", "))
        ));
    }
    remarks
}

fn row(
    shown: &TopologyView,
    (gpu, first): (&Device, String),
    choice: &Choice,
    what: labels::Noun,
    further: bool,
) -> Vec<String> {
    let peer = shown.devices.at(choice.peer).map_or(String::new(), |peer| one_line(peer.called()));
    let why = labels::reason(shown, gpu, choice, what, further);
    vec![first, peer, choice.distance.letters().to_owned(), why]
}

/// Formats rows with columns as wide as their longest cells. Wraps the last column of long lines.
fn columns(rows: &[Vec<String>], width: usize) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |at: usize| {
        rows.iter()
            .filter_map(|row| row.get(at))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count.saturating_sub(1)).map(widest).collect();
    let hang = widths.iter().filter(|width| **width > 0).map(|width| width + 2).sum::<usize>() + 2;
    let mut out = String::new();
    for row in rows {
        let mut line = "  ".to_owned();
        for (cell, width) in row.iter().zip(&widths).filter(|(_, width)| **width > 0) {
            line += &format!("{cell:<width$}  ");
        }
        let last = row.get(widths.len()).map_or("", String::as_str);
        let room = width.saturating_sub(hang).max(30);
        let parts = textwrap::wrap(last, textwrap::Options::new(room).break_words(false));
        line += parts.first().map_or("", |part| part);
        out += &format!("{}\n", line.trim_end());
        for part in parts.iter().skip(1) {
            out += &format!("{:hang$}{part}\n", "");
        }
    }
    out
}

/// Formats the notes at the end.
fn legend(shown: &TopologyView, rows: &[&Device], numbered: bool, width: usize) -> String {
    let mut notes = notes(shown, rows);
    notes.extend(numbered.then(|| labels::NIC_NUMBERS.to_owned()));
    let lines: Vec<String> = notes.iter().map(|line| paint(FAINT, line)).collect();
    format!("\n{}\n", wrap::wrap(&lines.join("\n"), width))
}

/// Returns explanations of the occurring distances and of the numbering.
fn notes(shown: &TopologyView, rows: &[&Device]) -> Vec<String> {
    let mut lines = labels::legend(matrix::occurring(shown, rows));
    let gpus = &shown.devices.gpus;
    if !gpus.is_empty() {
        lines.push(labels::numbering(shown).to_owned());
    }
    if labels::has_nvidia(shown) && gpus.len() > 1 {
        lines.push(labels::NVLINK.to_owned());
    }
    if shown.devices.nics.iter().any(|nic| nic.class == DeviceClass::DataDirect) {
        lines.push(labels::DATA_DIRECT.to_owned());
    }
    lines.extend(unread(shown));
    lines
}

/// Lists functions that could not be read, if any.
fn unread(shown: &TopologyView) -> Option<String> {
    let unread = shown.topology.tree().unread();
    let named = some_of(unread.iter().map(|gap| gap.address.to_string()), 4, "PCI functions");
    let rest = match unread.len() {
        0 => return None,
        1 => "it may be a GPU or NIC that is missing here",
        _ => "each may be a GPU or NIC that is missing here",
    };
    Some(format!("{named} could not be read: {rest}."))
}

/// Returns the product name, or only the ids if the host has no pci.ids file.
fn product(shown: &TopologyView, function: &Function) -> String {
    let ids = || format!("{}:{}", function.vendor, function.device);
    names::with_ids(shown.names, function).unwrap_or_else(ids)
}
