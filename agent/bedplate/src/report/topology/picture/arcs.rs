//! Lines at the right of the devices that connect each GPU with its recommended NIC.

use super::super::labels::cell;
use super::super::{TopologyView, labels as reasons};
use super::labels::class;
use super::scene::Group;
use super::tally::Tally;
use bedplate_base::value::PciAddress;
use bedplate_facts::topology::Distance;
use bedplate_facts::topology::devices::Device;

/// Maximum number of parallel lines. A pair without a free lane is not drawn; the box of the GPU still names the NIC.
const LANES: usize = 6;
/// Distance between lanes.
const STEP: i32 = 8;
/// Width of all lanes at the right of the devices.
pub(super) const ROOM: i32 = (LANES as i32 + 1) * STEP;

/// Returns the first recommended NIC of a GPU, with its distance.
pub(super) fn choice<'s>(shown: &'s TopologyView, gpu: &Device) -> Option<(&'s str, Distance)> {
    let pairing = shown.pairings.gpus.iter().find(|pair| pair.gpu == gpu.address())?;
    let choice = pairing.nics.first()?;
    Some((shown.devices.at(choice.peer)?.called(), choice.distance))
}

/// Draws the lines of one NUMA node. `places` are its devices from top to bottom; `x` is their right edge.
pub(super) fn draw(
    shown: &TopologyView,
    places: &[(PciAddress, i32)],
    x: i32,
    tally: &mut Tally,
) -> Vec<Group> {
    let place = |wanted| places.iter().find(|(at, _)| *at == wanted).map(|(_, y)| *y);
    let mut pairs = Vec::new();
    for (gpu, pairing) in shown.paired_gpus() {
        for (nth, choice) in pairing.nics.iter().enumerate() {
            let Some(from) = place(gpu.address()) else { continue };
            let Some(to) = place(choice.via.unwrap_or(choice.peer)) else { continue };
            pairs.push((from.abs_diff(to), from, to, gpu, choice, nth > 0));
        }
    }
    // Short lines are drawn inside long ones.
    pairs.sort_by_key(|(length, from, ..)| (*length, *from));
    let mut lanes: [Vec<(i32, i32)>; LANES] = Default::default();
    let mut groups = Vec::new();
    for (_, from, to, gpu, choice, further) in pairs {
        let (top, bottom) = (from.min(to), from.max(to));
        let is_free = |taken: &Vec<(i32, i32)>| taken.iter().all(|(a, b)| bottom < *a || *b < top);
        let Some(lane) = lanes.iter().position(is_free) else { continue };
        lanes[lane].push((top, bottom));
        let name = shown.devices.at(choice.peer).map_or("?", Device::called);
        let why = reasons::reason(shown, gpu, choice, reasons::NIC, further);
        let head = format!("{} and {name}: {}", gpu.id, cell(choice.distance));
        let mut group = Group::new(vec![head, why]);
        let right = x + (lane as i32 + 1) * STEP;
        let corners = [(x, from), (right, from), (right, to), (x, to)];
        group.line(&corners, "hit");
        group.line(&corners, format!("arc {}", class(choice.distance)));
        groups.push(group);
        tally.distances.push(choice.distance);
        tally.pairs = true;
    }
    groups
}
