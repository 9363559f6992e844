//! Text for distances, reasons and devices.

use super::{TopologyView, product};
use bedplate_base::terminal::one_line;
use bedplate_facts::topology::Distance;
use bedplate_facts::topology::devices::{Device, DeviceClass};
use bedplate_facts::topology::pairing::Choice;

/// Singular and plural of a recommended device.
pub(super) type Noun = (&'static str, &'static str);
/// NICs.
pub(super) const NIC: Noun = ("NIC", "NICs");
/// Disks.
pub(super) const DISK: Noun = ("NVMe disk", "NVMe disks");

/// Maximum number of GPUs listed as sharing a device.
const MOST_NAMED: usize = 16;

/// Note about the numbering of GPUs.
const NUMBERS: &str = "GPUs are numbered in PCI order.";
/// Note about the numbering of GPUs, on hosts with NVIDIA's tools.
const NUMBERS_NVIDIA: &str = "GPUs are numbered in PCI order, as nvidia-smi does. CUDA numbers the fastest first \
    unless CUDA_DEVICE_ORDER=PCI_BUS_ID.";
/// Note about the numbering of NICs, for headings with a number.
pub(super) const NIC_NUMBERS: &str = "NICs are numbered by RDMA device name, shorter names first (apparently as in nvidia-smi); \
    NICs without one follow.";
/// Note why the matrix has no `NV18`.
pub(super) const NVLINK: &str =
    "NVLink is not shown: between GPUs this is the PCIe path, where nvidia-smi may show NV#.";
/// Note about columns such as `mlx5_0_dma`.
pub(super) const DATA_DIRECT: &str =
    "NAME_dma is the Data Direct function of that NIC: a direct path to a GPU, bypassing the CPU.";

/// Whether the host has an NVIDIA GPU.
pub(super) fn has_nvidia(shown: &TopologyView) -> bool {
    shown.devices.gpus.iter().any(|gpu| gpu.function.vendor.0 == 0x10de)
}

/// Returns the note about the numbering of this host's GPUs.
pub(super) fn numbering(shown: &TopologyView) -> &'static str {
    if has_nvidia(shown) { NUMBERS_NVIDIA } else { NUMBERS }
}

/// Formats a distance for a cell.
pub(super) fn cell(distance: Distance) -> &'static str {
    match distance {
        Distance::Unknown => "?",
        known => known.letters(),
    }
}

/// Explains the distances that occur (handbook §8.2, §8.3).
pub(super) fn legend(occurring: impl IntoIterator<Item = Distance>) -> Vec<String> {
    let line = |distance| {
        let meaning = match distance {
            Distance::Pix => "through one PCIe switch, or on one device",
            Distance::Pxb => "through several PCIe switches, not through the CPU",
            Distance::Phb => "through the CPU, below one PCIe host bridge",
            Distance::Node => "through the CPU, between host bridges of one NUMA node",
            Distance::Sys => "across NUMA nodes, on most machines over the link between the CPUs",
            Distance::Unknown => "NODE or SYS: no NUMA node assigned by firmware",
        };
        format!("{:<4}  {meaning}", cell(distance))
    };
    occurring.into_iter().map(line).collect()
}

/// Explains why the GPU should use this device.
pub(super) fn reason(
    shown: &TopologyView,
    gpu: &Device,
    choice: &Choice,
    (one, several): Noun,
    further: bool,
) -> String {
    let called = |address| {
        shown.devices.at(address).map_or_else(|| format!("{address}"), |d| one_line(d.called()))
    };
    let mut parts = vec![place(shown, gpu, choice)];
    if let Some(via) = choice.via {
        parts[0] = format!("through its Data Direct function {}: {}", called(via), parts[0]);
    }
    if let Some((nearer, distance)) = choice.taken {
        parts
            .push(format!("{} is nearer ({distance}) but paired with another GPU", called(nearer)));
    }
    let others = choice.shared_with(gpu.address());
    if !others.is_empty() {
        let more = others.len().saturating_sub(MOST_NAMED);
        let mut others: Vec<String> = others.into_iter().take(MOST_NAMED).map(called).collect();
        others.extend((more > 0).then(|| format!("{more} more GPUs")));
        let gpus = shown.devices.gpus.len();
        let counts = shown.pairings.counts;
        let count = if several == NIC.1 { counts.0 } else { counts.1 };
        let why = match count < gpus {
            true if count == 1 => format!("only 1 {one} for {gpus} GPUs"),
            true => format!("only {count} {several} for {gpus} GPUs"),
            false => format!("no free {one} is as near"),
        };
        parts.push(format!("shared with {}: {why}", others.join(", ")));
    }
    if further {
        parts.push("no other GPU uses it".to_owned());
    }
    parts.join("; ")
}

fn place(shown: &TopologyView, gpu: &Device, choice: &Choice) -> String {
    let peer = shown.devices.at(choice.via.unwrap_or(choice.peer));
    let switch = peer.and_then(|peer| shown.topology.meeting_switch(&gpu.spot, &peer.spot));
    match (choice.distance, switch) {
        (Distance::Pix, Some((switch, _))) => format!("same switch, {switch}"),
        (Distance::Pix, None) => "same slot or device".to_owned(),
        (Distance::Pxb, Some((switch, count))) => {
            format!("{count} switches in between, topmost {switch}")
        }
        (Distance::Pxb, None) => "only switches in between".to_owned(),
        (Distance::Phb, _) => format!("same host bridge, {}", one_line(gpu.spot.root)),
        (Distance::Node, _) => match gpu.spot.node {
            Some(node) => format!("both on NUMA node {node}"),
            None => "same NUMA node".to_owned(),
        },
        (Distance::Sys, _) => "another NUMA node; none is nearer".to_owned(),
        (Distance::Unknown, _) => {
            "no NUMA node assigned by firmware; none is known to be nearer".to_owned()
        }
    }
}

/// Formats one device: heading, address, NUMA node, product and further names.
pub(super) fn key(shown: &TopologyView, device: &Device, heads: &Heads) -> Vec<String> {
    let function = device.function;
    let head = heads(device);
    let mut about = vec![product(shown, device.function)];
    let names = [device.name.as_deref()].into_iter().flatten();
    let names = names.chain(function.infiniband.iter().chain(&function.net).map(String::as_str));
    let mut others: Vec<String> = Vec::new();
    for name in names.map(one_line) {
        if name != head && !others.contains(&name) {
            others.push(name);
        }
    }
    about.extend((!others.is_empty()).then(|| others.join(", ")));
    let of: Vec<String> =
        device.of.iter().filter_map(|nic| shown.devices.at(*nic)).map(heads).collect();
    if device.class == DeviceClass::DataDirect {
        about.push(match of.is_empty() {
            true => "Data Direct of an unknown NIC".to_owned(),
            false => format!("Data Direct of {}", of.join(", ")),
        });
    }
    if device.class == DeviceClass::Vf && !of.is_empty() {
        about.push(format!("VF of {}", of.join(", ")));
    }
    let node = device.spot.node.map_or_else(|| "NUMA –".to_owned(), |node| format!("NUMA {node}"));
    vec![head, function.address.to_string(), node, about.join("; ")]
}

/// Function that returns the heading of a device's column.
pub(super) type Heads<'h> = dyn Fn(&Device) -> String + 'h;
