//! Location of one function, computed once for many comparisons.

use super::{Distance, Role, Topology, meeting, place, same_device};
use crate::pci::Function;
use bedplate_base::value::PciAddress;

/// Location of a function; a VF has its PF's.
#[derive(Debug, Clone)]
pub struct PciPath<'a> {
    at: PciAddress,
    /// Bridges above, nearest first.
    pub path: Vec<PciAddress>,
    /// Root bus as named in sysfs (`pci0000:15`); empty: unknown.
    pub root: &'a str,
    /// NUMA node, if readable and set by the firmware.
    pub node: Option<i32>,
}

impl<'a> Topology<'a> {
    /// Returns the location of a function, if it is in the tree.
    pub fn path_of(&self, address: PciAddress) -> Option<PciPath<'a>> {
        let function = place(self.tree(), self.tree().get(address)?);
        Some(PciPath {
            at: function.address,
            path: self.tree().path_up(address),
            root: &function.root,
            node: numa_node(function),
        })
    }

    /// Returns the distance of two locations, by the rule of handbook §8.3.
    pub fn between(&self, a: &PciPath, b: &PciPath) -> Distance {
        if same_device(a.at, b.at) {
            return Distance::Pix;
        }
        // Paths that meet share their topmost bridge.
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

    /// Counts the switches on two path segments; the first one includes the bridge where they meet.
    fn switches(&self, (one, other): (&[PciAddress], &[PciAddress])) -> usize {
        one.iter().chain(other).filter(|bridge| self.role(**bridge) == Role::Upstream).count()
    }

    /// Returns the upstream port of the switch in which two paths meet, and the number of switches on both segments.
    /// `None`: no common switch.
    pub fn meeting_switch(&self, a: &PciPath, b: &PciPath) -> Option<(PciAddress, usize)> {
        let (i, j) = meeting(&a.path, &b.path)?;
        let switch = a.path[..=i].iter().rev().find(|at| self.role(**at) == Role::Upstream)?;
        Some((*switch, self.switches((&a.path[..=i], &b.path[..j]))))
    }
}

/// Returns the NUMA node, if the firmware sets one.
pub fn numa_node(function: &Function) -> Option<i32> {
    function.numa_node.known().copied().filter(|node| *node >= 0)
}
