//! Tree of `inspect --tree`: one line per physical function by root bus, with grouped virtual functions below.

use std::collections::{BTreeMap, BTreeSet};

use super::format::{UNKNOWN, class, clean, ids, link, reading};
use crate::report::names::name;
use crate::report::style::{FAINT, HEAD, WARN, paint};
use bedplate_base::value::PciAddress;
use bedplate_base::{Reading, counted};
use bedplate_facts::Facts;
use bedplate_facts::names::Names;
use bedplate_facts::pci::{Function, Link, PciTree};

/// Maximum indented depth. A domain has 256 buses, so only a fake tree is deeper.
const DEEPEST: usize = 256;

/// Formats the tree, or the reason why there is none.
pub(super) fn lines(facts: &Facts, names: &Names) -> String {
    match &facts.pci {
        Reading::Known(tree) if tree.functions.is_empty() => "No PCI functions.\n".to_owned(),
        Reading::Known(tree) => Drawing::new(tree, names).draw(),
        Reading::Absent => "This host has no PCI bus.\n".to_owned(),
        Reading::Unknown(_) => "PCI functions are unknown.\n".to_owned(),
    }
}

/// A function to draw.
struct Pending {
    address: PciAddress,
    /// Branches of the levels above.
    indent: String,
    depth: usize,
    last: bool,
}

struct Drawing<'a> {
    tree: &'a PciTree,
    names: &'a Names<'a>,
    /// Functions directly below each bridge, without VFs.
    children: BTreeMap<PciAddress, Vec<PciAddress>>,
    /// VFs by PF.
    vfs: BTreeMap<PciAddress, Vec<&'a Function>>,
    /// Functions directly below each root bus.
    roots: BTreeMap<&'a str, Vec<PciAddress>>,
    drawn: BTreeSet<PciAddress>,
    out: String,
}

impl<'a> Drawing<'a> {
    fn new(tree: &'a PciTree, names: &'a Names<'a>) -> Self {
        let mut drawing = Drawing {
            tree,
            names,
            children: BTreeMap::new(),
            vfs: BTreeMap::new(),
            roots: BTreeMap::new(),
            drawn: BTreeSet::new(),
            out: String::new(),
        };
        for function in tree.functions.values() {
            match (function.physfn, function.parent) {
                (Some(pf), _) if tree.get(pf).is_some_and(|pf| !pf.is_vf()) => {
                    drawing.vfs.entry(pf).or_default().push(function);
                }
                (_, Some(parent)) if tree.functions.contains_key(&parent) => {
                    drawing.children.entry(parent).or_default().push(function.address);
                }
                // A parent bridge that is not in the tree is reported as a gap.
                _ => drawing.roots.entry(&function.root).or_default().push(function.address),
            }
        }
        drawing
    }

    fn draw(mut self) -> String {
        for (root, functions) in std::mem::take(&mut self.roots) {
            let name = if root.is_empty() {
                "location in the tree unknown".to_owned()
            } else {
                clean(root)
            };
            self.out += &format!("{}\n", paint(HEAD, &name));
            self.branch(functions, "", 0);
        }
        self.draw_rest();
        self.out
    }

    /// Draws functions whose parents form a loop and that are therefore below no root.
    fn draw_rest(&mut self) {
        let folded: BTreeSet<PciAddress> =
            self.vfs.values().flatten().map(|function| function.address).collect();
        let left =
            |address: &&PciAddress| !self.drawn.contains(address) && !folded.contains(address);
        let rest: Vec<PciAddress> = self.tree.functions.keys().filter(left).copied().collect();
        if rest.is_empty() {
            return;
        }
        self.out += &format!("{}\n", paint(WARN, "not connected to any root bus"));
        self.branch(rest, "", 0);
    }

    /// Draws these functions and everything below them. Uses a work list instead of recursion, because a recorded tree
    /// may have any depth.
    fn branch(&mut self, functions: Vec<PciAddress>, indent: &str, depth: usize) {
        let mut work = Vec::new();
        push(&mut work, functions, indent, depth);
        while let Some(next) = work.pop() {
            if !self.drawn.insert(next.address) {
                continue;
            }
            let Some(function) = self.tree.get(next.address) else { continue };
            let corner = if next.last { "└─ " } else { "├─ " };
            self.out += &format!("{}{corner}{}\n", next.indent, describe(function, self.names));
            let below = match (next.depth < DEEPEST, next.last) {
                (false, _) => next.indent,
                (true, true) => next.indent + "   ",
                (true, false) => next.indent + "│  ",
            };
            let children = self.children.remove(&next.address).unwrap_or_default();
            if let Some(vfs) = self.vfs.get(&next.address) {
                let corner = if children.is_empty() { "└─ " } else { "├─ " };
                self.out += &format!("{below}{corner}{}\n", folded(vfs));
            }
            push(&mut work, children, &below, next.depth + 1);
        }
    }
}

