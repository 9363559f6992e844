//! Formats facts for `bedplate inspect`: tables, a tree, JSON. Pure: no host, no terminal, no clock.

mod cmdline;
pub(super) mod format;
mod gaps;
mod summary;
mod tables;
mod tree;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::Serialize;

use super::wrap;
use bedplate_core::kind::cmdline::show::CommandLineView;
use bedplate_facts::Facts;
use bedplate_facts::names::Names;

/// Version of the JSON format. Raised when a field changes its meaning or is removed, not when one is added.
const VERSION: u32 = 2;

/// Full output of `inspect --json`.
#[derive(Serialize)]
struct Document<'a> {
    bedplate_inspect: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(flatten)]
    facts: &'a Facts,
    /// Names by id, if the host has a pci.ids file: `10de:2330` → `NVIDIA Corporation GH100 [H100 SXM5 80GB]`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pci_names: BTreeMap<String, String>,
    /// Kernel command line in its states.
    #[serde(skip_serializing_if = "Option::is_none")]
    command_line: Option<&'a CommandLineView>,
}

/// Formats the kernel command line in its states, one row per argument, in `width` columns.
pub(crate) fn command_line(shown: &CommandLineView, width: usize) -> String {
    let cells = u16::try_from(width).unwrap_or(u16::MAX);
    cmdline::table(shown, cells) + &wrap::wrap(&cmdline::below(shown), width)
}

/// Formats the machine, its GPUs, NICs and the ports above them, and unknown values, in `width` columns.
pub fn tables(facts: &Facts, names: &Names, width: usize) -> String {
    let cells = u16::try_from(width).unwrap_or(u16::MAX);
    let around = |text: String| wrap::wrap(&text, width);
    around(summary::block(facts))
        + &tables::sections(facts, names, cells)
        + &around(gaps::section(facts))
}

/// Formats the PCI tree, one line per function with grouped virtual functions, and unknown values.
pub fn tree(facts: &Facts, names: &Names) -> String {
    tree::lines(facts, names) + &gaps::section(facts)
}

/// Returns all facts, with a version, for output as JSON. `file` is the snapshot, if several are shown.
pub fn document<'a>(
    facts: &'a Facts,
    names: &Names,
    file: Option<&'a str>,
    command_line: Option<&'a CommandLineView>,
) -> impl Serialize + use<'a> {
    let functions = facts.pci.known().into_iter().flat_map(|tree| tree.functions.values());
    let mut pci_names = BTreeMap::new();
    for function in functions {
        let ids = format!("{}:{}", function.vendor, function.device);
        if let Entry::Vacant(place) = pci_names.entry(ids)
            && let Some(device) = names.device(function.vendor, function.device)
            && let Some(vendor) = names.vendor(function.vendor)
        {
            place.insert(format!("{vendor} {device}"));
        }
    }
    Document { bedplate_inspect: VERSION, file, facts, pci_names, command_line }
}

#[cfg(test)]
mod tests;
