//! Identity and location of a function, from its `uevent` and its link in /sys/bus/pci/devices. Pure.

use bedplate_base::value::{PciAddress, PciId};

/// Location of a function, from its link (`../../../devices/pci0000:16/0000:16:01.0/0000:17:00.0`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) root: String,
    /// Bridges above, from the root bus down.
    pub(super) above: Vec<PciAddress>,
}

impl Place {
    pub(super) fn from_link(link: &str) -> Option<Self> {
        let mut root = None;
        let mut path = Vec::new();
        for part in link.split('/').filter(|part| !part.is_empty()) {
            if part.starts_with("pci") && part.contains(':') {
                // A volume-management device has its own host bridge below it; the last host bridge applies.
                root = Some(part);
                path.clear();
            } else if root.is_some() {
                path.push(part.parse::<PciAddress>().ok()?);
            }
        }
        path.pop()?;
        Some(Place { root: root?.to_owned(), above: path })
    }

    /// Returns the function that a device below it belongs to (`…/0000:17:00.0/vfio-dev/vfio0`), and its location if
    /// parsable.
    pub(super) fn of_child(link: &str) -> Option<(PciAddress, Option<Self>)> {
        let parts: Vec<&str> = link.split('/').collect();
        let last = parts.iter().rposition(|part| part.parse::<PciAddress>().is_ok())?;
        Some((parts[last].parse().ok()?, Place::from_link(&parts[..=last].join("/"))))
    }
}

/// Content of `uevent`. Missing fields are read from single files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) class: Option<u32>,
    pub(super) id: Option<(PciId, PciId)>,
    pub(super) subsystem: Option<(PciId, PciId)>,
    pub(super) driver: Option<String>,
}

impl Identity {
    pub(super) fn from_uevent(text: &str) -> Self {
        let mut identity = Identity::default();
        for line in text.lines() {
            let Some((key, value)) = line.split_once('=') else { continue };
            match key {
                "DRIVER" => identity.driver = Some(value.to_owned()),
                "PCI_CLASS" => identity.class = u32::from_str_radix(value, 16).ok(),
                "PCI_ID" => identity.id = id_pair(value),
                "PCI_SUBSYS_ID" => identity.subsystem = id_pair(value),
                _ => {}
            }
        }
        identity
    }
}

fn id_pair(text: &str) -> Option<(PciId, PciId)> {
    let (vendor, device) = text.split_once(':')?;
    Some((vendor.parse().ok()?, device.parse().ok()?))
}
