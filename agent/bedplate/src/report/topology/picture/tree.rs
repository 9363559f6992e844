//! Tree of drawn parts: NUMA nodes, host bridges, root ports, switches, devices. A switch is represented by its
//! upstream port. VFs, empty ports and functions without GPU traffic are left out.

use std::collections::BTreeMap;

use super::super::TopologyView;
use bedplate_base::value::PciAddress;
use bedplate_facts::pci::Function;
use bedplate_facts::topology::devices::{Device, DeviceClass};
use bedplate_facts::topology::pci_path::{PciPath, numa_node};
use bedplate_facts::topology::{Distance, Role};

/// Maximum number of drawn devices; a picture with more is unreadable.
const MOST: usize = 512;
/// Maximum number of drawn switch levels; only a fake tree has more.
const DEEPEST: usize = 6;

/// A NUMA node.
pub(super) struct Panel<'s, 'a> {
    /// Number of the node; `None` if firmware assigned no node.
    pub node: Option<i32>,
    /// Nearest traffic that leaves its host bridges.
    pub class: Distance,
    /// Host bridges, by the names of their root buses.
    pub hosts: Vec<Host<'s, 'a>>,
}

/// A host bridge.
pub(super) struct Host<'s, 'a> {
    /// Root bus.
    pub root: &'a str,
    /// Nearest traffic that leaves the host bridge.
    pub class: Distance,
    /// Boxes below it.
    pub below: Vec<Branch<'s, 'a>>,
}

/// A box: a port, a switch, a device.
pub(super) struct Branch<'s, 'a> {
    /// The function, or the upstream port of a switch.
    pub function: &'a Function,
    /// Type of the box.
    pub what: BoxKind<'s, 'a>,
    /// Nearest traffic on the line to the box.
    pub class: Distance,
    /// Boxes below it.
    pub below: Vec<Branch<'s, 'a>>,
}

/// Type of a box.
#[derive(Clone, Copy)]
pub(super) enum BoxKind<'s, 'a> {
    RootPort,
    Switch,
    Device(&'s Device<'a>),
    NvSwitch,
}

/// Returns the tree, and the number of devices that are left out.
pub(super) fn tree<'s, 'a>(shown: &'s TopologyView<'a>) -> (Vec<Panel<'s, 'a>>, usize) {
    let mut leaves = leaves(shown);
    let left_out = leaves.len().saturating_sub(MOST);
    leaves.truncate(MOST);
    leaves.sort_by_key(|(function, ..)| function.address);
    // Nodes without a number come last.
    let mut nodes: BTreeMap<(bool, Option<i32>), Hosts> = BTreeMap::new();
    for (function, what, spot) in &leaves {
        let hosts = nodes.entry((spot.node.is_none(), spot.node)).or_default();
        let below = hosts.entry(spot.root).or_default();
        insert(shown, below, (function, *what), spot);
    }
    let alone = nodes.len() == 1;
    let panels = nodes.into_iter().map(|((_, node), hosts)| panel(node, hosts, alone));
    (panels.collect(), left_out)
}

/// Boxes below each host bridge, by its root bus.
type Hosts<'s, 'a> = BTreeMap<&'a str, Vec<Branch<'s, 'a>>>;
/// A device with its box type and PCI path.
type Leaf<'s, 'a> = (&'a Function, BoxKind<'s, 'a>, PciPath<'a>);

/// Returns the devices, the most important first.
fn leaves<'s, 'a>(shown: &'s TopologyView<'a>) -> Vec<Leaf<'s, 'a>> {
    let devices = shown.devices.all().filter(|device| device.class != DeviceClass::Vf);
    let devices = devices.map(|d| (d.function, BoxKind::Device(d), d.spot.clone()));
    let switches = shown.topology.tree().functions.values().filter(|f| f.is_nvswitch());
    let switches =
        switches.filter_map(|f| Some((f, BoxKind::NvSwitch, shown.topology.path_of(f.address)?)));
    devices.chain(switches).collect()
}

fn insert<'s, 'a>(
    shown: &'s TopologyView<'a>,
    mut below: &mut Vec<Branch<'s, 'a>>,
    (function, what): (&'a Function, BoxKind<'s, 'a>),
    spot: &PciPath<'a>,
) {
    let stop = |at: &PciAddress| {
        let what = match shown.topology.role(*at) {
            Role::RootPort => BoxKind::RootPort,
            Role::Upstream => BoxKind::Switch,
            Role::Downstream | Role::Other => return None,
        };
        Some((shown.topology.tree().get(*at)?, what))
    };
    for (port, what) in spot.path.iter().rev().filter_map(stop).take(DEEPEST) {
        let known = below.iter().position(|branch| branch.function.address == port.address);
        let at = known.unwrap_or_else(|| {
            below.push(Branch::new(port, what));
            below.len() - 1
        });
        below = &mut below[at].below;
    }
    below.push(Branch::new(function, what));
}

impl<'s, 'a> Branch<'s, 'a> {
    fn new(function: &'a Function, what: BoxKind<'s, 'a>) -> Self {
        Branch { function, what, class: Distance::Unknown, below: Vec::new() }
    }

    fn is_leaf(&self) -> bool {
        matches!(self.what, BoxKind::Device(_) | BoxKind::NvSwitch)
    }

    /// Returns the number of box levels above the devices.
    pub(super) fn depth(&self) -> usize {
        match self.is_leaf() {
            true => 0,
            false => 1 + self.below.iter().map(Branch::depth).max().unwrap_or(0),
        }
    }
}

fn panel<'s, 'a>(node: Option<i32>, hosts: Hosts<'s, 'a>, alone: bool) -> Panel<'s, 'a> {
    let class = match (hosts.len(), node, alone) {
        (2.., Some(_), _) => Distance::Node,
        (_, None, _) => Distance::Unknown,
        (_, Some(_), false) => Distance::Sys,
        (_, Some(_), true) => Distance::Phb,
    };
    let hosts = hosts.into_iter().map(|(root, mut below)| {
        let class = if below.len() > 1 { Distance::Phb } else { class };
        below.iter_mut().for_each(|branch| classify(branch, class));
        Host { root, class, below }
    });
    Panel { node, class, hosts: hosts.collect() }
}

/// Sets the nearest traffic on the line to a box and on the lines below it. The line above the box carries `class`.
fn classify(branch: &mut Branch, class: Distance) {
    branch.class = class;
    let is_switch = matches!(branch.what, BoxKind::Switch);
    let leaves = branch.below.iter().filter(|below| below.is_leaf()).count();
    let all = branch.below.len();
    for below in &mut branch.below {
        let class = match below.is_leaf() && leaves > 1 {
            _ if !is_switch || all < 2 => class,
            true => Distance::Pix,
            false => Distance::Pxb,
        };
        classify(below, class);
    }
}

/// Returns the NUMA node of a box as text.
pub(super) fn node(function: &Function) -> String {
    numa_node(function).map_or_else(|| "unknown".to_owned(), |node| node.to_string())
}
