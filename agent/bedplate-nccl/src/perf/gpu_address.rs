//! PCI addresses of GPUs in result files.

use bedplate_base::value::PciAddress;

/// Address in a result file.
#[derive(Clone, Copy)]
enum Place {
    /// Bus number, in old versions.
    Bus(u8),
    /// Address; the function is arbitrary.
    Device(PciAddress),
}

fn place(text: &str) -> Option<Place> {
    match text.strip_prefix("0x") {
        Some(bus) => u8::from_str_radix(bus, 16).ok().map(Place::Bus),
        None => text.parse().or_else(|_| format!("{text}.0").parse()).ok().map(Place::Device),
    }
}

/// Whether a text is an address of a GPU: `0000:1b:00`, `0000:1b:00.0`, `0x1b`.
pub(super) fn is_address(text: &str) -> bool {
    place(text).is_some()
}

/// Whether a function has the address in a result file.
pub(super) fn is_at(own: PciAddress, text: &str) -> bool {
    place(text).is_some_and(|place| match place {
        Place::Bus(bus) => bus == own.bus,
        Place::Device(address) => PciAddress { function: own.function, ..address } == own,
    })
}
