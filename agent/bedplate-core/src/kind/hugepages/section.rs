//! `[hugepages]`: huge pages of each NUMA node.

use std::collections::BTreeMap;

use serde::Serialize;

use super::page_size::PageSize;
use crate::plan::Rationale;
use crate::section::{
    Checker, Place, Printer, Scalar, ScalarEntry, Spanned, key_of, quoted, section,
};

section! {
    /// `[hugepages]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    "hugepages" Hugepages, HugepagesFile {}
    special read_counts {
        /// Number of huge pages by size, `per_node = { "2M" = 1024 }`, on each NUMA node that has CPUs and memory. Set in
        /// the running kernel, at every boot. Memory is more likely free for `hugepages=` under `[cmdline]`, at the start of
        /// the kernel. Sizes that no key names stay unchanged. A later file replaces single values.
        #[schemars(
            extend("default" = {}),
            extend("examples" = [{ "2M": 1024 }]),
            extend("x-source" = "Linux Documentation/admin-guide/mm/hugetlbpage.rst; handbook §1.8")
        )]
        per_node: BTreeMap<Spanned<String>, ScalarEntry>;
        /// Numbers for single NUMA nodes, by node and size: `nodes = { "1" = { "1G" = 16 } }`. They take precedence over
        /// `per_node`, and may name a node without CPUs.
        #[schemars(
            extend("default" = {}),
            extend("examples" = [{ "1": { "1G": 16 } }]),
            extend("x-source" = "Linux Documentation/admin-guide/mm/hugetlbpage.rst; handbook §1.8")
        )]
        nodes: BTreeMap<Spanned<String>, BTreeMap<Spanned<String>, ScalarEntry>>;
    }
    before {
        /// For each NUMA node with CPUs and memory, by size.
        per_node: BTreeMap<PageSize, PageCount>;
        /// For single NUMA nodes, by node and size.
        nodes: BTreeMap<u16, BTreeMap<PageSize, PageCount>>;
    }
    show show_counts;
}

/// Desired number of huge pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PageCount {
    /// Number of pages.
    pub pages: u32,
    /// Location in the profile, and reason.
    pub why: Vec<Rationale>,
}

impl Hugepages {
    /// Returns the sizes of all numbers.
    pub fn sizes(&self) -> impl Iterator<Item = PageSize> {
        let single = self.nodes.values().flat_map(|counts| counts.keys());
        self.per_node.keys().chain(single).copied()
    }

    /// Whether the profile sets no number.
    pub fn is_empty(&self) -> bool {
        self.per_node.is_empty() && self.nodes.is_empty()
    }
}

/// Counts of one table in a file, by the size as written.
type Counts = BTreeMap<Spanned<String>, ScalarEntry>;

fn read_counts(section: &mut Hugepages, files: Vec<HugepagesFile>, checker: &mut Checker<'_>) {
    for file in files {
        if let Some(counts) = file.per_node {
            read_table("hugepages.per_node", counts, &mut section.per_node, checker);
        }
        let mut places: BTreeMap<u16, Place> = BTreeMap::new();
        for (name, counts) in file.nodes.into_iter().flatten() {
            let Ok(node) = name.value.parse::<u16>() else {
                let message = format!("`{}` is not the number of a NUMA node", name.value);
                let label = "expected a number like `0`";
                checker.error(name.place, "bad-hugepages", message, label, None);
                continue;
            };
            if let Some(first) = places.insert(node, name.place) {
                let message = format!("NUMA node {node} is in `hugepages.nodes` twice");
                let (at, with) = in_order(first, name.place);
                checker.clash("duplicate", message, at, with, None);
                continue;
            }
            let table = key_of("hugepages.nodes", &node.to_string());
            read_table(&table, counts, section.nodes.entry(node).or_default(), checker);
        }
    }
    section.nodes.retain(|_, counts| !counts.is_empty());
}

/// Reads the counts of one table, called `table` in dotted keys.
fn read_table(
    table: &str,
    counts: Counts,
    into: &mut BTreeMap<PageSize, PageCount>,
    checker: &mut Checker<'_>,
) {
    let mut places: BTreeMap<PageSize, Place> = BTreeMap::new();
    for (name, entry) in counts {
        let Some(size) = checker.parse::<PageSize>(&name, "bad-hugepages") else { continue };
        let place = entry.place;
        let (value, reason) = entry.into_parts();
        let Some(pages) = pages(&value) else {
            let message = format!("`{value}` is not a number of huge pages");
            let label = format!("expected a whole number from 0 to {}", u32::MAX);
            checker.error(place, "bad-hugepages", message, label, None);
            continue;
        };
        if let Some(first) = places.insert(size, name.place) {
            let message = format!("the size {size} is in `{table}` twice");
            let (at, with) = in_order(first, name.place);
            checker.clash("duplicate", message, at, with, None);
            continue;
        }
        let why = checker.note(&key_of(table, &size.to_string()), name.place, reason);
        into.insert(size, PageCount { pages, why });
    }
}

/// Returns the labels of two equal names, in the order of the file: maps are sorted by name.
fn in_order(one: Place, other: Place) -> ((Place, &'static str), (Place, &'static str)) {
    ((one.max(other), "again here"), (one.min(other), "first here"))
}

fn pages(value: &Scalar) -> Option<u32> {
    match value {
        Scalar::Number(number) => u32::try_from(*number).ok(),
        Scalar::Text(_) | Scalar::Truth(_) => None,
    }
}

fn show_counts(section: &Hugepages, out: &mut Printer<'_>) {
    let mut table = |name: &str, counts: &BTreeMap<PageSize, PageCount>| {
        for (size, count) in counts {
            let size = size.to_string();
            let key = key_of(&format!("hugepages.{name}"), &size);
            out.named(&format!("{name}.{}", quoted(&size)), &count.pages, &key);
        }
    };
    table("per_node", &section.per_node);
    for (node, counts) in &section.nodes {
        table(&format!("nodes.{node}"), counts);
    }
}
