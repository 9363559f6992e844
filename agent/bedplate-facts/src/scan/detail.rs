//! Thorough part of the scan: link, windows, device control and capabilities of one function.

use crate::caps::{self, CommandAndStatus, Lookup, Pcie};
use crate::pci::{Bar, Detail, Function, Link};
use bedplate_base::{ReadError, Reading, Reason};
use bedplate_host::{ConfigSpace, Reader};

/// Fills in port, ACS and detail of a function.
pub(super) fn fill(
    function: &mut Function,
    reader: &dyn Reader,
    directory: &str,
    config: Result<&dyn ConfigSpace, &ReadError>,
) {
    let windows = || {
        reader.text(&format!("{directory}/resource")).map(|text| bars(&text)).unwrap_or_default()
    };
    let mut detail = Detail {
        link: Link::default(),
        bus_master: Reading::Absent,
        bars: if function.is_gpu() || function.is_nic() { windows() } else { Vec::new() },
        control: Reading::Absent,
        ats: Reading::Absent,
        sriov: Reading::Absent,
    };
    match config {
        Ok(config) => {
            let registers = CommandAndStatus::read(config);
            let pcie = registers.clone().and_then(|found| caps::pcie_of(config, found));
            detail.bus_master = caps::reading(registers.map(|found| Some(found.is_bus_master())));
            capabilities(function, &mut detail, config, pcie);
        }
        Err(error) => {
            super::unread(function, error);
            detail.bus_master = Reading::unknown(error);
            unknown(&mut detail, &error.into());
        }
    }
    if let Reading::Unknown(_) = function.port {
        // The registers are unreadable, but the kernel's link attributes need no privileges.
        detail.link = attributes(reader, directory);
    }
    function.detail = Some(Box::new(detail));
}

fn unknown(detail: &mut Detail, why: &Reason) {
    detail.control = Reading::Unknown(why.clone());
    detail.ats = Reading::Unknown(why.clone());
    detail.sriov = Reading::Unknown(why.clone());
}

fn capabilities(
    function: &mut Function,
    detail: &mut Detail,
    config: &dyn ConfigSpace,
    pcie: Lookup<Pcie>,
) {
    let pcie = match pcie {
        Ok(Some(pcie)) => pcie,
        Ok(None) => {
            function.port = Reading::Absent;
            function.acs = Reading::Absent;
            return;
        }
        Err(error) => {
            let why = Reason::from(error);
            function.port = Reading::Unknown(why.clone());
            function.acs = Reading::Unknown(why.clone());
            return unknown(detail, &why);
        }
    };
    function.port = Reading::Known(pcie.port());
    // A VF's control bits are reserved; those of its PF apply (handbook §7).
    if !function.has_reserved_registers() {
        let control = caps::control(config, pcie);
        // An integrated endpoint has no link; its link registers, if implemented, are zero.
        detail.link = match &control {
            Ok(control) => registers(control.link_best, control.link_now),
            Err(_) => Link::default(),
        };
        detail.control = caps::reading(control.map(|control| Some(control.device)));
    }
    match caps::thorough(config) {
        Ok(found) => {
            detail.ats = Reading::from_option(found.ats);
            detail.sriov = Reading::from_option(found.sriov);
            function.acs = super::acs(function, pcie.port(), || Ok(found.acs));
        }
        Err(error) => {
            let why = Reason::from(error);
            function.acs = Reading::Unknown(why.clone());
            detail.ats = Reading::Unknown(why.clone());
            detail.sriov = Reading::Unknown(why);
        }
    }
}

/// Decodes both link registers: speed in bits 3:0, width in bits 9:4 (handbook §7).
fn registers(best: u32, now: u32) -> Link {
    let speed = |register: u32| {
        let rate = ["2.5", "5.0", "8.0", "16.0", "32.0", "64.0"]
            .get((register & 0xf).checked_sub(1)? as usize)?;
        Some(format!("{rate} GT/s PCIe"))
    };
    let width = |register: u32| {
        u8::try_from(register >> 4 & 0x3f).ok().filter(|lanes| (1..=32).contains(lanes))
    };
    Link { speed: speed(now), width: width(now), max_speed: speed(best), max_width: width(best) }
}

/// Reads the kernel's attributes: `32.0 GT/s PCIe`. VFs and powered-down links show `Unknown` and negative widths.
fn attributes(reader: &dyn Reader, directory: &str) -> Link {
    let attribute = |name: &str| {
        let text = reader.attribute(&format!("{directory}/{name}")).ok()?;
        (!text.is_empty() && !text.starts_with("Unknown")).then_some(text)
    };
    let width = |name| {
        attribute(name).and_then(|text| text.parse().ok()).filter(|lanes| (1..=32).contains(lanes))
    };
    Link {
        speed: attribute("current_link_speed"),
        width: width("current_link_width"),
        max_speed: attribute("max_link_speed"),
        max_width: width("max_link_width"),
    }
}

/// Parses lines `start end flags` (handbook §6.1); unused windows are all zero.
fn bars(text: &str) -> Vec<Bar> {
    text.lines().take(13).enumerate().filter_map(|(index, line)| bar(index, line)).collect()
}

fn bar(index: usize, line: &str) -> Option<Bar> {
    let mut fields = line
        .split_ascii_whitespace()
        .map(|field| u64::from_str_radix(field.strip_prefix("0x").unwrap_or(field), 16).ok());
    let (start, end, flags) = (fields.next()??, fields.next()??, fields.next()??);
    if flags == 0 || end < start {
        return None;
    }
    Some(Bar {
        index: u8::try_from(index).ok()?,
        start,
        size: (end - start).checked_add(1)?,
        flags,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_registers_match_kernel_wording() {
        let link = registers(0x0047_7105, 0x0104);
        assert_eq!(link.max_speed.as_deref(), Some("32.0 GT/s PCIe"));
        assert_eq!((link.max_width, link.width), (Some(16), Some(16)));
        assert_eq!(link.speed.as_deref(), Some("16.0 GT/s PCIe"));
        assert_eq!(registers(0, 0), Link::default());
        assert_eq!(registers(0xf, 0xf), Link::default());
    }

    #[test]
    fn used_windows_have_their_line_number() {
        let text = "0x00000000 0x00000000 0x00000000\n\
                    0x00000c0000000000 0x00000c1fffffffff 0x000000000014220c\n\
                    0xffff 0x0 0x200\nrubbish\n";
        assert_eq!(
            bars(text),
            [Bar { index: 1, start: 0x0c00_0000_0000, size: 128 << 30, flags: 0x14_220c }]
        );
    }
}
