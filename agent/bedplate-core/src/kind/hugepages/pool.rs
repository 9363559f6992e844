//! Huge pages of one size on one NUMA node, as sysfs shows them (Linux mm/hugetlb.c, Documentation/ABI/stable/
//! sysfs-devices-node). The kernel never frees pages that programs use: a number below those turns the difference into
//! surplus pages, which vanish when they are released.

use super::page_size::PageSize;
use crate::kind::attribute::{self, not_understood};
use crate::setting::WriteAttribute;
use bedplate_base::{OptionalRead as _, ReadError};
use bedplate_facts::limits::HUGE_PAGES;
use bedplate_facts::topology::cpulist;
use bedplate_host::Reader;

/// Directory of the NUMA nodes.
const NODES: &str = "/sys/devices/system/node";
/// Attribute with the number of pages.
const COUNT: &str = "nr_hugepages";

/// Huge pages of one size on one NUMA node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pool {
    pub node: u16,
    pub size: PageSize,
}

/// State of a [`Pool`], in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PoolState {
    /// All pages.
    pub total: u64,
    /// Pages beyond the requested number, which the kernel frees when their programs end.
    pub surplus: u64,
    /// Surplus pages of all nodes.
    pub surplus_anywhere: u64,
    /// Pages that programs use or have reserved. The kernel does not tell the node of a reservation, so each node counts
    /// all of them.
    pub used: u64,
}

impl Pool {
    /// Returns the path of the number of pages.
    pub(super) fn path(self) -> String {
        self.attribute(COUNT)
    }

    /// Returns the pool with this number of pages.
    fn of_path(path: &str) -> Option<Self> {
        let (node, rest) = path.strip_prefix(NODES)?.strip_prefix("/node")?.split_once('/')?;
        let directory = rest.strip_prefix("hugepages/")?.strip_suffix(COUNT)?.strip_suffix('/')?;
        Some(Pool { node: node.parse().ok()?, size: PageSize::of_directory(directory)? })
    }

    fn attribute(self, name: &str) -> String {
        format!("{}/{}/{name}", directory(self.node), self.size.directory())
    }

    /// Reads the state.
    pub(super) fn read(self, reader: &dyn Reader) -> Result<PoolState, ReadError> {
        let number = |name| attribute::number(reader, &self.attribute(name));
        let (total, free) = (number(COUNT)?, number("free_hugepages")?);
        let global = |name: &str| {
            attribute::number(reader, &format!("{HUGE_PAGES}/{}/{name}", self.size.directory()))
        };
        let used = total.saturating_sub(free).saturating_add(global("resv_hugepages")?).min(total);
        let surplus = number("surplus_hugepages")?;
        Ok(PoolState { total, surplus, surplus_anywhere: global("surplus_hugepages")?, used })
    }
}

/// Returns why the number of pages must not be restored: programs use more. `None` if they do not, or if `action`
/// concerns other attributes. Unknown counts as use.
pub(crate) fn use_of_pages(reader: &dyn Reader, action: &WriteAttribute) -> Option<String> {
    let pool = Pool::of_path(&action.path)?;
    let wanted: u64 = action.after.trim().parse().ok()?;
    match pool.read(reader) {
        Ok(state) if wanted < state.used => Some(format!("{} pages are in use", state.used)),
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    }
}

/// Whether an action requests more pages of a node than `before`.
pub(crate) fn adds_pages(action: &WriteAttribute) -> bool {
    let number = |text: &str| text.trim().parse::<u64>();
    let values = (number(&action.before), number(&action.after));
    Pool::of_path(&action.path).is_some()
        && matches!(values, (Ok(before), Ok(after)) if after > before)
}

/// Returns the NUMA nodes with CPUs and memory. GPU memory and CXL memory are nodes without CPUs.
pub(super) fn nodes(reader: &dyn Reader) -> Result<Vec<u16>, ReadError> {
    let list = |name: &str| {
        let path = format!("{NODES}/{name}");
        let text = reader.attribute(&path)?;
        cpulist::of_list(&text).ok_or_else(|| not_understood(&path, &text))
    };
    let (memory, cpus) = (list("has_memory")?, list("has_cpu")?);
    Ok(memory.intersection(&cpus).filter_map(|node| u16::try_from(*node).ok()).collect())
}

/// Returns the sizes of a node's huge pages; `None`: the node does not exist, or the kernel has no huge pages.
pub(super) fn sizes(reader: &dyn Reader, node: u16) -> Result<Option<Vec<PageSize>>, ReadError> {
    let names = reader.list(&directory(node)).optional()?;
    let size = |name: &String| PageSize::of_directory(name);
    Ok(names.map(|names| {
        let mut sizes: Vec<PageSize> = names.iter().filter_map(size).collect();
        sizes.sort();
        sizes
    }))
}

/// Returns the memory of a node in bytes.
pub(super) fn memory(reader: &dyn Reader, node: u16) -> Result<u64, ReadError> {
    let path = format!("{NODES}/node{node}/meminfo");
    let text = reader.text(&path)?;
    // `Node 0 MemTotal:       131072 kB` (drivers/base/node.c).
    let line = text.lines().find_map(|line| line.split_once(" MemTotal:"));
    let kib = line.and_then(|(_, rest)| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let bytes = kib.and_then(|kib| kib.checked_mul(1024));
    bytes.ok_or_else(|| ReadError::Failed { path, reason: "no MemTotal in kB".into() })
}

/// Returns the memory of all NUMA nodes with CPUs, in bytes.
pub(crate) fn memory_of_cpus(reader: &dyn Reader) -> Result<u64, ReadError> {
    nodes(reader)?.into_iter().map(|node| memory(reader, node)).sum()
}

/// Returns the directory of a node's huge pages.
fn directory(node: u16) -> String {
    format!("{NODES}/node{node}/hugepages")
}
