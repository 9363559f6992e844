//! Lines at the right of the devices that join each GPU with the NIC it should use.

use super::super::labels::cell;
use super::super::{TopologyView, labels as reasons};
use super::labels::class;
use super::scene::Group;
use super::tally::Tally;
use bedplate_base::value::PciAddress;
use bedplate_facts::topology::Distance;
use bedplate_facts::topology::devices::Device;

/// Lines side by side; what finds no place is not drawn, and the box of the GPU says it all the same.
const LANES: usize = 6;
/// From one to the next.
const STEP: i32 = 8;
/// What they take at the right of the devices.
pub(super) const ROOM: i32 = (LANES as i32 + 1) * STEP;

/// The NIC that a GPU should use first, and how far it is.
pub(super) fn choice<'s>(shown: &'s TopologyView, gpu: &Device) -> Option<(&'s str, Distance)> {
    let pairing = shown.pairings.gpus.iter().find(|pair| pair.gpu == gpu.address())?;
    let choice = pairing.nics.first()?;
    Some((shown.devices.at(choice.peer)?.called(), choice.distance))
}

/// Draws those of one NUMA node. `places`: where its devices are, from top to bottom; `x`: their right edge.
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
    // Short ones inside of long ones.
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
