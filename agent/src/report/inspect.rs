//! Facts → what `bedplate inspect` shows: tables, a tree, JSON. Pure: no host, no terminal, no clock.

mod gaps;
mod summary;
mod tables;
mod tree;
mod words;

use serde::Serialize;

use super::wrap;
use crate::facts::Facts;

/// Version of the JSON form; raised when a field changes its meaning or goes away, not when one is added.
const VERSION: u32 = 1;

/// Everything, as `inspect --json` writes it.
#[derive(Serialize)]
struct Document<'a> {
    bedplate_inspect: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(flatten)]
    facts: &'a Facts,
}

/// The machine, its GPUs, NICs and the ports above them, and what could not be read, in `width` columns.
pub fn tables(facts: &Facts, width: usize) -> String {
    let cells = u16::try_from(width).unwrap_or(u16::MAX);
    let around = |text: String| wrap::wrap(&text, width);
    around(summary::block(facts)) + &tables::sections(facts, cells) + &around(gaps::section(facts))
}

/// The PCI tree, one function a line, virtual functions folded, and what could not be read.
pub fn tree(facts: &Facts) -> String {
    tree::lines(facts) + &gaps::section(facts)
}

/// All facts, with a version on top. `file`: which snapshot they are from, where several are shown.
///
/// # Errors
/// What the serialiser says; the facts hold nothing that JSON cannot.
pub fn json(facts: &Facts, file: Option<&str>) -> Result<String, serde_json::Error> {
    let document = Document { bedplate_inspect: VERSION, file, facts };
    serde_json::to_string_pretty(&document).map(|text| text + "\n")
}

#[cfg(test)]
mod tests;
