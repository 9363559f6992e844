//! Where one function is, worked out once, so that it can be compared with many others.

use super::{Distance, Role, Topology, meeting, place, same_device};
use crate::pci::Function;
use bedplate_base::value::PciAddress;

/// The place of a function; a VF has its PF's.
#[derive(Debug, Clone)]
pub struct PciPath<'a> {
    at: PciAddress,
    /// Bridges above, nearest first.
    pub path: Vec<PciAddress>,
    /// Root bus as sysfs names it (`pci0000:15`); empty: not known.
    pub root: &'a str,
    /// NUMA node; `None`: the firmware gives none, or it could not be read.
    pub node: Option<i32>,
}

impl<'a> Topology<'a> {
    /// Where a function is; `None`: there is no such function.
    pub fn path_of(&self, address: PciAddress) -> Option<PciPath<'a>> {
        let function = place(self.tree(), self.tree().get(address)?);
        Some(PciPath {
            at: function.address,
            path: self.tree().path_up(address),
            root: &function.root,
            node: numa_node(function),
        })
    }

    /// How far apart two places are, by the rule of handbook §8.3.
    pub fn between(&self, a: &PciPath, b: &PciPath) -> Distance {
        if same_device(a.at, b.at) {
            return Distance::Pix;
        }
        // What meets at all has the topmost bridge in common.
        let together = a.path.last() == b.path.last();
        if let Some((i, j)) = together.then(|| meeting(&a.path, &b.path)).flatten() {
            return if self.switches((&a.path[..=i], &b.path[..j])) > 1 {
                Distance::Pxb
            } else {
                Distance::Pix
            };
        }
        if !a.root.is_empty() && a.root == b.root {
            return Distance::Phb;
        }
        match (a.node, b.node) {
            (Some(a), Some(b)) if a == b => Distance::Node,
            (Some(_), Some(_)) => Distance::Sys,
            _ => Distance::Unknown,
        }
    }

    /// Switches on the two legs of a way, the bridge at which they meet among the first.
    fn switches(&self, (one, other): (&[PciAddress], &[PciAddress])) -> usize {
        one.iter().chain(other).filter(|bridge| self.role(**bridge) == Role::Upstream).count()
    }

    /// The switch in which two ways meet, by its upstream port, and how many switches are on them in all. `None`: they do
    /// not meet inside of one.
    pub fn meeting_switch(&self, a: &PciPath, b: &PciPath) -> Option<(PciAddress, usize)> {
        let (i, j) = meeting(&a.path, &b.path)?;
        let switch = a.path[..=i].iter().rev().find(|at| self.role(**at) == Role::Upstream)?;
        Some((*switch, self.switches((&a.path[..=i], &b.path[..j]))))
    }
}

/// A node that the firmware has given.
pub fn numa_node(function: &Function) -> Option<i32> {
    function.numa_node.known().copied().filter(|node| *node >= 0)
}
