//! Short display text for PCI numbers: vendors, classes, port types, links, VFs. Decisions never depend on it.

use crate::report::names::vendor;
use bedplate_base::terminal::one_line;
use bedplate_base::{Cause, Reading, Reason};
use bedplate_facts::pci::{Function, PortType};

/// Placeholder for an absent value.
pub(super) const NONE: &str = "–";
/// Placeholder for an unreadable value.
pub(super) const UNKNOWN: &str = "unknown";

/// Maximum line width before wrapping.
const WIDTH: usize = 110;

/// Makes text of the host safe for one line or cell.
pub(super) fn clean(text: &str) -> String {
    one_line(text)
}

/// Formats vendor and ids: `NVIDIA 10de:2330`.
pub(in crate::report) fn ids(function: &Function) -> String {
    let numbers = format!("{}:{}", function.vendor, function.device);
    match vendor(function.vendor) {
        Some(name) => format!("{name} {numbers}"),
        None => numbers,
    }
}

/// Returns the port type of a bridge, or the class of another function (include/linux/pci_ids.h).
pub(super) fn class(function: &Function) -> String {
    if function.is_bridge() {
        return match &function.port {
            Reading::Known(port) => port_type(*port),
            Reading::Absent | Reading::Unknown(_) => "PCI bridge".to_owned(),
        };
    }
    let word = match function.class >> 8 {
        0x0801 if function.is_data_direct() => "Data Direct",
        0x0680 if function.is_nvswitch() => "NVSwitch",
        0x0101 => "IDE",
        0x0104 => "RAID",
        0x0106 => "SATA",
        0x0107 => "SAS",
        0x0108 => "NVMe",
        0x0200 => "Ethernet",
        0x0207 => "InfiniBand",
        0x0300 => "VGA",
        0x0302 => "3D",
        0x0502 => "CXL memory",
        0x0600 => "host bridge",
        0x0601 => "ISA bridge",
        0x0806 => "IOMMU",
        0x0c03 => "USB",
        0x0c05 => "SMBus",
        0x1200 => "accelerator",
        other => return base_class(other),
    };
    word.to_owned()
}

/// Returns the word for the upper eight bits of a 16-bit class.
fn base_class(class: u32) -> String {
    let word = match class >> 8 {
        0x01 => "storage",
        0x02 => "network",
        0x03 => "display",
        0x04 => "multimedia",
        0x05 => "memory",
        0x06 => "bridge",
        0x07 => "communication",
        0x08 => "system",
        0x0b => "processor",
        0x0c => "serial bus",
        0x10 => "crypto",
        0x11 => "signal processing",
        0x12 => "accelerator",
        _ => return format!("class {class:04x}"),
    };
    word.to_owned()
}

/// Returns the PCI Express name of a port type.
fn port_type(port: PortType) -> String {
    let word = match port {
        PortType::Endpoint | PortType::LegacyEndpoint => "endpoint",
        PortType::RootPort => "root port",
        PortType::Upstream => "upstream port",
        PortType::Downstream => "downstream port",
        PortType::PcieToPci => "PCIe-to-PCI bridge",
        PortType::PciToPcie => "PCI-to-PCIe bridge",
        PortType::IntegratedEndpoint => "integrated endpoint",
        PortType::EventCollector => "event collector",
        PortType::Reserved(value) => return format!("port type {value}"),
    };
    word.to_owned()
}

/// Formats the current link (`32 GT/s x16`), with its maximum if that is more: `2.5 GT/s x8 (32 GT/s x16)`.
pub(in crate::report) fn link(function: &Function) -> String {
    if function.is_dead() {
        return "no answer".to_owned();
    }
    let Some(detail) = &function.detail else { return "not read".to_owned() };
    let link = &detail.link;
    let now = side(link.speed.as_deref(), link.width);
    let max = side(link.max_speed.as_deref(), link.max_width);
    if max == NONE || now == max { now } else { format!("{now} ({max})") }
}

fn side(speed: Option<&str>, width: Option<u8>) -> String {
    match (speed, width) {
        (Some(speed), Some(width)) => format!("{} x{width}", short_speed(speed)),
        (Some(speed), None) => short_speed(speed),
        (None, Some(width)) => format!("x{width}"),
        (None, None) => NONE.to_owned(),
    }
}

/// Shortens `32.0 GT/s PCIe` to `32 GT/s`.
fn short_speed(text: &str) -> String {
    clean(&text.replacen(" PCIe", "", 1).replacen(".0 ", " ", 1))
}

/// Formats a value, or the placeholder for an absent or unknown value.
pub(in crate::report) fn reading<T>(
    reading: &Reading<T>,
    show: impl FnOnce(&T) -> String,
) -> String {
    match reading {
        Reading::Known(value) => clean(&show(value)),
        Reading::Absent => NONE.to_owned(),
        Reading::Unknown(_) => UNKNOWN.to_owned(),
    }
}

/// Returns the cause of an unknown value in two words.
pub(super) fn unread(why: &Reason) -> &'static str {
    match why.cause {
        Cause::NotRecorded => "not recorded",
        Cause::Denied | Cause::ShortConfig | Cause::Hidden | Cause::NotReadable => "not readable",
        Cause::NoAnswer => "no answer",
        Cause::NotUnderstood | Cause::NotAsked => UNKNOWN,
    }
}

/// Formats a size: `280 MiB`, `2015 GiB`.
pub(super) fn memory(bytes: u64) -> String {
    let (shift, unit) = if bytes < 4 << 30 { (20, "MiB") } else { (30, "GiB") };
    format!("{} {unit}", bytes.saturating_add(1 << (shift - 1)) >> shift)
}

/// Formats a NUMA node. The kernel reports −1 if firmware assigned no node.
pub(super) fn node(function: &Function) -> String {
    reading(&function.numa_node, |node| match node {
        -1 => "none".to_owned(),
        node => node.to_string(),
    })
}

/// Wraps at blanks to at most [`WIDTH`] columns; a longer word stays whole.
pub(super) fn wrapped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut column = 0;
    for word in text.split(' ') {
        let width = word.chars().count();
        if column > 0 {
            let fits = column + width < WIDTH;
            out.push(if fits { ' ' } else { '\n' });
            column = if fits { column + 1 } else { 0 };
        }
        out.push_str(word);
        column += width;
    }
    out
}
