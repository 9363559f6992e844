//! Details of a function and of a link, as lines of text.

use super::super::{TopologyView, labels, product};
use super::marks::{Mark, Redirect, State};
use super::tree::{BoxKind, Branch, node};
use crate::report::inspect::format::{link, reading};
use bedplate_base::Reading;
use bedplate_facts::pci::Function;
use bedplate_facts::topology::Distance;
use bedplate_facts::topology::devices::{Device, DeviceClass};
use bedplate_facts::topology::pcie_link::{Property, in_words};

/// Returns the details of a box: its type and the evidence.
pub(super) fn branch(shown: &TopologyView, branch: &Branch) -> Vec<String> {
    let function = branch.function;
    let head = match branch.what {
        BoxKind::RootPort => "root port".to_owned(),
        BoxKind::Switch => "switch, upstream port".to_owned(),
        BoxKind::NvSwitch => "NVSwitch".to_owned(),
        BoxKind::Device(device) => called(device),
    };
    let mut lines = vec![format!("{head} {}", function.address), product(shown, function)];
    let names: Vec<&str> =
        function.infiniband.iter().chain(&function.net).map(String::as_str).collect();
    if !names.is_empty() {
        lines.push(format!("names: {}", names.join(", ")));
    }
    lines.push(format!("driver: {}", function.driver.as_deref().unwrap_or("none")));
    if function.detail.is_some() {
        lines.push(format!("link: {}", link(function)));
    }
    lines.push(format!("NUMA node: {}", node(function)));
    lines.push(format!("IOMMU group: {}", reading(&function.iommu_group, u32::to_string)));
    if function.is_bridge() {
        lines.push(format!("ACS: {}", acs(function)));
    }
    if let Reading::Known(pf) = &function.sriov {
        let number = |value| reading(value, u16::to_string);
        lines.push(format!("VFs: {} of {}", number(&pf.enabled), number(&pf.total)));
    }
    if let BoxKind::Device(device) = branch.what {
        lines.extend(pairs(shown, device));
    }
    lines
}

/// Formats a device: `GPU0`, `NIC0 mlx5_0`.
fn called(device: &Device) -> String {
    match &device.name {
        Some(name) => format!("{} {name}", device.id),
        None => device.id.clone(),
    }
}

fn acs(function: &Function) -> String {
    match &function.acs {
        Reading::Known(acs) => acs.control.to_string(),
        Reading::Absent => "absent".to_owned(),
        Reading::Unknown(why) => format!("unknown: {why}"),
    }
}

/// Returns the recommended devices of a GPU with reasons, or the NIC of a Data Direct function.
fn pairs(shown: &TopologyView, device: &Device) -> Vec<String> {
    if device.class == DeviceClass::DataDirect {
        return vec![format!("Data Direct of {}", owners(shown, device))];
    }
    let Some(pairing) = shown.pairings.gpus.iter().find(|pair| pair.gpu == device.address()) else {
        return Vec::new();
    };
    let lists = [(&pairing.nics, labels::NIC), (&pairing.nvmes, labels::DISK)];
    let mut lines = Vec::new();
    for (choices, what) in lists {
        for (nth, choice) in choices.iter().enumerate() {
            let name = shown.devices.at(choice.peer).map_or("?", Device::called);
            let why = labels::reason(shown, device, choice, what, nth > 0);
            lines.push(format!("{} to use: {name}, {} ({why})", what.0, choice.distance));
        }
    }
    lines
}

/// Returns the NICs that a Data Direct function belongs to.
pub(super) fn owners(shown: &TopologyView, device: &Device) -> String {
    let nics: Vec<&str> =
        device.of.iter().filter_map(|nic| shown.devices.at(*nic)).map(Device::called).collect();
    if nics.is_empty() { "an unknown NIC".to_owned() } else { nics.join(", ") }
}

/// Returns the details of a link: ends, state, ACS.
pub(super) fn wire(branch: &Branch, mark: &Mark) -> Vec<String> {
    let Some(above) = mark.above else {
        return vec![format!("{} is on the root complex", branch.function.address)];
    };
    let mut lines = vec![
        format!("link {} – {}", above.address, branch.function.address),
        format!("speed: {}", property(mark.speed, in_words)),
        format!("width: {}", property(mark.width, |lanes| format!("x{lanes}"))),
    ];
    match mark.state {
        State::Idle => lines.push("slower than both ends support, as for idle GPUs".to_owned()),
        State::Degraded => lines.push("degraded: less than both ends support".to_owned()),
        State::Best | State::Unknown => {}
    }
    lines.push(format!("ACS of port {}: {}", above.address, acs(above)));
    lines.extend(match mark.redirect {
        Some(Redirect::On(bits)) => {
            Some(format!("{bits}: peer-to-peer traffic is redirected to the root complex"))
        }
        Some(Redirect::ForGuests(bits)) => Some(format!(
            "{bits}: redirected to the root complex, as required: a function below is assigned to a VM"
        )),
        Some(Redirect::Unknown) => Some("redirect state unknown".to_owned()),
        None => None,
    });
    lines.push(format!("nearest traffic: {}", labels::cell(branch.class)));
    lines
}

fn property(property: Property, words: impl Fn(u32) -> String) -> String {
    let shown = |number: Option<u32>| number.map_or_else(|| "unknown".to_owned(), &words);
    format!("{} of {}", shown(property.now), shown(property.best))
}

/// Returns the text above and below a link: speed and width if below the maximum, otherwise both in one text.
pub(super) fn labels(mark: &Mark) -> (String, String) {
    let now =
        |property: Property, words: fn(u32) -> String| property.now.map(words).unwrap_or_default();
    let (speed, width) = (mark.speed, mark.width);
    match mark.state {
        State::Best if mark.above.is_none() => Default::default(),
        State::Unknown => ("link ?".to_owned(), String::new()),
        State::Best => {
            let lanes = now(width, |lanes| format!("x{lanes}"));
            (format!("{} {lanes}", now(speed, in_words)), String::new())
        }
        State::Idle | State::Degraded => {
            let of = |property: Property, text: String| match property.is_degraded() {
                true => text,
                false => String::new(),
            };
            let number = |tenths: Option<u32>| {
                let words = tenths.map(in_words).unwrap_or_default();
                words.trim_end_matches(" GT/s").to_owned()
            };
            let best = speed.best.map(in_words).unwrap_or_default();
            (
                of(speed, format!("{} of {best}", number(speed.now))),
                of(width, format!("x{} of x{}", width.now.unwrap_or(0), width.best.unwrap_or(0))),
            )
        }
    }
}

/// Returns the CSS class of a distance.
pub(super) fn class(distance: Distance) -> &'static str {
    match distance {
        Distance::Pix => "pix",
        Distance::Pxb => "pxb",
        Distance::Phb => "phb",
        Distance::Node => "node",
        Distance::Sys => "sys",
        Distance::Unknown => "far",
    }
}
