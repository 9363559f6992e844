//! NUMA nodes, ports, switches and devices as boxes with two lines of text.

use super::super::TopologyView;
use super::super::labels::cell;
use super::arcs;
use super::labels;
use super::scene::{Anchor, CHAR, Group, cut, width};
use super::tree::{BoxKind, Branch, Panel};
use crate::report::inspect::format::ids;
use crate::report::names::name;
use bedplate_base::Reading;
use bedplate_facts::topology::devices::{Device, DeviceClass};

/// Margin around everything, and within a NUMA node.
pub(super) const MARGIN: i32 = 14;
/// Half the height of a box with two lines.
pub(super) const HALF: i32 = 17;
/// Width of a root port or switch. Its address has at most 13 characters, including VMD's domains.
pub(super) const PORT: i32 = 13 * CHAR + 12;
/// Number of characters per line of a device.
const LETTERS: usize = 34;
/// Width of a device.
pub(super) const DEVICE: i32 = LETTERS as i32 * CHAR + 2 * PAD;
/// Height of the heading of a NUMA node.
pub(super) const HEAD: i32 = 30;
/// Padding beside the text of a device.
const PAD: i32 = 7;

/// Draws the heading of a NUMA node.
pub(super) fn heading(
    shown: &TopologyView,
    panel: &Panel,
    (x, top, wide): (i32, i32, i32),
) -> Group {
    let name = match panel.node {
        Some(node) => format!("NUMA node {node}"),
        None => "NUMA node unknown".to_owned(),
    };
    let cpus = panel.node.and_then(|node| shown.placement.node_cpus.get(&node));
    let cpus = cpus.and_then(Reading::known).map(|cpus| format!("CPUs {cpus}"));
    let cpus = cpus.unwrap_or_else(|| "CPUs unknown".to_owned());
    let mut group = Group::new(vec![name.clone(), cpus.clone()]);
    group.rect((x, top, wide, HEAD), "head");
    let line = top + HEAD / 2 + 4;
    let room = (wide - 2 * MARGIN - width(&name)) / CHAR - 2;
    group.text((x + MARGIN, line), Anchor::Start, "strong", name);
    let cpus = cut(&cpus, usize::try_from(room).unwrap_or(0));
    group.text((x + wide - MARGIN, line), Anchor::End, "", cpus);
    group
}

/// Draws a root port or a switch.
pub(super) fn port(shown: &TopologyView, branch: &Branch, at: (i32, i32, i32, i32)) -> Group {
    let (name, class) = match branch.what {
        BoxKind::Switch => ("switch", "box switch"),
        _ => ("root port", "box port"),
    };
    let mut group = read(shown, branch);
    group.rect(at, class);
    let (x, middle) = (at.0 + at.2 / 2, at.1 + at.3 / 2);
    group.text((x, middle - 4), Anchor::Middle, "strong", name);
    group.text((x, middle + 11), Anchor::Middle, "", branch.function.address.to_string());
    group
}

/// Draws a device: name and address, with the recommended NIC of a GPU; product, with notes.
pub(super) fn device(shown: &TopologyView, branch: &Branch, (x, middle): (i32, i32)) -> Group {
    let device = match branch.what {
        BoxKind::Device(device) => Some(device),
        _ => None,
    };
    let class = device.map_or("nvswitch", |device| css_class(device.class));
    let mut group = read(shown, branch);
    group.rect((x, middle - HALF, DEVICE, 2 * HALF), format!("box {class}"));
    let (left, right) = (x + PAD, x + DEVICE - PAD);
    let address = branch.function.address.to_string();
    let called = device.map_or("NVSwitch", Device::called);
    let mut room = LETTERS.saturating_sub(address.len() + 1);
    if let Some((nic, distance)) = device.and_then(|device| arcs::choice(shown, device)) {
        let letters = cell(distance);
        let left = room.saturating_sub(called.len() + letters.len() + 2);
        let text = format!("{} {letters}", cut(nic, left));
        room = called.len();
        let class = format!("strong ink-{}", labels::class(distance));
        group.text((right, middle - 4), Anchor::End, class, text);
    }
    let called = cut(called, room);
    let after = left + width(&called) + CHAR;
    group.text((left, middle - 4), Anchor::Start, "strong", called);
    group.text((after, middle - 4), Anchor::Start, "", address);
    let note = device.map(|device| note(shown, device)).unwrap_or_default();
    let room = LETTERS.saturating_sub(note.len() + usize::from(!note.is_empty()));
    let about = name(shown.names, branch.function).unwrap_or_else(|| ids(branch.function));
    let about = cut(&about, room);
    group.text((left, middle + 11), Anchor::Start, "faint", about);
    if !note.is_empty() {
        group.text((right, middle + 11), Anchor::End, "strong", note);
    }
    group
}

fn read(shown: &TopologyView, branch: &Branch) -> Group {
    let id = branch.function.address.to_string().replace([':', '.'], "-");
    Group { id: Some(format!("f-{id}")), ..Group::new(labels::branch(shown, branch)) }
}

fn css_class(class: DeviceClass) -> &'static str {
    match class {
        DeviceClass::Gpu => "gpu",
        DeviceClass::Nic | DeviceClass::Vf => "nic",
        DeviceClass::DataDirect => "dma",
        DeviceClass::Nvme => "nvme",
    }
}

/// Returns the notes in the box itself: VFs, assignment to a VM.
fn note(shown: &TopologyView, device: &Device) -> String {
    let mut notes = Vec::new();
    if shown.topology.tree().may_be_a_guests(device.function) {
        notes.push("VM".to_owned());
    }
    if let Reading::Known(pf) = &device.function.sriov {
        notes.extend(match &pf.enabled {
            Reading::Known(0) | Reading::Absent => None,
            Reading::Known(1) => Some("1 VF".to_owned()),
            Reading::Known(count) => Some(format!("{count} VFs")),
            Reading::Unknown(_) => Some("VFs ?".to_owned()),
        });
    }
    notes.join(", ")
}