/// Adds functions to the work list so that they are taken off in order.
fn push(work: &mut Vec<Pending>, functions: Vec<PciAddress>, indent: &str, depth: usize) {
    let count = functions.len();
    let pending = functions.into_iter().enumerate().map(|(index, address)| Pending {
        address,
        indent: indent.to_owned(),
        depth,
        last: index + 1 == count,
    });
    work.extend(pending.rev());
}

/// Formats one function: address, class, name and ids, link, NUMA node, ACS, IOMMU group, driver, VFs, names.
fn describe(function: &Function, names: &Names) -> String {
    let shown = function.is_gpu() || function.is_nic();
    let address = function.address.to_string();
    let address = if shown { paint(HEAD, &address) } else { address };
    let numbers = || format!("{}:{}", function.vendor, function.device);
    let what = name(names, function).map(|name| format!("{name} {}", numbers()));
    let what = what.unwrap_or_else(|| ids(function));
    let mut parts = vec![format!("{address} {}", class(function)), paint(FAINT, &what)];
    if function.detail.as_ref().is_some_and(|detail| detail.link != Link::default()) {
        parts.push(link(function));
    }
    match &function.numa_node {
        Reading::Known(-1) => parts.push("no NUMA node".to_owned()),
        Reading::Known(node) => parts.push(format!("NUMA {node}")),
        Reading::Unknown(_) => parts.push("NUMA unknown".to_owned()),
        Reading::Absent => {}
    }
    parts.extend(acs(function));
    // A setting of the NIC's firmware (ATS_ENABLED), which determines the required setting of its ports.
    if let Some(Reading::Known(on)) = function.detail.as_ref().map(|detail| &detail.ats) {
        parts.push(format!("ATS {}", if *on { "on" } else { "off" }));
    }
    match &function.iommu_group {
        Reading::Known(group) => parts.push(format!("group {group}")),
        Reading::Unknown(_) => parts.push("group unknown".to_owned()),
        Reading::Absent => {}
    }
    parts.extend(function.driver.as_deref().map(clean));
    if let Reading::Known(pf) = &function.sriov {
        let (enabled, total) =
            (reading(&pf.enabled, u16::to_string), reading(&pf.total, u16::to_string));
        parts.push(format!("VFs {enabled}/{total}"));
    }
    let names: Vec<&str> =
        function.net.iter().chain(&function.infiniband).map(String::as_str).collect();
    if !names.is_empty() {
        parts.push(clean(&names.join(" ")));
    }
    parts.join("  ")
}

/// Formats the enabled bits. Shows an absent or unknown value only for bridges.
fn acs(function: &Function) -> Option<String> {
    match &function.acs {
        Reading::Known(acs) if acs.control.is_empty() => Some("ACS off".to_owned()),
        Reading::Known(acs) => Some(format!("ACS {}", acs.control)),
        Reading::Absent if function.is_bridge() => Some("no ACS".to_owned()),
        Reading::Unknown(_) if function.is_bridge() => Some(paint(WARN, &format!("ACS {UNKNOWN}"))),
        Reading::Absent | Reading::Unknown(_) => None,
    }
}

/// Formats a group of VFs: `7 VFs 0000:24:10.0 … 0000:24:10.6  mlx5_core`, with counts if drivers differ.
fn folded(vfs: &[&Function]) -> String {
    let mut drivers: BTreeMap<&str, usize> = BTreeMap::new();
    for vf in vfs {
        *drivers.entry(vf.driver.as_deref().unwrap_or("no driver")).or_default() += 1;
    }
    let same = drivers.len() == 1;
    let drivers: Vec<String> = drivers
        .iter()
        .map(
            |(driver, number)| {
                if same { clean(driver) } else { format!("{number} {}", clean(driver)) }
            },
        )
        .collect();
    let range = match vfs {
        [first, .., last] => format!("{} … {}", first.address, last.address),
        [only] => only.address.to_string(),
        [] => String::new(),
    };
    format!("{} {range}  {}", counted(vfs.len(), "VF"), drivers.join(", "))
}
